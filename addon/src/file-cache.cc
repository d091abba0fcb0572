#include "file-cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <system_error>

namespace plimsoll {
#ifdef __linux__
namespace {

// Chosen: at the two gigabytes a second of a good disk some megabytes, small against any margin.
constexpr auto kPause = std::chrono::milliseconds(1);
// A call of the disk for less is not worth it. Chosen.
constexpr size_t kLeastBytes = 1 << 20;
// Pages in the making cannot be dropped. A power of two that holds the pages of any machine.
constexpr size_t kAlignBytes = 1 << 16;

} // namespace

WriteBehind::WriteBehind(const char* path, size_t cached_bytes)
    : descriptor_(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)), cached_bytes_(cached_bytes) {
  if (descriptor_ < 0)
    return;
  try {
    thread_ = std::thread([this] { Follow(); });
  } catch (const std::system_error&) {
    // No thread can be had: the cache is the kernel's affair.
  }
}

WriteBehind::~WriteBehind() {
  is_over_ = true;
  if (thread_.joinable())
    thread_.join();
  if (descriptor_ >= 0)
    close(descriptor_);
}

void WriteBehind::Follow() {
  while (!is_over_) {
    Advance();
    std::this_thread::sleep_for(kPause);
  }
  Advance();
}

void WriteBehind::Advance() {
  struct stat status;
  if (fstat(descriptor_, &status) != 0)
    return;
  size_t written = static_cast<size_t>(status.st_size) / kAlignBytes * kAlignBytes;
  if (written >= begun_bytes_ + kLeastBytes) {
    sync_file_range(descriptor_, begun_bytes_, written - begun_bytes_, SYNC_FILE_RANGE_WRITE);
    begun_bytes_ = written;
  }
  if (begun_bytes_ < dropped_bytes_ + cached_bytes_ + kLeastBytes)
    return;
  size_t bytes = begun_bytes_ - cached_bytes_ - dropped_bytes_;
  sync_file_range(descriptor_, dropped_bytes_, bytes,
                  SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
  posix_fadvise(descriptor_, dropped_bytes_, bytes, POSIX_FADV_DONTNEED);
  dropped_bytes_ += bytes;
}

#else
WriteBehind::WriteBehind(const char*, size_t cached_bytes) : descriptor_(-1), cached_bytes_(cached_bytes) {}
WriteBehind::~WriteBehind() = default;
void WriteBehind::Follow() {}
void WriteBehind::Advance() {}
#endif
} // namespace plimsoll
