// The wire formats that the addon reads and writes: a mirror of src/shared/{batch-wire,step-output,sampling-wire}.ts,
// compared with them by test/addon/layout.test.ts through layout() (layout-export.cc). Each block is a list, so that
// the constants and the export cannot differ.
#pragma once

#include <cstdint>

// clang-format off
#define PLIMSOLL_BATCH_HEADER(X) \
  X(stepId, 0) X(epoch, 1) X(opCount, 2) X(startCount, 3) X(startWords, 4) X(segmentCount, 5) X(tokenCount, 6) \
  X(noticeCount, 7) X(totalWords, 8) X(threads, 9)
#define PLIMSOLL_OP(X) X(kind, 0) X(sequence, 1) X(destination, 2) X(from, 3) X(to, 4)
#define PLIMSOLL_OP_KIND(X) X(remove, 1) X(copy, 2) X(evict, 3) X(stop, 4)
#define PLIMSOLL_START(X) X(sequence, 0) X(request, 1) X(historyCount, 2) X(sampledBefore, 3)
#define PLIMSOLL_SEGMENT(X) X(sequence, 0) X(position, 1) X(count, 2) X(tokenIndex, 3) X(sample, 4) X(request, 5)
#define PLIMSOLL_NOTICE(X) X(request, 0) X(kind, 1) X(a, 2) X(b, 3)
#define PLIMSOLL_STEP_OUT(X) \
  X(status, 0) X(sampleCount, 1) X(decodedTokens, 2) X(decodeMicros, 3) X(sampleMicros, 4) X(kvUsedTokens, 5) \
  X(engineCode, 6) X(droppedCount, 7)
#define PLIMSOLL_STEP_STATUS(X) X(ok, 0) X(noKvSlot, 1) X(aborted, 2) X(invalidRecord, 3) X(failed, 4)
#define PLIMSOLL_SAMPLE(X) X(sequence, 0) X(request, 1) X(token, 2) X(flags, 3) X(logprob, 4) X(topCount, 5) X(top, 6)
#define PLIMSOLL_SAMPLE_FLAG(X) X(endOfGeneration, 1) X(maxTokens, 2) X(samplerFailed, 4)
#define PLIMSOLL_SAMPLING(X) \
  X(totalWords, 0) X(flags, 1) X(seed, 2) X(temperature, 3) X(topK, 4) X(topP, 5) X(minP, 6) X(repeatPenalty, 7) \
  X(frequencyPenalty, 8) X(presencePenalty, 9) X(penaltyLastTokens, 10) X(maxTokens, 11) X(logprobs, 12) \
  X(biasCount, 13) X(grammarBytes, 14)
#define PLIMSOLL_SAMPLING_FLAG(X) X(ignoreEos, 1)

#define PLIMSOLL_BLOCKS(BLOCK) \
  BLOCK(BATCH_HEADER) BLOCK(OP) BLOCK(OP_KIND) BLOCK(START) BLOCK(SEGMENT) BLOCK(NOTICE) BLOCK(STEP_OUT) \
  BLOCK(STEP_STATUS) BLOCK(SAMPLE) BLOCK(SAMPLE_FLAG) BLOCK(SAMPLING) BLOCK(SAMPLING_FLAG)

#define PLIMSOLL_SCALARS(X) \
  X(BATCH_RECORD_TYPE, 1) X(BATCH_HEADER_WORDS, 12) X(OP_WORDS, 5) X(START_WORDS, 4) X(SEGMENT_WORDS, 6) \
  X(PLACEHOLDER, -1) X(NOTICE_WORDS, 4) X(STEP_OUT_HEADER_WORDS, 8) X(SAMPLE_FLAGS_DONE, 7) X(SAMPLE_WORDS, 46) \
  X(SAMPLING_FIXED_WORDS, 16) \
  X(TOP_LOGPROBS_MAX, 20) X(LOGIT_BIAS_MAX, 1024) X(GRAMMAR_MAX_BYTES, 262144)
// clang-format on

namespace plimsoll::layout {

#define PLIMSOLL_CONSTANT(name, value) constexpr int32_t name = value;
#define PLIMSOLL_NAMESPACE(block)                                                                                      \
  namespace block {                                                                                                    \
  PLIMSOLL_##block(PLIMSOLL_CONSTANT)                                                                                  \
  }
PLIMSOLL_BLOCKS(PLIMSOLL_NAMESPACE)
PLIMSOLL_SCALARS(PLIMSOLL_CONSTANT)
#undef PLIMSOLL_NAMESPACE

static_assert(SAMPLE_WORDS == SAMPLE::top + 2 * TOP_LOGPROBS_MAX, "a sample holds its alternatives");

} // namespace plimsoll::layout
