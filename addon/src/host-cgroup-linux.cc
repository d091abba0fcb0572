#include "host-cgroup-linux.h"

#include <algorithm>
#include <sys/stat.h>

namespace plimsoll {
namespace {

// Chosen: deeper trees exist nowhere we know of, and each level costs up to four open files.
constexpr size_t max_levels = 16;

// Chosen: 20,000 mounts, far over what a busy container host has.
constexpr size_t mountinfo_limit_bytes = 4 << 20;

// Version 1 says "no limit" with the largest page-aligned count, 2^63 less a page; nobody has an exabyte (2^60).
constexpr double no_limit_bytes = 1152921504606846976.0;

struct Membership {
  bool found = false;
  bool version2 = false;
  std::string path;
};

// Lines are "id:controllers:path". Where version 1 holds the memory controller, version 2 (id 0) has no memory files.
Membership memory_membership(std::string_view text) {
  Membership result;
  for_each_line(text, [&](std::string_view line) {
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos)
      return true;
    const std::string controllers = "," + std::string(line.substr(first + 1, second - first - 1)) + ",";
    const bool version1 = controllers.find(",memory,") != std::string::npos;
    const bool version2 = line.substr(0, first) == "0" && controllers == ",,";
    if (version1 || version2)
      result = {true, version2, std::string(line.substr(second + 1))};
    return !version1;
  });
  return result;
}

// mountinfo writes blanks, tabs and backslashes as octal: "\040".
std::string unescaped(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); i++) {
    const bool escape = text[i] == '\\' && i + 3 < text.size() && text.find_first_not_of("01234567", i + 1) >= i + 4;
    result +=
        escape ? static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0')) : text[i];
    if (escape)
      i += 3;
  }
  return result;
}

std::vector<std::string_view> words(std::string_view line) {
  std::vector<std::string_view> result;
  size_t start = 0;
  while ((start = line.find_first_not_of(' ', start)) != std::string_view::npos) {
    const size_t end = std::min(line.find(' ', start), line.size());
    result.push_back(line.substr(start, end - start));
    start = end;
  }
  return result;
}

struct Mount {
  std::string root, point;
};

// Lines are "id parent device root point options [tags] - type source super-options".
std::vector<Mount> memory_mounts(std::string_view text, bool version2) {
  std::vector<Mount> result;
  for_each_line(text, [&](std::string_view line) {
    const auto all = words(line);
    const auto dash = std::find(all.begin(), all.end(), "-");
    if (dash - all.begin() < 6 || all.end() - dash < 4)
      return true;
    const std::string options = "," + std::string(dash[3]) + ",";
    const bool matches =
        version2 ? dash[1] == "cgroup2" : dash[1] == "cgroup" && options.find(",memory,") != std::string::npos;
    if (matches)
      result.push_back({unescaped(all[3]), unescaped(all[4])});
    return true;
  });
  return result;
}

// Where the group lies below the mount point: "" for the mount point itself. In a container the path may be the host's,
// or point outside ("/.."); then the mount point is the nearest group that can be seen, and it holds the container's
// limit.
std::string path_below(const Mount& mount, const std::string& path) {
  const std::string root = mount.root == "/" ? "" : mount.root;
  const bool inside =
      path.compare(0, root.size(), root) == 0 && (path.size() == root.size() || path[root.size()] == '/');
  if (!inside || path.find("/..") != std::string::npos)
    return "";
  const std::string below = path.substr(root.size());
  return below == "/" ? "" : below;
}

bool is_folder(const std::string& path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

} // namespace

CgroupReader::CgroupReader(std::string root) : root_(std::move(root)), membership_(root_ + "/proc/self/cgroup") {}

CgroupMemory CgroupReader::read() {
  const std::string_view membership = membership_.read(buffer_);
  if (membership != known_membership_) {
    known_membership_ = membership;
    find_levels();
  }
  CgroupMemory tightest;
  double least_room = 0;
  for (const Level& level : levels_) {
    const double limit = limit_of(level, &level == &levels_.front());
    if (limit >= no_limit_bytes)
      continue;
    const double used = leading_number(level.used.read(buffer_)).value_or(0);
    const double reclaimable = std::min(reclaimable_of(level), used);
    const double room = limit - used + reclaimable;
    // A limit of zero would read as "none".
    if (tightest.limit_bytes == 0 || room < least_room)
      tightest = {std::max(limit, 1.0), used, reclaimable};
    least_room = tightest.limit_bytes - tightest.used_bytes + tightest.reclaimable_bytes;
  }
  return tightest;
}

void CgroupReader::find_levels() {
  levels_.clear();
  pressure_ = ProcFile();
  const Membership membership = memory_membership(known_membership_);
  if (!membership.found)
    return;
  version2_ = membership.version2;
  const std::string_view mountinfo = ProcFile(root_ + "/proc/self/mountinfo").read_list(buffer_, mountinfo_limit_bytes);
  const std::vector<Mount> mounts = memory_mounts(mountinfo, version2_);
  if (mounts.empty())
    return;
  // A bind mount of one group and a mount of the whole tree may both be there: the one that shows our own group wins.
  const Mount* best = &mounts.front();
  std::string below;
  for (const Mount& mount : mounts) {
    const std::string path = path_below(mount, membership.path);
    if (path.size() <= below.size() || !is_folder(root_ + mount.point + path))
      continue;
    best = &mount;
    below = path;
  }
  open_levels(root_ + best->point, below);
}

void CgroupReader::open_levels(const std::string& mount_point, std::string path) {
  pressure_ = ProcFile(mount_point + path + "/memory.pressure");
  while (levels_.size() < max_levels) {
    const std::string folder = mount_point + path + "/memory.";
    if (version2_) {
      levels_.push_back({ProcFile(folder + "max"), ProcFile(folder + "high"), ProcFile(folder + "current"),
                         ProcFile(folder + "stat")});
    } else {
      levels_.push_back({ProcFile(folder + "limit_in_bytes"), ProcFile(), ProcFile(folder + "usage_in_bytes"),
                         ProcFile(folder + "stat")});
    }
    if (path.empty())
      return;
    path.resize(path.rfind('/'));
  }
}

// Over memory.high nothing is killed, but every allocation is made to wait: for us that is a limit too. In version 1
// our own group also tells the smallest limit above it, even of groups that cannot be seen from a container.
double CgroupReader::limit_of(const Level& level, bool own) {
  double limit = leading_number(level.max.read(buffer_)).value_or(no_limit_bytes);
  if (version2_)
    return std::min(limit, leading_number(level.high.read(buffer_)).value_or(no_limit_bytes));
  if (!own)
    return limit;
  return std::min(limit, field(level.stat.read(buffer_), "hierarchical_memory_limit").value_or(no_limit_bytes));
}

// Both file lists, mapped files among them, as MemAvailable counts them: whoever maps weights subtracts those from both
// readings alike. Dirty pages have to be written first, and a full disk or a slow one makes that never.
double CgroupReader::reclaimable_of(const Level& level) {
  const std::string_view stat = level.stat.read(buffer_);
  const auto value = [&](const char* version1, const char* version2) {
    return field(stat, version2_ ? version2 : version1).value_or(0);
  };
  const double file = value("total_inactive_file", "inactive_file") + value("total_active_file", "active_file");
  const double dirty = value("total_dirty", "file_dirty") + value("total_writeback", "file_writeback");
  return std::max(file - dirty, 0.0);
}

} // namespace plimsoll
