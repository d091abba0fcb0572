// One engine step: a checked record is applied to the context, decoded, sampled, and its output written.
#pragma once

#include "context.h"
#include "record-check.h"
#include "record.h"
#include "sampler-pool.h"

#include <cstdint>
#include <vector>

namespace plimsoll {

class Step {
public:
  // Output words are written in every case; throws AddonError invalid_record (with that status written and nothing
  // done).
  void Run(Context& context, SamplerPool& pool, const int32_t* record, int64_t available, int32_t* output,
           int64_t output_words);

private:
  struct Row {
    Sequence* sequence;
    int32_t sequence_index;
    int32_t batch_index;
    float* logits;
  };

  // The engine's refusal of a removal that the check had allowed; 0 when all were done.
  int32_t ApplyOps(Context& context);
  void Remove(Context& context, const int32_t* op, bool& refused);
  void Copy(Context& context, const int32_t* op);
  void ApplyStarts(Context& context);
  // Fills the context's batch and rows_; returns how many placeholders were dropped.
  int32_t BuildBatch(Context& context);
  // First and last segment that are decodes (of one token), or none: between them a gap would tear the batch.
  void FindDecodes(const Context& context);
  void BridgeGap(Context& context, int32_t from, int32_t to);
  void AddToken(Context& context, int32_t sequence, int32_t position, llama_token token);
  void RemoveBridges(Context& context);
  void Decode(Context& context, int32_t* output);
  void FinishDecoded(Context& context);
  void SyncLengths(Context& context);
  void SampleRows(Context& context, SamplerPool& pool, int32_t* output);

  RecordView record_;
  RecordCheck check_;
  std::vector<Row> rows_;
  bool decodes_only_ = true;
  // Indices of segments.
  int32_t first_decode_ = 0;
  int32_t last_decode_ = -1;
  // Tokens that the batch may still take beside the record's.
  int32_t spare_tokens_ = 0;
  // Idle sequences in the batch, each with one token that is taken away again.
  std::vector<int32_t> bridges_;
  std::vector<SampleResult> results_;
};

} // namespace plimsoll
