import type { DeviceInfo, Readings } from '../engine.js';

/**
 * Where the device's memory is. *host*: the CPU computes, RAM is the device. *unified*: a GPU with a limit of its own inside RAM
 * (Apple silicon). *discrete*: a GPU with memory of its own, of which RAM says nothing.
 */
export type DeviceMemory = 'host' | 'unified' | 'discrete';

export function deviceMemoryOf(device: Pick<DeviceInfo, 'kind' | 'name'>): DeviceMemory {
  if (device.kind === 'cpu') return 'host';
  // The Metal backend calls every GPU discrete, on Apple silicon too.
  if (device.kind === 'integrated-gpu' || /^(mtl|metal)/i.test(device.name)) return 'unified';
  return 'discrete';
}

/** Bytes; null: there is no such limit here, so it cannot bind. */
export interface HeadroomTerms {
  deviceLimitBytes: number | null;
  deviceUsedBytes: number;
  systemAvailableBytes: number | null;
  cgroupHeadroomBytes: number | null;
}

export type HeadroomSource = 'device' | 'system' | 'cgroup';

export interface Headroom {
  /** Never negative. */
  bytes: number;
  /** The term that is smallest. */
  binds: HeadroomSource;
  /** Every term there is, with the reading it was made of. */
  terms: ReadonlyArray<{ source: HeadroomSource; bytes: number; from: string }>;
}

const FROM: Record<HeadroomSource, string> = {
  device: 'device limit − device use',
  system: 'system memory available',
  cgroup: 'cgroup limit − use + reclaimable file cache',
};

/** max(min(device limit − device use, system available, cgroup headroom), 0): the one rule of start, probe and live. */
export function headroom(terms: HeadroomTerms): Headroom {
  const present: Array<{ source: HeadroomSource; bytes: number; from: string }> = [];
  const add = (source: HeadroomSource, bytes: number | null) => {
    if (bytes !== null) present.push({ source, bytes, from: FROM[source] });
  };
  add('device', terms.deviceLimitBytes === null ? null : terms.deviceLimitBytes - terms.deviceUsedBytes);
  add('system', terms.systemAvailableBytes);
  add('cgroup', terms.cgroupHeadroomBytes);
  if (present.length === 0) return { bytes: 0, binds: 'system', terms: present };
  const least = present.reduce((a, b) => (b.bytes < a.bytes ? b : a));
  return { bytes: Math.max(Math.floor(least.bytes), 0), binds: least.source, terms: present };
}

/** Headroom of the memory that the device computes in. */
export function headroomOf(readings: Readings, memory: DeviceMemory): Headroom {
  return headroom(termsOf(readings, memory));
}

/** Headroom of RAM alone: what host buffers beside a discrete GPU have. */
export function hostHeadroomOf(readings: Readings): Headroom {
  return headroom(termsOf(readings, 'host'));
}

export function termsOf(readings: Readings, memory: DeviceMemory): HeadroomTerms {
  // A CPU "device" reports RAM as its own and all of it as free; the system and cgroup readings are the truth there.
  const hasDevice = memory !== 'host' && readings.deviceTotalBytes > 0;
  const hasHost = memory !== 'discrete' || !hasDevice;
  return {
    deviceLimitBytes: hasDevice ? readings.deviceTotalBytes : null,
    deviceUsedBytes: hasDevice ? readings.deviceTotalBytes - readings.deviceFreeBytes : 0,
    systemAvailableBytes: hasHost && readings.systemTotalBytes > 0 ? readings.systemAvailableBytes : null,
    cgroupHeadroomBytes:
      hasHost && readings.cgroupLimitBytes > 0
        ? readings.cgroupLimitBytes - readings.cgroupUsedBytes + readings.cgroupReclaimableBytes
        : null,
  };
}

/** The limit that the plan is measured against and what is used of it: device memory, else the smaller of RAM and cgroup. */
export interface Limit {
  limitBytes: number;
  usedBytes: number;
  source: HeadroomSource;
}

export function limitOf(readings: Readings, memory: DeviceMemory): Limit {
  const terms = termsOf(readings, memory);
  if (terms.deviceLimitBytes !== null) {
    return { limitBytes: terms.deviceLimitBytes, usedBytes: terms.deviceUsedBytes, source: 'device' };
  }
  if (terms.cgroupHeadroomBytes !== null && readings.cgroupLimitBytes <= readings.systemTotalBytes) {
    const usedBytes = readings.cgroupLimitBytes - terms.cgroupHeadroomBytes;
    return { limitBytes: readings.cgroupLimitBytes, usedBytes, source: 'cgroup' };
  }
  const usedBytes = readings.systemTotalBytes - readings.systemAvailableBytes;
  return { limitBytes: readings.systemTotalBytes, usedBytes, source: 'system' };
}
