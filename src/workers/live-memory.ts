import type { Readings } from '../shared/engine.js';
import type { GaugeReader } from '../shared/gauges.js';
import type { DeviceGauge } from '../shared/gauges-layout.js';
import { type DeviceMemory, headroomOf, hostHeadroomOf, limitOf } from '../shared/memory/headroom.js';

/** Readings at most this often. Chosen: pressure is told by tenths of seconds. Measured: one takes 20 µs on Linux, and 0.4 ms of the engine's
 *  time when it wakes a thread for it while all cores compute. */
const LEAST_INTERVAL_MS = 100;
/** And at least this often, however much is free. Chosen. */
const MOST_INTERVAL_MS = 400;
/** Nobody takes memory faster. Chosen: a core zeroes some 3 GB of pages a second. */
const FASTEST_FALL_BYTES_PER_MS = 2 ** 32 / 1000;

/** What the operating system tells now; what is left out is taken from the forward worker's last readings. */
export type ReadHost = () => Partial<Readings>;

/**
 * Headroom as the overlap worker sees it. The forward worker reads between its steps, and a step may be longer than memory lasts: what
 * the operating system tells is read here as well, whatever the device is doing.
 */
export class LiveMemory {
  headroomBytes = 0;
  /** Headroom of RAM, and its limit: the same memory, but for a card's. */
  hostHeadroomBytes = 0;
  hostLimitBytes = 0;
  /** 0 none, 1 warning, 2 critical. */
  pressureLevel = 0;
  readAtMs = Number.NEGATIVE_INFINITY;
  /** Of the forward worker; 0: not known. */
  spillBytesPerMs = 0;

  constructor(
    private readonly device: GaugeReader<DeviceGauge>,
    private readonly memory: DeviceMemory,
    private readonly readHost: ReadHost,
  ) {}

  /** Until the next reading: at the fastest fall at least three of them see memory go. */
  get intervalMs(): number {
    const lastsMs = this.headroomBytes / FASTEST_FALL_BYTES_PER_MS;
    return Math.min(Math.max(lastsMs / 4, LEAST_INTERVAL_MS), MOST_INTERVAL_MS);
  }

  /** Takes readings if the last ones are old enough. True: it did. */
  refresh(nowMs: number): boolean {
    if (nowMs - this.readAtMs < this.intervalMs) return false;
    this.readAtMs = nowMs;
    const readings = { ...this.device.read(), ...this.readHost() };
    this.headroomBytes = headroomOf(readings, this.memory).bytes;
    this.hostHeadroomBytes = hostHeadroomOf(readings).bytes;
    this.hostLimitBytes = limitOf(readings, 'host').limitBytes;
    this.pressureLevel = readings.pressureLevel;
    this.spillBytesPerMs = readings.spillBytesPerMs;
    return true;
  }
}
