#include "host-readings.h"

#include <mach/mach.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysctl.h>

// Nothing needs to stay open here, but mach_host_self() gives a send right that has to be given back.
struct plimsoll_host_reader {
  mach_port_t host;
};

// Integers of sysctl are 4 or 8 bytes wide, depending on the name and the release; 0 when the name is not there.
static double sysctl_number(const char* name) {
  union {
    int32_t narrow;
    int64_t wide;
  } value;
  size_t size = sizeof value;
  memset(&value, 0, sizeof value);
  if (sysctlbyname(name, &value, &size, NULL, 0) != 0)
    return 0;
  return size == sizeof value.narrow ? (double)value.narrow : (double)value.wide;
}

// Speculative pages are part of free_count already: vm_stat(1) subtracts them before it prints "Pages free".
static int system_available(mach_port_t host, double* bytes) {
  vm_statistics64_data_t pages;
  vm_size_t page_bytes = 0;
  mach_msg_type_number_t count = HOST_VM_INFO64_COUNT;
  if (host_page_size(host, &page_bytes) != KERN_SUCCESS)
    return -1;
  if (host_statistics64(host, HOST_VM_INFO64, (host_info64_t)&pages, &count) != KERN_SUCCESS)
    return -1;
  *bytes =
      ((double)pages.free_count + (double)pages.inactive_count + (double)pages.purgeable_count) * (double)page_bytes;
  return 0;
}

// What Activity Monitor calls memory: dirty, compressed and wired for us, Metal buffers included, clean mapped files
// not.
static double process_footprint(void) {
  task_vm_info_data_t info;
  mach_msg_type_number_t count = TASK_VM_INFO_COUNT;
  if (task_info(mach_task_self(), TASK_VM_INFO, (task_info_t)&info, &count) != KERN_SUCCESS)
    return 0;
  return (double)info.phys_footprint;
}

// The kernel says 1 normal, 2 warning, 4 critical.
static double pressure_level(void) {
  const double level = sysctl_number("kern.memorystatus_vm_pressure_level");
  if (level >= 4)
    return 2;
  return level >= 2 ? 1 : 0;
}

struct plimsoll_host_reader* plimsoll_host_reader_open(const char* root) {
  struct plimsoll_host_reader* reader;
  if (root && *root)
    return NULL;
  reader = malloc(sizeof *reader);
  if (reader)
    reader->host = mach_host_self();
  return reader;
}

int plimsoll_host_reader_read(struct plimsoll_host_reader* reader, struct plimsoll_host_readings* out) {
  memset(out, 0, sizeof *out);
  if (!reader)
    return -1;
  if (system_available(reader->host, &out->system_available_bytes) != 0)
    return -1;
  out->system_total_bytes = sysctl_number("hw.memsize");
  if (out->system_total_bytes == 0) {
    memset(out, 0, sizeof *out);
    return -1;
  }
  out->process_footprint_bytes = process_footprint();
  out->pressure_level = pressure_level();
  out->gpu_wired_limit_bytes = sysctl_number("iogpu.wired_limit_mb") * 1048576.0;
  return 0;
}

void plimsoll_host_reader_close(struct plimsoll_host_reader* reader) {
  if (!reader)
    return;
  mach_port_deallocate(mach_task_self(), reader->host);
  free(reader);
}

int plimsoll_host_readings_at(const char* root, struct plimsoll_host_readings* out) {
  struct plimsoll_host_reader* reader = plimsoll_host_reader_open(root);
  const int result = plimsoll_host_reader_read(reader, out);
  plimsoll_host_reader_close(reader);
  return result;
}
