#include "grammar.h"

#include "errors.h"
#include "grammar-check.h"
#include "log-queue.h"

#include <algorithm>
#include <cmath>
#include <ctime>

namespace plimsoll {
namespace {

// An ambiguous grammar's states can double with every character, which no check of its text finds. A request that needs
// this long for one token is given up before the next doubling. Chosen: asking JSON's grammar about a vocabulary of
// 150k takes some 50 ms, accepting a token some 50 µs.
constexpr double kMaskSecondsMax = 0.5;
constexpr double kAcceptSecondsMax = 0.05;
// Tokens that are asked about between two looks at the clock.
constexpr size_t kMaskChunk = 2048;

// Time this thread has computed: time it waited for a processor says nothing about the grammar.
double ThreadSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void CheckTime(double begin, double most) {
  if (ThreadSeconds() - begin > most)
    throw AddonError("failed", "the grammar is too ambiguous to follow");
}

} // namespace

Grammar::Grammar(const llama_vocab* vocabulary, const std::string& text) {
  std::string problem = FindGrammarProblem(vocabulary, text);
  if (!problem.empty())
    throw AddonError("invalid_argument", "the grammar is not valid: " + problem);
  LogCapture log;
  sampler_ = llama_sampler_init_grammar(vocabulary, text.c_str(), "root");
  if (sampler_ == nullptr) {
    std::string reason = log.problems().empty() ? "the engine refuses it" : log.problems().front();
    throw AddonError("invalid_argument", "the grammar is not valid: " + reason);
  }
}

Grammar::~Grammar() {
  llama_sampler_free(sampler_);
}

bool Grammar::Allows(llama_token token) {
  llama_token_data data{token, 0, 0};
  llama_token_data_array array{&data, 1, -1, false};
  llama_sampler_apply(sampler_, &array);
  return data.logit > -INFINITY;
}

void Grammar::Filter(std::vector<Candidate>& candidates, Workspace& workspace) {
  std::vector<llama_token_data>& data = workspace.token_data;
  data.clear();
  for (const Candidate& candidate : candidates)
    data.push_back({candidate.token, candidate.logit, 0});
  llama_token_data_array array{data.data(), data.size(), -1, false};
  llama_sampler_apply(sampler_, &array);
  size_t kept = 0;
  for (size_t index = 0; index < data.size(); index++) {
    if (data[index].logit > -INFINITY)
      candidates[kept++] = candidates[index];
  }
  candidates.resize(kept);
}

void Grammar::Mask(float* row, int count, Workspace& workspace) {
  std::vector<llama_token_data>& data = workspace.token_data;
  data.clear();
  for (llama_token token = 0; token < count; token++) {
    if (row[token] > -INFINITY)
      data.push_back({token, row[token], 0});
  }
  double begin = ThreadSeconds();
  for (size_t at = 0; at < data.size(); at += kMaskChunk) {
    llama_token_data_array array{data.data() + at, std::min(kMaskChunk, data.size() - at), -1, false};
    llama_sampler_apply(sampler_, &array);
    CheckTime(begin, kMaskSecondsMax);
  }
  for (const llama_token_data& entry : data)
    row[entry.id] = entry.logit;
}

void Grammar::Accept(llama_token token) {
  double begin = ThreadSeconds();
  llama_sampler_accept(sampler_, token);
  CheckTime(begin, kAcceptSecondsMax);
}

} // namespace plimsoll
