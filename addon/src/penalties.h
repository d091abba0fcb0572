// The tokens that a request's penalties look at, and how often each occurs among them, kept up to date one token at a
// time.
#pragma once

#include "llama.h"
#include "sampling-parameters.h"

#include <cstdint>
#include <deque>
#include <unordered_map>

namespace plimsoll {

class PenaltyWindow {
public:
  // `last_tokens`: 0 keeps nothing, −1 everything.
  explicit PenaltyWindow(int32_t last_tokens) : last_tokens_(last_tokens) {}

  void Add(llama_token token);

  const std::unordered_map<llama_token, int32_t>& counts() const { return counts_; }

private:
  int32_t last_tokens_;
  std::deque<llama_token> tokens_;
  std::unordered_map<llama_token, int32_t> counts_;
};

// A logit after the penalties for a token that occurs `count` times: repetition divides what speaks for it and
// multiplies what speaks against it, then frequency and presence are subtracted (the order of llama.cpp's penalty
// sampler).
float PenalizedLogit(float logit, int32_t count, const SamplingParameters& parameters);

} // namespace plimsoll
