#include "sampling-parameters.h"

#include "errors.h"
#include "layout.h"

#include <cmath>
#include <cstring>

namespace plimsoll {
namespace {

namespace field = layout::SAMPLING;

float FloatAt(const int32_t* words, int32_t index) {
  float value;
  std::memcpy(&value, words + index, sizeof value);
  return value;
}

void Require(bool holds, const char* what) {
  if (!holds)
    throw AddonError("invalid_argument", std::string("the sampling block's ") + what + " is out of range");
}

} // namespace

int32_t SamplingBlockWords(const int32_t* words, int64_t available) {
  if (available < layout::SAMPLING_FIXED_WORDS)
    return -1;
  int32_t total = words[field::totalWords];
  int32_t biases = words[field::biasCount];
  int32_t grammar_bytes = words[field::grammarBytes];
  if (biases < 0 || biases > layout::LOGIT_BIAS_MAX || grammar_bytes < 0 || grammar_bytes > layout::GRAMMAR_MAX_BYTES)
    return -1;
  int32_t expected = layout::SAMPLING_FIXED_WORDS + 2 * biases + (grammar_bytes + 3) / 4;
  return total == expected && total <= available ? total : -1;
}

SamplingParameters ReadSamplingParameters(const int32_t* words, int vocabulary_size) {
  SamplingParameters parameters;
  parameters.ignore_eos = (words[field::flags] & layout::SAMPLING_FLAG::ignoreEos) != 0;
  parameters.seed = static_cast<uint32_t>(words[field::seed]);
  parameters.temperature = FloatAt(words, field::temperature);
  parameters.top_k = words[field::topK];
  parameters.top_p = FloatAt(words, field::topP);
  parameters.min_p = FloatAt(words, field::minP);
  parameters.repeat_penalty = FloatAt(words, field::repeatPenalty);
  parameters.frequency_penalty = FloatAt(words, field::frequencyPenalty);
  parameters.presence_penalty = FloatAt(words, field::presencePenalty);
  parameters.penalty_last_tokens = words[field::penaltyLastTokens];
  parameters.max_tokens = words[field::maxTokens];
  parameters.logprobs = words[field::logprobs];
  // Written so that a NaN fails.
  Require(parameters.temperature >= 0 && std::isfinite(parameters.temperature), "temperature");
  Require(parameters.top_k >= 0, "topK");
  Require(parameters.top_p > 0 && parameters.top_p <= 1, "topP");
  Require(parameters.min_p >= 0 && parameters.min_p <= 1, "minP");
  Require(parameters.repeat_penalty > 0 && std::isfinite(parameters.repeat_penalty), "repeatPenalty");
  Require(std::isfinite(parameters.frequency_penalty), "frequencyPenalty");
  Require(std::isfinite(parameters.presence_penalty), "presencePenalty");
  Require(parameters.penalty_last_tokens >= -1, "penaltyLastTokens");
  Require(parameters.logprobs >= -1 && parameters.logprobs <= layout::TOP_LOGPROBS_MAX, "logprobs");
  const int32_t* bias_words = words + layout::SAMPLING_FIXED_WORDS;
  for (int32_t index = 0; index < words[field::biasCount]; index++) {
    TokenBias bias{bias_words[2 * index], FloatAt(bias_words, 2 * index + 1)};
    Require(bias.token >= 0 && bias.token < vocabulary_size, "bias token");
    Require(!std::isnan(bias.bias) && bias.bias < INFINITY, "bias");
    parameters.biases.push_back(bias);
  }
  const char* grammar = reinterpret_cast<const char*>(bias_words + 2 * words[field::biasCount]);
  parameters.grammar.assign(grammar, static_cast<size_t>(words[field::grammarBytes]));
  return parameters;
}

} // namespace plimsoll
