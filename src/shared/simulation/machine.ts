import { GIB, MIB } from '../memory/constants.js';
import type { DeviceMemory } from '../memory/headroom.js';
import { type DeviceProfile, readingsOfProfile } from '../memory/profiles.js';

/** A machine as memory sees it, with nothing of ours loaded. Bytes; 0: there is no such limit. */
export interface SimulatedMachine {
  name: string;
  memory: DeviceMemory;
  /** What the device may use; 0 where the CPU computes. */
  deviceLimitBytes: number;
  deviceInUseBytes: number;
  ramBytes: number;
  ramInUseBytes: number;
  /** Of the group that server and ballast share. */
  cgroupLimitBytes: number;
  /** What the backend takes with the first step, beyond every plan. */
  runtimeExtraBytes: number;
  /**
   * What happens when other programs want more than there is. *swap*: theirs is compressed or paged out, ours stays (macOS, where device
   * memory is wired). *kill*: the server is killed (a memory cgroup without swap, Linux without swap).
   */
  shortage: 'swap' | 'kill';
  engineThreads: number;
}

/** Threads of the engine: they take no memory here. */
const ENGINE_THREADS = 4;
/** On a card as measured on an H200 (12 to 76 MB); the others chosen: a CPU backend takes next to nothing, of Metal's no measurement is at
 *  hand, so twice the card's is taken. */
const RUNTIME_EXTRA_BYTES: Readonly<Record<DeviceMemory, number>> = {
  host: 16 * MIB,
  unified: 128 * MIB,
  discrete: 64 * MIB,
};

/** `limitBytes`: the device's own, where it is not the lowest that was reported for such machines. */
export function machineOfProfile(profile: DeviceProfile, limitBytes = profile.limitBytes): SimulatedMachine {
  const readings = readingsOfProfile(profile);
  return {
    name: profile.name,
    memory: profile.memory,
    deviceLimitBytes: limitBytes,
    deviceInUseBytes: readings.deviceTotalBytes - readings.deviceFreeBytes,
    ramBytes: readings.systemTotalBytes,
    ramInUseBytes: readings.systemTotalBytes - readings.systemAvailableBytes,
    cgroupLimitBytes: 0,
    runtimeExtraBytes: RUNTIME_EXTRA_BYTES[profile.memory],
    shortage: profile.memory === 'unified' ? 'swap' : 'kill',
    engineThreads: ENGINE_THREADS,
  };
}

/** A Linux machine without a GPU, in a memory cgroup of `limitBytes`. */
export function cgroupMachine(limitBytes: number): SimulatedMachine {
  return {
    name: `cgroup of ${Math.round(limitBytes / MIB)} MiB`,
    memory: 'host',
    deviceLimitBytes: 0,
    deviceInUseBytes: 0,
    ramBytes: limitBytes + 16 * GIB,
    ramInUseBytes: 2 * GIB,
    cgroupLimitBytes: limitBytes,
    runtimeExtraBytes: RUNTIME_EXTRA_BYTES.host,
    shortage: 'kill',
    engineThreads: 2,
  };
}
