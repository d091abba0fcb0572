// A file of /proc or a control group, kept open and read anew with pread: the kernel writes such files at each read
// from offset 0, and reading costs a third of opening. Linux only.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace plimsoll {

class ProcFile {
public:
  ProcFile() = default;
  explicit ProcFile(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ProcFile(ProcFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ProcFile& operator=(ProcFile&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~ProcFile() {
    if (fd_ >= 0)
      close(fd_);
  }

  bool is_open() const { return fd_ >= 0; }

  // The text, in `buffer` (reused, so that a standing reader does not allocate); empty when missing. One pread: the
  // kernel makes the files read here whole in one go, and asking again for the end would make it write them a second
  // time.
  std::string_view read(std::string& buffer) const {
    if (buffer.size() < read_bytes)
      buffer.resize(read_bytes);
    ssize_t got = -1;
    if (fd_ >= 0) {
      do
        got = pread(fd_, buffer.data(), buffer.size(), 0);
      while (got < 0 && errno == EINTR);
    }
    return std::string_view(buffer).substr(0, got > 0 ? static_cast<size_t>(got) : 0);
  }

  // The same for a list (mountinfo), which comes in pieces; at most `limit` bytes.
  std::string_view read_list(std::string& buffer, size_t limit) const {
    size_t used = 0;
    while (fd_ >= 0 && used < limit) {
      if (buffer.size() < used + read_bytes)
        buffer.resize(used + read_bytes);
      const ssize_t got = pread(fd_, buffer.data() + used, buffer.size() - used, static_cast<off_t>(used));
      if (got < 0 && errno == EINTR)
        continue;
      if (got <= 0)
        break;
      used += static_cast<size_t>(got);
    }
    return std::string_view(buffer).substr(0, used);
  }

private:
  // Derived: memory.stat, the longest of them, has about 60 lines of under 40 characters; /proc/self/status is under 4
  // KiB with all of 1024 CPUs in its masks.
  static constexpr size_t read_bytes = 16 << 10;

  int fd_ = -1;
};

// Calls `visit` with each line, without its end, until it returns false.
template <typename Visit> void for_each_line(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (!visit(text.substr(0, end)))
      return;
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
}

// A whole number at the start of `text`, blanks before it skipped; nothing when there is none ("max", garbage, a sign).
inline std::optional<double> leading_number(std::string_view text) {
  const size_t start = text.find_first_not_of(" \t");
  if (start == std::string_view::npos || text[start] < '0' || text[start] > '9')
    return std::nullopt;
  double value = 0;
  for (size_t i = start; i < text.size() && text[i] >= '0' && text[i] <= '9'; i++)
    value = value * 10 + (text[i] - '0');
  return value;
}

// The number after `name` at the start of a line, as in "MemTotal:  123 kB" (name with its colon) or "inactive_file
// 123".
inline std::optional<double> field(std::string_view text, std::string_view name) {
  std::optional<double> value;
  for_each_line(text, [&](std::string_view line) {
    const bool found = line.size() > name.size() && line.compare(0, name.size(), name) == 0 &&
                       (line[name.size()] == ' ' || line[name.size()] == '\t');
    if (found)
      value = leading_number(line.substr(name.size()));
    return !found;
  });
  return value;
}

} // namespace plimsoll
