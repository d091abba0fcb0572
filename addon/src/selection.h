// Choosing one token from a row of logits: top-k → top-p → min-p → temperature → draw, as llama.cpp orders them,
// without ever sorting the vocabulary. Ties are broken by the lower token id.
#pragma once

#include "llama.h"
#include "sampling-parameters.h"

#include <cstdint>
#include <vector>

namespace plimsoll {

struct Candidate {
  float logit;
  llama_token token;
};

// Buffers of one sampling thread, reused from row to row.
struct Workspace {
  std::vector<Candidate> candidates;
  std::vector<int32_t> indices;
  std::vector<double> block_sums;
  std::vector<llama_token_data> token_data;
};

// Makes workspace.candidates the `k` largest of the row, best first.
void TakeTop(const float* row, int count, int k, Workspace& workspace);

// Chooses from candidates that are in order, best first; cuts them to those that top-p and min-p leave. `uniform` in
// [0, 1).
llama_token ChooseFromTop(std::vector<Candidate>& candidates, const SamplingParameters& parameters, double uniform);

// Chooses from the whole row. `max` is its maximum, finite.
llama_token ChooseFromRow(const float* row, int count, float max, const SamplingParameters& parameters, double uniform,
                          Workspace& workspace);

// A number in [0, 1) that depends on nothing but its arguments: SplitMix64's finalizer over seed, token number and
// attempt. A request that is preempted and resumed, or runs beside others, draws the same numbers.
double UniformDraw(uint32_t seed, uint32_t token_number, uint32_t attempt);

} // namespace plimsoll
