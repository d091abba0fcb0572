// Memory limits of the control groups this process is in, version 1 or 2. Linux only.
#pragma once

#include "host-proc-file.h"

#include <string>
#include <vector>

namespace plimsoll {

struct CgroupMemory {
  // 0: no limit.
  double limit_bytes = 0;
  double used_bytes = 0;
  double reclaimable_bytes = 0;
};

class CgroupReader {
public:
  explicit CgroupReader(std::string root);

  // The group that leaves the least room, of our own and all above it. Finds the groups anew when the process was
  // moved.
  CgroupMemory read();

  // Pressure file of our own group; missing in version 1.
  const ProcFile& pressure() const { return pressure_; }

private:
  struct Level {
    ProcFile max, high, used, stat;
  };

  void find_levels();
  void open_levels(const std::string& mount_point, std::string path);
  double limit_of(const Level& level, bool own);
  double reclaimable_of(const Level& level);

  std::string root_;
  ProcFile membership_;
  std::string known_membership_;
  bool version2_ = false;
  std::vector<Level> levels_;
  ProcFile pressure_;
  std::string buffer_;
};

} // namespace plimsoll
