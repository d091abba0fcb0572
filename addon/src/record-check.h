// Plays a record through on a copy of the sequences' state, before anything is done: whatever the engine would meet
// with an assertion, or would silently compute wrong, is refused here.
#pragma once

#include "context.h"
#include "record.h"

#include <cstdint>
#include <vector>

namespace plimsoll {

class RecordCheck {
public:
  // Throws AddonError invalid_record. `output_words`: room for the step's output.
  void Check(const Context& context, const RecordView& record, int64_t output_words);

private:
  struct Shadow {
    int32_t length;
    int32_t request;
    bool has_last_token;
    bool started;
    bool done;
    bool has_start;
    bool has_segment;
  };

  void CheckOp(const Context& context, const int32_t* op);
  void CheckCopy(const Context& context, const int32_t* op);
  void CheckSegment(const Context& context, const RecordView& record, const int32_t* segment);
  Shadow& At(int32_t sequence);

  std::vector<Shadow> shadows_;
  int64_t decoded_tokens_ = 0;
  int64_t samples_ = 0;
};

} // namespace plimsoll
