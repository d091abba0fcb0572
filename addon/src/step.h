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
  // What is sampled of one segment: after its last token, or after all of them, of which those behind the first are
  // drafts.
  struct Sampled {
    Sequence* sequence;
    int32_t sequence_index;
    // Of the first row that is sampled, in the batch and in rows_.
    int32_t batch_index;
    int32_t row;
    int32_t row_count;
    // The drafts: `row_count` less one.
    const int32_t* drafts;
    // Tokens that were sampled: one more than there were right drafts.
    int32_t count;
  };
  // What one call of the engine computes: a stretch of the context's batch, of rows_ and of sampled_.
  struct Part {
    int32_t first_token = 0;
    int32_t token_count = 0;
    int32_t first_row = 0;
    int32_t row_count = 0;
    int32_t first_sampled = 0;
    int32_t sampled_count = 0;
    bool decodes_only = true;
  };
  enum class Take { kAll, kDecodes, kPrompts };

  // The engine's refusal of a removal that the check had allowed; 0 when all were done.
  int32_t ApplyOps(Context& context);
  void Remove(Context& context, const int32_t* op, bool& refused);
  void Copy(Context& context, const int32_t* op);
  void ApplyStarts(Context& context);
  // Fills the context's batch, rows_ and parts_; returns how many placeholders were dropped.
  int32_t BuildBatch(Context& context);
  int32_t AddPart(Context& context, Take take);
  void AddSegment(Context& context, const int32_t* segment);
  // First and last segment that are decodes (of one token), or none: between them a gap would tear the batch.
  void FindDecodes(const Context& context);
  void BridgeGap(Context& context, int32_t from, int32_t to);
  void AddToken(Context& context, int32_t sequence, int32_t position, llama_token token);
  void RemoveBridges(Context& context);
  static llama_batch BatchOf(const Context& context, const Part& part);
  void Decode(Context& context, const Part& part, int32_t* output);
  void FinishDecoded(Context& context, const llama_batch& batch);
  void SyncLengths(Context& context);
  void SampleRows(Context& context, SamplerPool& pool, const Part& part, int32_t* output);
  // Samples row after row as long as drafts are right. `samples` has room for all its rows; the last may stay unused.
  void SampleSegment(Sampled& sampled, SampleResult& result, Workspace& workspace, int32_t* samples);
  // Takes wrong drafts out of their sequences and closes the gaps that they have left between the part's samples.
  // False: the engine refused. `count`: samples that there are.
  bool DropWrongDrafts(Context& context, const Part& part, int32_t* samples, int32_t& count);

  RecordView record_;
  RecordCheck check_;
  std::vector<Sampled> sampled_;
  // Logits of every row that may be sampled.
  std::vector<float*> rows_;
  std::vector<Part> parts_;
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
