#include "record-check.h"

#include "errors.h"
#include "layout.h"

#include <algorithm>
#include <string>

namespace plimsoll {
namespace {

namespace op_field = layout::OP;
namespace op_kind = layout::OP_KIND;
namespace segment_field = layout::SEGMENT;

[[noreturn]] void Fail(const std::string& what) {
  throw AddonError("invalid_record", "the batch record " + what);
}

std::string Named(int32_t sequence) {
  return "sequence " + std::to_string(sequence);
}

} // namespace

RecordCheck::Shadow& RecordCheck::At(int32_t sequence) {
  if (sequence < 0 || sequence >= static_cast<int32_t>(shadows_.size())) {
    Fail("names " + Named(sequence) + "; the context has " + std::to_string(shadows_.size()));
  }
  return shadows_[sequence];
}

void RecordCheck::Check(const Context& context, const RecordView& record, int64_t output_words) {
  shadows_.clear();
  for (const Sequence& sequence : context.sequences) {
    shadows_.push_back(
        {sequence.length, sequence.request, sequence.last_token >= 0, sequence.started, sequence.done, false, false});
  }
  decoded_tokens_ = 0;
  samples_ = 0;
  for (int32_t index = 0; index < record.op_count; index++)
    CheckOp(context, record.ops + index * layout::OP_WORDS);
  for (const StartView& start : record.starts) {
    Shadow& shadow = At(start.sequence);
    if (shadow.has_start)
      Fail("starts " + Named(start.sequence) + " twice");
    shadow.has_start = true;
    shadow.started = true;
    shadow.done = false;
    shadow.has_last_token = false;
    shadow.request = start.request;
  }
  for (int32_t index = 0; index < record.segment_count; index++) {
    CheckSegment(context, record, record.segments + index * layout::SEGMENT_WORDS);
  }
  if (decoded_tokens_ > context.spec.batch_tokens) {
    Fail("has " + std::to_string(decoded_tokens_) + " tokens to decode; the context takes " +
         std::to_string(context.spec.batch_tokens));
  }
  // The context was made for one output a sequence.
  if (samples_ > context.spec.sequences) {
    Fail("has " + std::to_string(samples_) + " samples; the context takes " + std::to_string(context.spec.sequences));
  }
  if (output_words < layout::STEP_OUT_HEADER_WORDS + samples_ * layout::SAMPLE_WORDS)
    Fail("has more samples than the output has room for");
}

void RecordCheck::CheckOp(const Context& context, const int32_t* op) {
  int32_t sequence = op[op_field::sequence];
  Shadow& shadow = At(sequence);
  int32_t from = op[op_field::from];
  int32_t to = op[op_field::to];
  switch (op[op_field::kind]) {
  case op_kind::remove:
  case op_kind::evict:
    if (from < 0)
      Fail("removes from position " + std::to_string(from));
    // A hole in the middle would shift what later tokens attend to.
    if (to != -1 && to < shadow.length)
      Fail("removes the middle of " + Named(sequence));
    if (from >= shadow.length)
      return;
    if (from > 0 && !context.loaded->can_trim)
      Fail("cuts " + Named(sequence) + ", which this model cannot undo");
    shadow.length = from;
    shadow.has_last_token = false;
    return;
  case op_kind::copy:
    CheckCopy(context, op);
    return;
  case op_kind::stop:
    shadow.done = true;
    return;
  default:
    Fail("has an operation of unknown kind " + std::to_string(op[op_field::kind]));
  }
}

void RecordCheck::CheckCopy(const Context& context, const int32_t* op) {
  int32_t from = op[op_field::from];
  int32_t to = op[op_field::to];
  const Shadow& source = At(op[op_field::sequence]);
  Shadow& destination = At(op[op_field::destination]);
  if (&source == &destination)
    Fail("copies " + Named(op[op_field::sequence]) + " to itself");
  if (from < 0 || (to != -1 && to < from))
    Fail("copies an impossible range");
  int32_t end = to == -1 ? source.length : std::min(to, source.length);
  if (from > 0 && !(context.spec.is_shared && context.loaded->can_trim))
    Fail("copies from the middle of a sequence, which this context cannot");
  // Private streams are copied whole, over whatever was there; shared cells are added to those that the destination
  // has.
  if (context.spec.is_shared && destination.length != from) {
    Fail("copies to position " + std::to_string(from) + " of " + Named(op[op_field::destination]) + ", which has " +
         std::to_string(destination.length) + " tokens");
  }
  if (end < from)
    Fail("copies tokens that " + Named(op[op_field::sequence]) + " does not have");
  if (end < source.length && !context.loaded->can_trim)
    Fail("copies a part of a sequence, which this model cannot");
  destination.length = end;
  destination.has_last_token = false;
}

void RecordCheck::CheckSegment(const Context& context, const RecordView& record, const int32_t* segment) {
  int32_t sequence = segment[segment_field::sequence];
  int32_t count = segment[segment_field::count];
  int32_t token_index = segment[segment_field::tokenIndex];
  int32_t sampled = segment[segment_field::sample];
  bool samples = sampled != 0;
  Shadow& shadow = At(sequence);
  if (shadow.has_segment)
    Fail("has two segments of " + Named(sequence));
  shadow.has_segment = true;
  if (count < 1)
    Fail("has an empty segment");
  if (sampled < 0 || (sampled > 1 && sampled != count))
    Fail("samples " + std::to_string(sampled) + " of " + std::to_string(count) + " tokens");
  if (sampled > 1 && !context.loaded->can_trim)
    Fail("has drafts, which this model cannot undo");
  if (token_index == layout::PLACEHOLDER) {
    if (count != 1)
      Fail("has a placeholder of " + std::to_string(count) + " tokens");
    if (!shadow.started)
      Fail("has a placeholder for " + Named(sequence) + ", which has not started");
    // It will be dropped; its position was planned before the end was known.
    if (shadow.done)
      return;
    if (!shadow.has_last_token)
      Fail("has a placeholder for " + Named(sequence) + ", which has sampled nothing since it was started or cut");
  } else {
    if (token_index < 0 || token_index > record.token_count - count)
      Fail("has a segment beyond its tokens");
    for (int32_t index = token_index; index < token_index + count; index++) {
      if (record.tokens[index] < 0 || record.tokens[index] >= context.loaded->vocabulary_size) {
        Fail("has token " + std::to_string(record.tokens[index]) + ", which the vocabulary does not");
      }
    }
  }
  if (segment[segment_field::position] != shadow.length) {
    Fail("continues " + Named(sequence) + " at position " + std::to_string(segment[segment_field::position]) +
         "; it has " + std::to_string(shadow.length) + " tokens");
  }
  if (samples && (!shadow.started || shadow.done))
    Fail("samples " + Named(sequence) + ", which has no running request");
  if (samples && segment[segment_field::request] != shadow.request)
    Fail("samples " + Named(sequence) + " for another request than it was started for");
  decoded_tokens_ += count;
  samples_ += sampled;
}

} // namespace plimsoll
