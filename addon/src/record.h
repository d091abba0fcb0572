// A batch record (src/shared/batch-wire.ts) found in shared words: where its parts are. The record is read in place.
#pragma once

#include <cstdint>
#include <vector>

namespace plimsoll {

struct StartView {
  int32_t sequence;
  int32_t request;
  const int32_t* history;
  int32_t history_count;
  int32_t sampled_before;
  const int32_t* block;
};

struct RecordView {
  int32_t op_count = 0;
  int32_t segment_count = 0;
  int32_t token_count = 0;
  int32_t threads = 0;
  const int32_t* ops = nullptr;
  const int32_t* segments = nullptr;
  const int32_t* tokens = nullptr;
  // Kept between steps, so that a step allocates nothing.
  std::vector<StartView> starts;
};

// Finds the parts of the record that begins at `record`, of which `available` words are there. Throws AddonError
// invalid_record when the counts do not add up to the record's length, or a start is malformed. What the numbers mean
// is checked by RecordCheck.
void ReadRecord(const int32_t* record, int64_t available, RecordView& view);

} // namespace plimsoll
