// The engine's threads take all cores there are and never sleep while they compute. Whoever waits for a token (our own
// JavaScript, a client on the same machine) is then kept until the scheduler's next tick, 4 ms with the usual kernel.
#pragma once

#ifdef __linux__

#include <cstdint>
#include <sys/syscall.h>
#include <unistd.h>

namespace plimsoll {

// struct sched_attr of linux/sched/types.h, which glibc has no header for.
struct SchedulingAttributes {
  uint32_t size;
  uint32_t policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime_nanos;
  uint64_t deadline_nanos;
  uint64_t period_nanos;
};

// The shortest slice that the kernel grants (sched(7): 0.1 ms to 100 ms).
constexpr uint64_t kSliceNanos = 100'000;
constexpr uint32_t kPolicyOther = 0;

// Asks for short slices for the calling thread and those that it starts from now on: the same share of the processor,
// in smaller pieces. Linux 6.12 and later grant it; what an older kernel says does not matter.
inline void AskForShortSlices() {
  SchedulingAttributes attributes{};
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0 || attributes.policy != kPolicyOther)
    return;
  attributes.size = sizeof attributes;
  attributes.runtime_nanos = kSliceNanos;
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

} // namespace plimsoll

#else

namespace plimsoll {
inline void AskForShortSlices() {}
} // namespace plimsoll

#endif
