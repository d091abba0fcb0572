#include "host-readings.h"

#include "host-cgroup-linux.h"
#include "host-proc-file.h"

#include <algorithm>
#include <memory>

namespace {

using plimsoll::CgroupMemory;
using plimsoll::CgroupReader;
using plimsoll::field;
using plimsoll::ProcFile;

constexpr double kilobyte = 1024;

// Chosen. Share of the last ten seconds, in percent, that some (or all) tasks waited for memory. A machine that pages
// in now and then stays below 10; systemd-oomd kills at 60 % of "full" over 30 s, and we want to have yielded long
// before.
constexpr double warning_some_percent = 10;
constexpr double critical_some_percent = 40;
constexpr double critical_full_percent = 15;

// "some avg10=1.23 avg60=... total=..." or the same with "full"; 0 when the kernel has no pressure accounting.
double average10(std::string_view text, std::string_view kind) {
  double percent = 0;
  plimsoll::for_each_line(text, [&](std::string_view line) {
    const std::string start = std::string(kind) + " avg10=";
    const bool found = line.compare(0, start.size(), start) == 0;
    if (found)
      percent = plimsoll::leading_number(line.substr(start.size())).value_or(0);
    return !found;
  });
  return percent;
}

int level_of(std::string_view pressure) {
  const double some = average10(pressure, "some");
  if (some >= critical_some_percent || average10(pressure, "full") >= critical_full_percent)
    return 2;
  return some >= warning_some_percent ? 1 : 0;
}

} // namespace

struct plimsoll_host_reader {
  explicit plimsoll_host_reader(const std::string& root)
      : meminfo(root + "/proc/meminfo"), status(root + "/proc/self/status"), pressure(root + "/proc/pressure/memory"),
        cgroup(root) {}

  bool read(plimsoll_host_readings* out) {
    const std::string_view memory = meminfo.read(buffer);
    const auto total = field(memory, "MemTotal:");
    if (!total)
      return false;
    out->system_total_bytes = *total * kilobyte;
    // Kernels before 3.14 have no MemAvailable; free memory alone errs on the safe side.
    const auto available = field(memory, "MemAvailable:");
    out->system_available_bytes = (available ? *available : field(memory, "MemFree:").value_or(0)) * kilobyte;
    const CgroupMemory tightest = cgroup.read();
    out->cgroup_limit_bytes = tightest.limit_bytes;
    out->cgroup_used_bytes = tightest.used_bytes;
    out->cgroup_reclaimable_bytes = tightest.reclaimable_bytes;
    out->process_footprint_bytes = footprint_bytes();
    out->pressure_level = std::max(level_of(pressure.read(buffer)), level_of(cgroup.pressure().read(buffer)));
    return true;
  }

  ProcFile meminfo, status, pressure;
  CgroupReader cgroup;
  std::string buffer;

private:
  // Mapped files (RssFile) can be read again from disk and belong to the page cache. smaps_rollup would divide shared
  // pages fairly but walks every page table: milliseconds for a process that holds a model.
  double footprint_bytes() {
    const std::string_view text = status.read(buffer);
    double kilobytes = 0;
    for (const char* name : {"RssAnon:", "RssShmem:", "VmSwap:"})
      kilobytes += field(text, name).value_or(0);
    return kilobytes * kilobyte;
  }
};

struct plimsoll_host_reader* plimsoll_host_reader_open(const char* root) {
  try {
    return new plimsoll_host_reader(root ? root : "");
  } catch (...) {
    return nullptr;
  }
}

int plimsoll_host_reader_read(struct plimsoll_host_reader* reader, struct plimsoll_host_readings* out) {
  *out = {};
  try {
    if (reader && reader->read(out))
      return 0;
  } catch (...) {
  }
  *out = {};
  return -1;
}

void plimsoll_host_reader_close(struct plimsoll_host_reader* reader) {
  delete reader;
}

int plimsoll_host_readings_at(const char* root, struct plimsoll_host_readings* out) {
  const std::unique_ptr<plimsoll_host_reader, void (*)(plimsoll_host_reader*)> reader(plimsoll_host_reader_open(root),
                                                                                      plimsoll_host_reader_close);
  return plimsoll_host_reader_read(reader.get(), out);
}
