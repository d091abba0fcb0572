// The kernel's file cache while a sequence is written to a file. Pages that are not on the disk yet cannot be taken
// back: where they fill what a memory group has left, the kernel counts them as needed ones.
#pragma once

#include <atomic>
#include <cstddef>
#include <thread>

namespace plimsoll {

// While it lives, what is written to the file at `path` goes to the disk at once, and all but its last `cached_bytes`
// (and a MiB or two) leave the file cache. Linux; elsewhere, and where there is no file or thread for it, the cache is
// the kernel's affair.
class WriteBehind {
public:
  WriteBehind(const char* path, size_t cached_bytes);
  ~WriteBehind();
  WriteBehind(const WriteBehind&) = delete;
  WriteBehind& operator=(const WriteBehind&) = delete;

private:
  void Follow();
  void Advance();

  const int descriptor_;
  const size_t cached_bytes_;
  // The file is on its way to the disk up to the first, and out of the cache up to the second.
  size_t begun_bytes_ = 0;
  size_t dropped_bytes_ = 0;
  std::atomic<bool> is_over_{false};
  std::thread thread_;
};

} // namespace plimsoll
