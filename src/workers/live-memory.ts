import type { Readings } from '../shared/engine.js';
import type { GaugeReader } from '../shared/gauges.js';
import type { DeviceGauge } from '../shared/gauges-layout.js';
import { type DeviceMemory, headroomOf } from '../shared/memory/headroom.js';

/** Readings at most this often. Chosen: pressure is told by tenths of seconds. Measured: one takes 20 µs on Linux. */
const READ_INTERVAL_MS = 100;

/** What the operating system tells now; what is left out is taken from the forward worker's last readings. */
export type ReadHost = () => Partial<Readings>;

/**
 * Headroom as the overlap worker sees it. The forward worker reads between its steps, and a step may be longer than memory lasts: what
 * the operating system tells is read here as well, whatever the device is doing.
 */
export class LiveMemory {
  headroomBytes = 0;
  /** 0 none, 1 warning, 2 critical. */
  pressureLevel = 0;
  private readAtMs = Number.NEGATIVE_INFINITY;

  constructor(
    private readonly device: GaugeReader<DeviceGauge>,
    private readonly memory: DeviceMemory,
    private readonly readHost: ReadHost,
  ) {}

  /** Takes readings if the last ones are old enough. True: it did. */
  refresh(nowMs: number): boolean {
    if (nowMs - this.readAtMs < READ_INTERVAL_MS) return false;
    this.readAtMs = nowMs;
    const readings = { ...this.device.read(), ...this.readHost() };
    this.headroomBytes = headroomOf(readings, this.memory).bytes;
    this.pressureLevel = readings.pressureLevel;
    return true;
  }
}
