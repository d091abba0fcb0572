#pragma once

#include <cstdlib>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace plimsoll {

// Freed blocks above this go back to the system at once. The C library raises its own threshold to the largest block
// that was ever freed, up to 32 MB: states of sequences would then stay with the process. Chosen: rare enough that the
// system call does not matter.
constexpr int kReturnedBlockBytes = 1 << 20;

inline void ReturnLargeBlocks() {
#if defined(__GLIBC__)
  mallopt(M_MMAP_THRESHOLD, kReturnedBlockBytes);
  mallopt(M_TRIM_THRESHOLD, kReturnedBlockBytes);
#endif
}

// The engine's graphs are many small blocks, made and freed by the million: the C library keeps them for later, tens of
// megabytes that a small memory group misses and that no reading can tell from use. Other libraries give back by
// themselves.
inline void TrimHeap() {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

} // namespace plimsoll
