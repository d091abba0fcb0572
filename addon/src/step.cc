#include "step.h"

#include "errors.h"
#include "layout.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace plimsoll {
namespace {

namespace out = layout::STEP_OUT;
namespace status = layout::STEP_STATUS;
namespace op_field = layout::OP;
namespace op_kind = layout::OP_KIND;
namespace sample_field = layout::SAMPLE;

// Own code beside llama_decode's: a sequence could not be cut although the model is one that can.
constexpr int32_t kRemovalRefused = -100;

int32_t MicrosSince(std::chrono::steady_clock::time_point begin) {
  auto micros = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin).count();
  return static_cast<int32_t>(std::min<int64_t>(micros, INT32_MAX));
}

int32_t FloatBits(float value) {
  int32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

void WriteSample(int32_t* words, int32_t sequence, int32_t request, const SampleResult& result) {
  words[sample_field::sequence] = sequence;
  words[sample_field::request] = request;
  words[sample_field::token] = result.token;
  words[sample_field::flags] = result.flags;
  words[sample_field::logprob] = FloatBits(result.logprob);
  words[sample_field::topCount] = static_cast<int32_t>(result.alternatives.size());
  int32_t* top = words + sample_field::top;
  for (const Candidate& alternative : result.alternatives) {
    *top++ = alternative.token;
    *top++ = FloatBits(alternative.logit);
  }
}

} // namespace

void Step::Run(Context& context, SamplerPool& pool, const int32_t* record, int64_t available, int32_t* output,
               int64_t output_words) {
  if (output_words < layout::STEP_OUT_HEADER_WORDS)
    throw AddonError("invalid_argument", "the output has no room for a header");
  std::fill(output, output + layout::STEP_OUT_HEADER_WORDS, 0);
  output[out::status] = status::invalidRecord;
  ReadRecord(record, available, record_);
  check_.Check(context, record_, output_words);

  output[out::engineCode] = ApplyOps(context);
  if (output[out::engineCode] != 0) {
    output[out::status] = status::failed;
    return;
  }
  ApplyStarts(context);
  output[out::droppedCount] = BuildBatch(context);
  output[out::status] = status::ok;
  for (const Part& part : parts_) {
    Decode(context, part, output);
    if (output[out::status] == status::ok)
      SampleRows(context, pool, part, output);
    if (output[out::status] != status::ok)
      break;
  }
  output[out::kvUsedTokens] = static_cast<int32_t>(context.cells.used());
}

int32_t Step::ApplyOps(Context& context) {
  bool refused = false;
  for (int32_t index = 0; index < record_.op_count && !refused; index++) {
    const int32_t* op = record_.ops + index * layout::OP_WORDS;
    Sequence& sequence = context.sequences[op[op_field::sequence]];
    switch (op[op_field::kind]) {
    case op_kind::copy:
      Copy(context, op);
      break;
    case op_kind::stop:
      sequence.done = true;
      sequence.sampler.reset();
      break;
    default:
      Remove(context, op, refused);
    }
  }
  return refused ? kRemovalRefused : 0;
}

void Step::Remove(Context& context, const int32_t* op, bool& refused) {
  int32_t index = op[op_field::sequence];
  int32_t from = op[op_field::from];
  Sequence& sequence = context.sequences[index];
  if (from >= sequence.length)
    return;
  if (!llama_memory_seq_rm(context.memory, index, from == 0 ? -1 : from, -1)) {
    refused = true;
    return;
  }
  sequence.length = from;
  sequence.last_token = -1;
  context.cells.Cut(index, from);
}

void Step::Copy(Context& context, const int32_t* op) {
  int32_t source = op[op_field::sequence];
  int32_t destination = op[op_field::destination];
  int32_t from = op[op_field::from];
  int32_t source_length = context.sequences[source].length;
  int32_t end = op[op_field::to] == -1 ? source_length : std::min(op[op_field::to], source_length);
  if (context.spec.is_shared) {
    llama_memory_seq_cp(context.memory, source, destination, from == 0 ? -1 : from, end == source_length ? -1 : end);
  } else {
    context.cells.Cut(destination, 0);
    // The engine copies streams whole or asserts; what is not wanted is cut off afterwards.
    llama_memory_seq_cp(context.memory, source, destination, -1, -1);
    if (end < source_length)
      llama_memory_seq_rm(context.memory, destination, end, -1);
    context.has_pending_copy = true;
  }
  context.cells.Copy(source, destination, from, end);
  context.sequences[destination].length = end;
  context.sequences[destination].last_token = -1;
}

void Step::ApplyStarts(Context& context) {
  const LoadedModel& loaded = *context.loaded;
  SamplerModel model{loaded.vocabulary, loaded.vocabulary_size, &loaded.end_tokens, &loaded.suppressed_tokens};
  for (const StartView& start : record_.starts) {
    Sequence& sequence = context.sequences[start.sequence];
    sequence.request = start.request;
    sequence.started = true;
    sequence.done = false;
    sequence.last_token = -1;
    sequence.sampler =
        std::make_unique<Sampler>(model, start.block, start.history, start.history_count, start.sampled_before);
  }
}

void Step::Decode(Context& context, const Part& part, int32_t* output) {
  auto begin = std::chrono::steady_clock::now();
  const llama_batch batch = BatchOf(context, part);
  context.UseThreads(record_.threads, part.decodes_only);
  int32_t code = llama_decode(context.engine, batch);
  // GPUs are still at work when llama_decode returns; the time belongs to the decode, not to whoever reads the logits
  // first.
  llama_synchronize(context.engine);
  RemoveBridges(context);
  output[out::decodeMicros] += MicrosSince(begin);
  output[out::engineCode] = code;
  if (code == 0) {
    context.has_pending_copy = false;
    output[out::decodedTokens] += batch.n_tokens - static_cast<int32_t>(bridges_.size());
    FinishDecoded(context, batch);
    return;
  }
  // With 1 the engine has restored its memory; with the others tokens of the batch may have stayed in it.
  if (code != 1)
    SyncLengths(context);
  output[out::status] = code == 1 ? status::noKvSlot : code == 2 ? status::aborted : status::failed;
}

void Step::FinishDecoded(Context& context, const llama_batch& batch) {
  for (int32_t at = 0; at < batch.n_tokens; at++) {
    int32_t index = batch.seq_id[at][0];
    if (std::binary_search(bridges_.begin(), bridges_.end(), index))
      continue;
    context.sequences[index].length = batch.pos[at] + 1;
    context.sequences[index].last_token = -1;
    context.cells.Extend(index, batch.pos[at] + 1);
  }
}

void Step::SyncLengths(Context& context) {
  for (int32_t index = 0; index < static_cast<int32_t>(context.sequences.size()); index++) {
    Sequence& sequence = context.sequences[index];
    int32_t length = llama_memory_seq_pos_max(context.memory, index) + 1;
    if (length == sequence.length)
      continue;
    sequence.length = length;
    sequence.last_token = -1;
    context.cells.Cut(index, length);
    context.cells.Extend(index, length);
  }
}

void Step::SampleRows(Context& context, SamplerPool& pool, const Part& part, int32_t* output) {
  auto begin = std::chrono::steady_clock::now();
  Sampled* sampled = sampled_.data() + part.first_sampled;
  // The engine sorts its outputs when the first row is asked for, so that is done before several threads look at them.
  for (int32_t index = 0; index < part.sampled_count; index++) {
    for (int32_t row = 0; row < sampled[index].row_count; row++) {
      float* logits = llama_get_logits_ith(context.engine, sampled[index].batch_index + row - part.first_token);
      rows_[static_cast<size_t>(sampled[index].row + row)] = logits;
      if (logits != nullptr)
        continue;
      output[out::status] = status::failed;
      return;
    }
  }
  if (results_.size() < sampled_.size())
    results_.resize(sampled_.size());
  int32_t* samples =
      output + layout::STEP_OUT_HEADER_WORDS + static_cast<int64_t>(output[out::sampleCount]) * layout::SAMPLE_WORDS;
  pool.Run(part.sampled_count, context.loaded->vocabulary_size, [&](int index, Workspace& workspace) {
    const int64_t place = sampled[index].row - part.first_row;
    SampleSegment(sampled[index], results_[static_cast<size_t>(index)], workspace,
                  samples + place * layout::SAMPLE_WORDS);
  });
  int32_t count = 0;
  if (!DropWrongDrafts(context, part, samples, count)) {
    output[out::status] = status::failed;
    output[out::engineCode] = kRemovalRefused;
    return;
  }
  output[out::sampleCount] += count;
  output[out::sampleMicros] += MicrosSince(begin);
}

void Step::SampleSegment(Sampled& sampled, SampleResult& result, Workspace& workspace, int32_t* samples) {
  Sequence& sequence = *sampled.sequence;
  for (int32_t row = 0; row < sampled.row_count; row++) {
    sequence.sampler->Sample(rows_[static_cast<size_t>(sampled.row + row)], workspace, result);
    WriteSample(samples + static_cast<int64_t>(row) * layout::SAMPLE_WORDS, sampled.sequence_index, sequence.request,
                result);
    sampled.count = row + 1;
    sequence.last_token = result.token;
    if ((result.flags & layout::SAMPLE_FLAGS_DONE) != 0) {
      sequence.done = true;
      sequence.sampler.reset();
      return;
    }
    if (row + 1 < sampled.row_count && result.token != sampled.drafts[row])
      return;
  }
}

bool Step::DropWrongDrafts(Context& context, const Part& part, int32_t* samples, int32_t& count) {
  count = 0;
  for (int32_t index = part.first_sampled; index < part.first_sampled + part.sampled_count; index++) {
    const Sampled& sampled = sampled_[static_cast<size_t>(index)];
    const int32_t place = sampled.row - part.first_row;
    if (count != place) {
      const int32_t* from = samples + static_cast<int64_t>(place) * layout::SAMPLE_WORDS;
      std::copy(from, from + static_cast<int64_t>(sampled.count) * layout::SAMPLE_WORDS,
                samples + static_cast<int64_t>(count) * layout::SAMPLE_WORDS);
    }
    count += sampled.count;
    const int32_t wrong = sampled.row_count - sampled.count;
    if (wrong == 0)
      continue;
    Sequence& sequence = *sampled.sequence;
    sequence.length -= wrong;
    if (!llama_memory_seq_rm(context.memory, sampled.sequence_index, sequence.length, -1))
      return false;
    context.cells.Cut(sampled.sequence_index, sequence.length);
  }
  return true;
}

} // namespace plimsoll
