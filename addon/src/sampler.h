// One request's sampler: everything that decides its next token, and nothing that depends on other requests.
#pragma once

#include "grammar.h"
#include "penalties.h"
#include "sampling-parameters.h"
#include "selection.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

namespace plimsoll {

// What a sampler needs to know of the model. The vectors belong to the model and outlive the sampler.
struct SamplerModel {
  const llama_vocab* vocabulary = nullptr;
  int vocabulary_size = 0;
  const std::vector<llama_token>* end_tokens = nullptr;
  const std::vector<llama_token>* suppressed_tokens = nullptr;
};

struct SampleResult {
  llama_token token = 0;
  // SAMPLE_FLAG bits.
  int32_t flags = 0;
  // Natural logarithm of the token's probability under the model itself: the whole vocabulary, before bias, penalties,
  // grammar and temperature. NaN when no logprobs were asked for: 0 would be a certain token.
  float logprob = std::numeric_limits<float>::quiet_NaN();
  // Alternatives, best first, each with its log-probability in `logit`.
  std::vector<Candidate> alternatives;
};

class Sampler {
public:
  // `block` is a sampling block that SamplingBlockWords has accepted. `history`: tokens that penalties look at, oldest
  // first; of a request with a grammar that was resumed, the last `sampled_before` of them are its own and are replayed
  // through the grammar. Never throws for a block that makes no sense: such a sampler fails at its first token, so that
  // it harms only its request.
  Sampler(const SamplerModel& model, const int32_t* block, const llama_token* history, int32_t history_count,
          int32_t sampled_before);

  // Chooses and accepts the next token. Changes `row`, which is not used again. Never throws.
  void Sample(float* row, Workspace& workspace, SampleResult& result);

private:
  void Prepare(const int32_t* block, const llama_token* history, int32_t history_count);
  bool TrySample(float* row, Workspace& workspace, SampleResult& result);
  void ReportLogprobs(const float* row, float max, Workspace& workspace, SampleResult& result);
  void Adjust(float* row);
  void Edit(float* row, llama_token token, float logit);
  llama_token ChooseAllowed(float* row, Workspace& workspace);
  bool EndsGeneration(llama_token token) const;

  const SamplerModel model_;
  SamplingParameters parameters_;
  PenaltyWindow window_{0};
  std::unique_ptr<Grammar> grammar_;
  int32_t sampled_;
  bool failed_ = false;
  // Logits as the model gave them, of the tokens that Adjust changed in this row.
  std::vector<Candidate> originals_;
  double log_sum_ = 0;
};

} // namespace plimsoll
