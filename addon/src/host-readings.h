// Memory of this machine and of this process, as the operating system tells it. Plain C interface; one implementation
// an operating system (host-readings-linux.cc, host-readings-macos.c). Device memory comes from ggml, not from here.
#ifndef PLIMSOLL_HOST_READINGS_H
#define PLIMSOLL_HOST_READINGS_H

#ifdef __cplusplus
extern "C" {
#endif

// Bytes, as doubles because they go to Float64 gauges as they are. 0 where a source does not exist.
struct plimsoll_host_readings {
  double system_total_bytes;
  // Linux: MemAvailable. macOS: free (speculative pages are part of it), inactive and purgeable. Like the reclaimable
  // bytes below, it counts file pages that are mapped, so weights loaded with mmap look available although they are in
  // use.
  double system_available_bytes;
  // The control group that leaves the least room, of this process's own and all above it; its three numbers belong
  // together. 0: no limit anywhere.
  double cgroup_limit_bytes;
  double cgroup_used_bytes;
  // Clean file cache: what the kernel takes back before it kills.
  double cgroup_reclaimable_bytes;
  // Memory that exists only because of this process, swapped or compressed pages included, mapped files excluded.
  double process_footprint_bytes;
  // 0 none, 1 warning, 2 critical.
  double pressure_level;
  // macOS: iogpu.wired_limit_mb, 0 when the system's default holds. Linux: 0.
  double gpu_wired_limit_bytes;
};

struct plimsoll_host_reader;

// A reader keeps its files open, so that a reading costs microseconds. `root` is put before every path (tests feed fake
// trees); NULL or "" is the real machine, and the only root there is on macOS. NULL when there is no memory for it.
struct plimsoll_host_reader* plimsoll_host_reader_open(const char* root);

// 0 and `*out` filled, or -1 and `*out` zeroed when the system's total memory cannot be read. One thread at a time.
int plimsoll_host_reader_read(struct plimsoll_host_reader* reader, struct plimsoll_host_readings* out);

void plimsoll_host_reader_close(struct plimsoll_host_reader* reader);

// Open, read, close.
int plimsoll_host_readings_at(const char* root, struct plimsoll_host_readings* out);

#ifdef __cplusplus
}
#endif
#endif
