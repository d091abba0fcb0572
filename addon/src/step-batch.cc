// How a record's segments become the batch that the engine computes, in one part or in two.
#include "layout.h"
#include "step.h"

#include <algorithm>

namespace plimsoll {
namespace {

namespace segment_field = layout::SEGMENT;

} // namespace

void Step::FindDecodes(const Context& context) {
  first_decode_ = record_.segment_count;
  last_decode_ = -1;
  int32_t previous = -1;
  spare_tokens_ = context.spec.batch_tokens;
  for (int32_t index = 0; index < record_.segment_count; index++) {
    const int32_t count = record_.segments[index * layout::SEGMENT_WORDS + segment_field::count];
    spare_tokens_ -= count;
    const int32_t sequence = record_.segments[index * layout::SEGMENT_WORDS + segment_field::sequence];
    // Only in order of the sequences is what lies between two segments known to be in no other.
    if (sequence <= previous) {
      last_decode_ = -1;
      return;
    }
    previous = sequence;
    if (count != 1)
      continue;
    first_decode_ = std::min(first_decode_, index);
    last_decode_ = index;
  }
}

// Private streams are computed together only in runs of consecutive ones, so one idle stream among sixty that decode
// makes two computations of one, and each reads all weights. A token for the idle stream keeps the batch in one piece;
// it is taken away afterwards, and nobody reads its logits.
void Step::BridgeGap(Context& context, int32_t from, int32_t to) {
  const int32_t gap = to - from;
  if (gap < 1 || gap > context.bridged_gap || gap > spare_tokens_)
    return;
  for (int32_t index = from; index < to; index++) {
    if (context.sequences[index].length >= context.rounded_cells)
      return;
  }
  for (int32_t index = from; index < to; index++) {
    AddToken(context, index, context.sequences[index].length, 0);
    bridges_.push_back(index);
  }
  spare_tokens_ -= gap;
}

void Step::AddToken(Context& context, int32_t sequence, int32_t position, llama_token token) {
  llama_batch& batch = context.batch;
  int32_t at = batch.n_tokens++;
  batch.token[at] = token;
  batch.pos[at] = position;
  batch.n_seq_id[at] = 1;
  batch.seq_id[at][0] = sequence;
  batch.logits[at] = 0;
}

void Step::AddSegment(Context& context, const int32_t* segment) {
  const int32_t index = segment[segment_field::sequence];
  Sequence& sequence = context.sequences[index];
  const bool is_placeholder = segment[segment_field::tokenIndex] == layout::PLACEHOLDER;
  const int32_t* tokens = is_placeholder ? &sequence.last_token : record_.tokens + segment[segment_field::tokenIndex];
  for (int32_t offset = 0; offset < segment[segment_field::count]; offset++)
    AddToken(context, index, segment[segment_field::position] + offset, tokens[offset]);
  const int32_t row_count = segment[segment_field::sample];
  if (row_count == 0)
    return;
  llama_batch& batch = context.batch;
  const int32_t first_row = batch.n_tokens - row_count;
  std::fill(batch.logits + first_row, batch.logits + batch.n_tokens, int8_t{1});
  sampled_.push_back({&sequence, index, first_row, static_cast<int32_t>(rows_.size()), row_count, tokens + 1, 0});
  rows_.resize(rows_.size() + static_cast<size_t>(row_count));
}

void Step::RemoveBridges(Context& context) {
  for (int32_t index : bridges_) {
    int32_t length = context.sequences[index].length;
    llama_memory_seq_rm(context.memory, index, length == 0 ? -1 : length, -1);
  }
}

int32_t Step::BuildBatch(Context& context) {
  context.batch.n_tokens = 0;
  rows_.clear();
  sampled_.clear();
  bridges_.clear();
  parts_.clear();
  int32_t dropped = 0;
  if (context.separates_prompts) {
    dropped = AddPart(context, Take::kDecodes) + AddPart(context, Take::kPrompts);
  } else {
    dropped = AddPart(context, Take::kAll);
  }
  return dropped;
}

int32_t Step::AddPart(Context& context, Take take) {
  Part part;
  part.first_token = context.batch.n_tokens;
  part.first_row = static_cast<int32_t>(rows_.size());
  part.first_sampled = static_cast<int32_t>(sampled_.size());
  FindDecodes(context);
  int32_t next_sequence = -1;
  int32_t dropped = 0;
  for (int32_t index = 0; index < record_.segment_count; index++) {
    const int32_t* segment = record_.segments + index * layout::SEGMENT_WORDS;
    const int32_t count = segment[segment_field::count];
    const bool is_decode = count == 1 || segment[segment_field::sample] == count;
    if (take != Take::kAll && is_decode != (take == Take::kDecodes))
      continue;
    const int32_t sequence = segment[segment_field::sequence];
    if (segment[segment_field::tokenIndex] == layout::PLACEHOLDER && context.sequences[sequence].done) {
      dropped++;
      continue;
    }
    part.decodes_only = part.decodes_only && is_decode;
    if (next_sequence >= 0 && index > first_decode_ && index <= last_decode_)
      BridgeGap(context, next_sequence, sequence);
    next_sequence = sequence + 1;
    AddSegment(context, segment);
  }
  part.token_count = context.batch.n_tokens - part.first_token;
  part.row_count = static_cast<int32_t>(rows_.size()) - part.first_row;
  part.sampled_count = static_cast<int32_t>(sampled_.size()) - part.first_sampled;
  if (part.token_count > 0)
    parts_.push_back(part);
  return dropped;
}

llama_batch Step::BatchOf(const Context& context, const Part& part) {
  llama_batch batch = context.batch;
  batch.n_tokens = part.token_count;
  batch.token += part.first_token;
  batch.pos += part.first_token;
  batch.n_seq_id += part.first_token;
  batch.seq_id += part.first_token;
  batch.logits += part.first_token;
  return batch;
}

} // namespace plimsoll
