// One request's sampling block (src/shared/sampling-wire.ts), read once when its sequence starts.
#pragma once

#include "llama.h"

#include <cstdint>
#include <string>
#include <vector>

namespace plimsoll {

struct TokenBias {
  llama_token token;
  float bias;
};

struct SamplingParameters {
  bool ignore_eos = false;
  uint32_t seed = 0;
  float temperature = 0;
  int32_t top_k = 0;
  float top_p = 1;
  float min_p = 0;
  float repeat_penalty = 1;
  float frequency_penalty = 0;
  float presence_penalty = 0;
  // 0: off; −1: all tokens of the request.
  int32_t penalty_last_tokens = 0;
  int32_t max_tokens = 0;
  // −1: none; else the number of alternatives.
  int32_t logprobs = -1;
  std::vector<TokenBias> biases;
  std::string grammar;

  bool has_penalties() const {
    return penalty_last_tokens != 0 && (repeat_penalty != 1 || frequency_penalty != 0 || presence_penalty != 0);
  }
};

// Words of the block that begins at `words`, of which `available` are there; −1 when its sizes contradict each other.
int32_t SamplingBlockWords(const int32_t* words, int64_t available);

// The block's meaning. SamplingBlockWords has accepted it. Throws AddonError invalid_argument for a number that no
// sampler can use.
SamplingParameters ReadSamplingParameters(const int32_t* words, int vocabulary_size);

} // namespace plimsoll
