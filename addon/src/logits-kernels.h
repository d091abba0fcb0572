// Passes over one row of logits: the only code whose time grows with the vocabulary. Written so that the compiler
// vectorizes them without -ffast-math: independent lanes, no calls, no branches in the inner loops.
#pragma once

#include <cstdint>

namespace plimsoll {

// Elements that the kernels treat as a unit; a row's rest is handled one by one. Chosen: fits a few registers of any
// width.
constexpr int kBlock = 1024;

struct RowMax {
  float value;
  // A NaN anywhere in the row.
  bool has_nan;
};

// −inf for an empty row.
RowMax MaxOf(const float* row, int count);

// Lowest index of `value`, which is in the row.
int IndexOf(const float* row, int count, float value);

// Sum of exp((row[i] − max) × scale). `block_sums`, where given, gets the sum of each kBlock elements: (count + kBlock
// − 1) / kBlock.
double SumExp(const float* row, int count, float max, float scale, double* block_sums);

// Writes to `indices`, in order, every index whose value is ≥ `threshold`; returns how many, or −1 when there are more
// than `capacity`.
int CollectAtLeast(const float* row, int count, float threshold, int32_t* indices, int capacity);

// exp(x) within 2 ulp for x ≤ 0; 0 below −87. The same everywhere: sums and draws must agree.
float ExpOf(float x);

} // namespace plimsoll
