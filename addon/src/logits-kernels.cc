#include "logits-kernels.h"

#include <cmath>
#include <cstring>

// The addon is built once for a kind of processor; on x86-64 the wide versions are chosen when it is loaded.
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) &&                           \
    !defined(__SANITIZE_ADDRESS__)
#define PLIMSOLL_WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define PLIMSOLL_WIDE
#endif

namespace plimsoll {
namespace {

constexpr int kLanes = 32;
static_assert(kBlock % kLanes == 0, "a block is whole lanes");

// exp by splitting x = n·ln2 + r, |r| ≤ ln2/2, a polynomial for e^r (Cephes' minimax coefficients), and n put into the
// exponent.
inline __attribute__((always_inline)) float ExpInline(float x) {
  constexpr float kLog2E = 1.44269504088896341f;
  constexpr float kLn2High = 0.693359375f;
  constexpr float kLn2Low = -2.12194440e-4f;
  // Adding 1.5·2^23 rounds to the nearest integer and leaves it in the low bits.
  constexpr float kRound = 12582912.0f;
  float clamped = x < -87.0f ? -87.0f : x;
  float shifted = clamped * kLog2E + kRound;
  float n = shifted - kRound;
  float r = clamped - n * kLn2High - n * kLn2Low;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  int32_t bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  int32_t exponent = (bits - 0x4b400000 + 127) << 23;
  float power;
  std::memcpy(&power, &exponent, sizeof power);
  float result = p * power;
  return x < -87.0f ? 0.0f : result;
}

PLIMSOLL_WIDE void MaxBlocks(const float* row, int blocks, float* lanes, int32_t* nans) {
  for (int block = 0; block < blocks; block++) {
    const float* at = row + static_cast<int64_t>(block) * kLanes;
    for (int lane = 0; lane < kLanes; lane++) {
      float value = at[lane];
      lanes[lane] = value > lanes[lane] ? value : lanes[lane];
      nans[lane] |= value != value ? 1 : 0;
    }
  }
}

PLIMSOLL_WIDE float SumExpBlock(const float* row, float max, float scale) {
  float lanes[kLanes] = {};
  for (int at = 0; at < kBlock; at += kLanes) {
    for (int lane = 0; lane < kLanes; lane++)
      lanes[lane] += ExpInline((row[at + lane] - max) * scale);
  }
  float sum = 0;
  for (float lane : lanes)
    sum += lane;
  return sum;
}

PLIMSOLL_WIDE int32_t CountAtLeast(const float* row, float threshold) {
  int32_t lanes[kLanes] = {};
  for (int at = 0; at < kBlock; at += kLanes) {
    for (int lane = 0; lane < kLanes; lane++)
      lanes[lane] += row[at + lane] >= threshold ? 1 : 0;
  }
  int32_t sum = 0;
  for (int32_t lane : lanes)
    sum += lane;
  return sum;
}

} // namespace

float ExpOf(float x) {
  return ExpInline(x);
}

RowMax MaxOf(const float* row, int count) {
  float lanes[kLanes];
  int32_t nans[kLanes] = {};
  for (float& lane : lanes)
    lane = -INFINITY;
  int blocks = count / kLanes;
  MaxBlocks(row, blocks, lanes, nans);
  RowMax result{-INFINITY, false};
  for (int lane = 0; lane < kLanes; lane++) {
    if (lanes[lane] > result.value)
      result.value = lanes[lane];
    result.has_nan = result.has_nan || nans[lane] != 0;
  }
  for (int index = blocks * kLanes; index < count; index++) {
    if (row[index] > result.value)
      result.value = row[index];
    result.has_nan = result.has_nan || row[index] != row[index];
  }
  return result;
}

int IndexOf(const float* row, int count, float value) {
  int index = 0;
  // A block is first counted, which vectorizes, and searched only when it holds the value (nothing is above the row's
  // maximum).
  while (index + kBlock <= count && CountAtLeast(row + index, value) == 0)
    index += kBlock;
  while (index < count && row[index] != value)
    index++;
  return index;
}

double SumExp(const float* row, int count, float max, float scale, double* block_sums) {
  double total = 0;
  int block = 0;
  int index = 0;
  for (; index + kBlock <= count; index += kBlock, block++) {
    double sum = SumExpBlock(row + index, max, scale);
    if (block_sums != nullptr)
      block_sums[block] = sum;
    total += sum;
  }
  if (index == count)
    return total;
  double rest = 0;
  for (; index < count; index++)
    rest += ExpInline((row[index] - max) * scale);
  if (block_sums != nullptr)
    block_sums[block] = rest;
  return total + rest;
}

int CollectAtLeast(const float* row, int count, float threshold, int32_t* indices, int capacity) {
  int found = 0;
  for (int begin = 0; begin < count; begin += kBlock) {
    int end = begin + kBlock <= count ? begin + kBlock : count;
    if (end - begin == kBlock && CountAtLeast(row + begin, threshold) == 0)
      continue;
    for (int index = begin; index < end; index++) {
      if (row[index] < threshold)
        continue;
      if (found == capacity)
        return -1;
      indices[found++] = index;
    }
  }
  return found;
}

} // namespace plimsoll
