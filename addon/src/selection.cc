#include "selection.h"

#include "logits-kernels.h"

#include <algorithm>
#include <cmath>

namespace plimsoll {
namespace {

bool Better(const Candidate& left, const Candidate& right) {
  return left.logit != right.logit ? left.logit > right.logit : left.token < right.token;
}

// For heaps, whose front is the largest by this order.
bool Worse(const Candidate& left, const Candidate& right) {
  return Better(right, left);
}

float InverseTemperature(float temperature) {
  // Below this the best candidate wins whatever the others are, and the product must not become 0 × ∞.
  constexpr float kMost = 1e30f;
  return std::min(1 / temperature, kMost);
}

llama_token Draw(const std::vector<Candidate>& candidates, float max, float temperature, double uniform) {
  float scale = InverseTemperature(temperature);
  double total = 0;
  for (const Candidate& candidate : candidates)
    total += ExpOf((candidate.logit - max) * scale);
  double target = uniform * total;
  double sum = 0;
  for (const Candidate& candidate : candidates) {
    sum += ExpOf((candidate.logit - max) * scale);
    if (sum > target)
      return candidate.token;
  }
  // Rounding left the target a hair above the sum.
  return candidates.back().token;
}

// The last in order of the block that still has weight: where rounding carries a draw past the block's end.
llama_token DrawFromWholeRow(const float* row, int count, float max, float temperature, double uniform,
                             Workspace& workspace) {
  float scale = InverseTemperature(temperature);
  int blocks = (count + kBlock - 1) / kBlock;
  workspace.block_sums.resize(static_cast<size_t>(blocks));
  double target = uniform * SumExp(row, count, max, scale, workspace.block_sums.data());
  int block = 0;
  int last_with_weight = 0;
  for (; block < blocks; block++) {
    if (workspace.block_sums[block] > 0)
      last_with_weight = block;
    if (target < workspace.block_sums[block])
      break;
    target -= workspace.block_sums[block];
  }
  block = std::min(block, blocks - 1);
  if (workspace.block_sums[block] <= 0)
    block = last_with_weight;
  int chosen = -1;
  double sum = 0;
  for (int index = block * kBlock; index < std::min(count, (block + 1) * kBlock); index++) {
    float weight = ExpOf((row[index] - max) * scale);
    if (weight <= 0)
      continue;
    chosen = index;
    sum += weight;
    if (sum > target)
      break;
  }
  return chosen;
}

// Smallest logit that min-p lets pass.
float MinPThreshold(float max, const SamplingParameters& parameters) {
  return parameters.min_p > 0 ? max + std::log(parameters.min_p) : -INFINITY;
}

void Collect(const float* row, int count, float threshold, Workspace& workspace) {
  workspace.indices.resize(static_cast<size_t>(count));
  int found = CollectAtLeast(row, count, threshold, workspace.indices.data(), count);
  workspace.candidates.clear();
  for (int index = 0; index < found; index++) {
    llama_token token = workspace.indices[index];
    if (row[token] > -INFINITY)
      workspace.candidates.push_back({row[token], token});
  }
}

// Collects candidates of at least `threshold` that hold the share `mass` of all exponentials, or all of them where they
// do not.
void CollectMass(const float* row, int count, float max, double mass, float threshold, Workspace& workspace) {
  // Chosen: most rows have their mass within e^8 of the best, in some dozens of candidates; flat ones are collected a
  // second time.
  constexpr float kNear = 8;
  Collect(row, count, std::max(threshold, max - kNear), workspace);
  if (threshold >= max - kNear)
    return;
  double sum = 0;
  for (const Candidate& candidate : workspace.candidates)
    sum += ExpOf(candidate.logit - max);
  if (sum < mass)
    Collect(row, count, threshold, workspace);
}

// Orders the best of `candidates`, and cuts off the rest, until their exponentials add up to `mass`. A heap orders only
// as many as are needed: usually a few of thousands.
void KeepMass(std::vector<Candidate>& candidates, float max, double mass) {
  std::make_heap(candidates.begin(), candidates.end(), Worse);
  auto end = candidates.end();
  double sum = 0;
  while (end != candidates.begin() && sum < mass) {
    std::pop_heap(candidates.begin(), end, Worse);
    --end;
    sum += ExpOf(end->logit - max);
  }
  // What was popped lies at the back, best last.
  const size_t popped = static_cast<size_t>(candidates.end() - end);
  std::reverse(candidates.begin(), candidates.end());
  candidates.resize(popped);
}

} // namespace

void TakeTop(const float* row, int count, int k, Workspace& workspace) {
  std::vector<Candidate>& kept = workspace.candidates;
  kept.clear();
  k = std::min(k, count);
  if (k == 0)
    return;
  // Room for more than k between two selections. Chosen: a selection costs about what the appends since the last one
  // cost.
  const size_t capacity = static_cast<size_t>(k) * 2 + 256;
  kept.reserve(capacity + kBlock);
  float threshold = -INFINITY;
  for (int begin = 0; begin < count; begin += 64) {
    int end = std::min(count, begin + 64);
    float best = -INFINITY;
    for (int index = begin; index < end; index++)
      best = row[index] > best ? row[index] : best;
    if (best <= threshold && threshold > -INFINITY)
      continue;
    for (int index = begin; index < end; index++) {
      if (row[index] > threshold)
        kept.push_back({row[index], index});
    }
    if (kept.size() < capacity)
      continue;
    std::nth_element(kept.begin(), kept.begin() + (k - 1), kept.end(), Better);
    kept.resize(static_cast<size_t>(k));
    // Later tokens with the same logit lose the tie, so only larger ones matter from here on.
    threshold = kept[static_cast<size_t>(k) - 1].logit;
  }
  if (kept.size() > static_cast<size_t>(k)) {
    std::nth_element(kept.begin(), kept.begin() + (k - 1), kept.end(), Better);
    kept.resize(static_cast<size_t>(k));
  }
  std::sort(kept.begin(), kept.end(), Better);
}

llama_token ChooseFromTop(std::vector<Candidate>& candidates, const SamplingParameters& parameters, double uniform) {
  float max = candidates.front().logit;
  size_t keep = candidates.size();
  if (parameters.top_p < 1) {
    double total = 0;
    for (const Candidate& candidate : candidates)
      total += ExpOf(candidate.logit - max);
    double sum = 0;
    for (size_t index = 0; index < candidates.size(); index++) {
      sum += ExpOf(candidates[index].logit - max);
      if (sum < parameters.top_p * total)
        continue;
      keep = index + 1;
      break;
    }
  }
  float least = MinPThreshold(max, parameters);
  while (keep > 1 && candidates[keep - 1].logit < least)
    keep--;
  candidates.resize(keep);
  return Draw(candidates, max, parameters.temperature, uniform);
}

llama_token ChooseFromRow(const float* row, int count, float max, const SamplingParameters& parameters, double uniform,
                          Workspace& workspace) {
  if (parameters.temperature == 0)
    return IndexOf(row, count, max);
  if (parameters.top_k > 0 && parameters.top_k < count) {
    TakeTop(row, count, parameters.top_k, workspace);
    return ChooseFromTop(workspace.candidates, parameters, uniform);
  }
  float threshold = MinPThreshold(max, parameters);
  if (parameters.top_p < 1) {
    const double total = SumExp(row, count, max, 1, nullptr);
    const double mass = parameters.top_p * total;
    // Candidates below this probability have less than 1 − top_p together, however many they are, so the others hold
    // enough. The margin covers the rounding of the logarithm.
    const double least = (1 - static_cast<double>(parameters.top_p)) / count * total;
    threshold = std::max(threshold, max + static_cast<float>(std::log(least)) - 1e-3f);
    CollectMass(row, count, max, mass, threshold, workspace);
    KeepMass(workspace.candidates, max, mass);
    return Draw(workspace.candidates, max, parameters.temperature, uniform);
  }
  if (parameters.min_p > 0) {
    Collect(row, count, threshold, workspace);
    return Draw(workspace.candidates, max, parameters.temperature, uniform);
  }
  return DrawFromWholeRow(row, count, max, parameters.temperature, uniform, workspace);
}

double UniformDraw(uint32_t seed, uint32_t token_number, uint32_t attempt) {
  // The golden-ratio step keeps neighbouring counters apart before the finalizer mixes them.
  uint64_t state =
      (static_cast<uint64_t>(seed) << 32 | token_number) + (static_cast<uint64_t>(attempt) + 1) * 0x9e3779b97f4a7c15ULL;
  for (int round = 0; round < 2; round++) {
    state += 0x9e3779b97f4a7c15ULL;
    state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9ULL;
    state = (state ^ (state >> 27)) * 0x94d049bb133111ebULL;
    state ^= state >> 31;
  }
  return static_cast<double>(state >> 11) * (1.0 / 9007199254740992.0);
}

} // namespace plimsoll
