#include "sampler.h"

#include "errors.h"
#include "layout.h"
#include "logits-kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace plimsoll {
namespace {

constexpr llama_token kNoToken = -1;
// Best tokens that a grammar is asked about before it is asked about the whole vocabulary. Chosen: grammars that allow
// none of these (a forced bracket, say) are few, and asking about 64 costs some 50 µs.
constexpr int kGrammarTry = 64;

} // namespace

Sampler::Sampler(const SamplerModel& model, const int32_t* block, const llama_token* history, int32_t history_count,
                 int32_t sampled_before)
    : model_(model), sampled_(sampled_before) {
  try {
    Prepare(block, history, history_count);
  } catch (const std::exception&) {
    failed_ = true;
  }
}

void Sampler::Prepare(const int32_t* block, const llama_token* history, int32_t history_count) {
  parameters_ = ReadSamplingParameters(block, model_.vocabulary_size);
  window_ = PenaltyWindow(parameters_.has_penalties() ? parameters_.penalty_last_tokens : 0);
  for (int32_t index = 0; index < history_count; index++) {
    if (history[index] < 0 || history[index] >= model_.vocabulary_size)
      throw AddonError("invalid_argument", "history");
    window_.Add(history[index]);
  }
  if (parameters_.grammar.empty())
    return;
  if (model_.vocabulary == nullptr)
    throw AddonError("invalid_argument", "a grammar needs a vocabulary");
  grammar_ = std::make_unique<Grammar>(model_.vocabulary, parameters_.grammar);
  if (history_count < sampled_)
    throw AddonError("invalid_argument", "a resumed grammar needs the tokens sampled before");
  for (int32_t index = history_count - sampled_; index < history_count; index++) {
    if (!grammar_->Allows(history[index]))
      throw AddonError("invalid_argument", "the tokens sampled before do not fit the grammar");
    grammar_->Accept(history[index]);
  }
}

void Sampler::Sample(float* row, Workspace& workspace, SampleResult& result) {
  result.token = 0;
  result.flags = 0;
  result.logprob = std::numeric_limits<float>::quiet_NaN();
  result.alternatives.clear();
  bool sampled = false;
  try {
    sampled = !failed_ && TrySample(row, workspace, result);
  } catch (...) {
    // A grammar's automaton throws when it runs into a corner; memory may be short. Either way only this request is
    // over.
  }
  if (sampled)
    return;
  failed_ = true;
  result.flags = layout::SAMPLE_FLAG::samplerFailed;
}

bool Sampler::TrySample(float* row, Workspace& workspace, SampleResult& result) {
  RowMax max = MaxOf(row, model_.vocabulary_size);
  if (max.has_nan || !std::isfinite(max.value))
    return false;
  if (parameters_.logprobs >= 0)
    ReportLogprobs(row, max.value, workspace, result);
  Adjust(row);
  if (!originals_.empty())
    max = MaxOf(row, model_.vocabulary_size);
  if (!std::isfinite(max.value))
    return false;
  double uniform = UniformDraw(parameters_.seed, static_cast<uint32_t>(sampled_), 0);
  llama_token token = ChooseFromRow(row, model_.vocabulary_size, max.value, parameters_, uniform, workspace);
  if (grammar_ != nullptr) {
    if (!grammar_->Allows(token))
      token = ChooseAllowed(row, workspace);
    if (token == kNoToken)
      return false;
    grammar_->Accept(token);
  }
  if (parameters_.logprobs >= 0) {
    auto original = std::find_if(originals_.begin(), originals_.end(),
                                 [&](const Candidate& entry) { return entry.token == token; });
    float logit = original == originals_.end() ? row[token] : original->logit;
    result.logprob = static_cast<float>(logit - log_sum_);
  }
  window_.Add(token);
  sampled_++;
  result.token = token;
  if (!parameters_.ignore_eos && EndsGeneration(token))
    result.flags |= layout::SAMPLE_FLAG::endOfGeneration;
  if (sampled_ >= parameters_.max_tokens)
    result.flags |= layout::SAMPLE_FLAG::maxTokens;
  return true;
}

void Sampler::ReportLogprobs(const float* row, float max, Workspace& workspace, SampleResult& result) {
  log_sum_ = max + std::log(SumExp(row, model_.vocabulary_size, max, 1, nullptr));
  TakeTop(row, model_.vocabulary_size, parameters_.logprobs, workspace);
  for (const Candidate& candidate : workspace.candidates) {
    result.alternatives.push_back({static_cast<float>(candidate.logit - log_sum_), candidate.token});
  }
}

void Sampler::Edit(float* row, llama_token token, float logit) {
  originals_.push_back({row[token], token});
  row[token] = logit;
}

// In llama.cpp's order: biases (the model's own suppressed tokens among them), then penalties.
void Sampler::Adjust(float* row) {
  originals_.clear();
  for (const TokenBias& bias : parameters_.biases)
    Edit(row, bias.token, row[bias.token] + bias.bias);
  for (llama_token token : *model_.suppressed_tokens)
    Edit(row, token, -INFINITY);
  if (parameters_.ignore_eos) {
    for (llama_token token : *model_.end_tokens)
      Edit(row, token, -INFINITY);
  }
  if (!parameters_.has_penalties())
    return;
  for (const auto& [token, count] : window_.counts())
    Edit(row, token, PenalizedLogit(row[token], count, parameters_));
}

// The draw hit a token that the grammar forbids: draw again among those it allows. Asking the grammar about every token
// is the slowest thing a sampler does, so first only the best are asked, where they alone decide.
llama_token Sampler::ChooseAllowed(float* row, Workspace& workspace) {
  const int count = model_.vocabulary_size;
  const double uniform = UniformDraw(parameters_.seed, static_cast<uint32_t>(sampled_), 1);
  const int wanted = parameters_.temperature == 0 ? 1 : parameters_.top_k;
  if (wanted > 0 && wanted < count) {
    TakeTop(row, count, wanted + kGrammarTry, workspace);
    std::vector<Candidate>& candidates = workspace.candidates;
    while (!candidates.empty() && candidates.back().logit == -INFINITY)
      candidates.pop_back();
    grammar_->Filter(candidates, workspace);
    if (static_cast<int>(candidates.size()) >= wanted) {
      candidates.resize(static_cast<size_t>(wanted));
      return wanted == 1 ? candidates.front().token : ChooseFromTop(candidates, parameters_, uniform);
    }
  }
  grammar_->Mask(row, count, workspace);
  RowMax allowed = MaxOf(row, count);
  if (!std::isfinite(allowed.value))
    return kNoToken;
  return ChooseFromRow(row, count, allowed.value, parameters_, uniform, workspace);
}

bool Sampler::EndsGeneration(llama_token token) const {
  return std::binary_search(model_.end_tokens->begin(), model_.end_tokens->end(), token);
}

} // namespace plimsoll
