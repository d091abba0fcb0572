import type { ContextInfo, Engine, Readings } from '../shared/engine.js';
import { GaugeWriter } from '../shared/gauges.js';
import { DEVICE_GAUGES, type DeviceGauge } from '../shared/gauges-layout.js';
import { STEP_OUT } from '../shared/step-output.js';
import type { MemoryWatch } from './memory-watch.js';

/** Readings at most this often while steps run. Measured: one reading costs some 40 µs on Linux. */
const READ_INTERVAL_MS = 50;

/** The forward worker's side of the device gauges: readings, and what the last step did. */
export class DeviceGaugeWriter {
  private readonly writer: GaugeWriter<DeviceGauge>;
  private readAtMs = Number.NEGATIVE_INFINITY;
  private steps = 0;
  private decodedTokens = 0;
  private idleMicros = 0;
  private threadCount = 0;
  /** KV and compute of the context that stands. */
  private contextBytes = 0;
  private hostPrefixBytes = 0;

  constructor(
    buffer: SharedArrayBuffer,
    private readonly headroom: (readings: Readings) => number,
    private readonly watch: MemoryWatch,
    /** All sequences take their cells from one pool. */
    public isShared = true,
  ) {
    this.writer = new GaugeWriter(buffer, DEVICE_GAUGES);
  }

  /** Takes readings if the last ones are old enough. */
  refresh(engine: Engine, nowMs: number): void {
    if (nowMs - this.readAtMs >= READ_INTERVAL_MS) this.refreshNow(engine, nowMs);
  }

  refreshNow(engine: Engine, nowMs: number): void {
    this.readAtMs = nowMs;
    const readings = engine.readings();
    this.writer.write({
      ...readings,
      deviceUsedBytes: readings.deviceTotalBytes - readings.deviceFreeBytes,
      headroomBytes: this.headroom(readings),
      unexplainedBytes: this.watch.unexplainedBytes(readings, this.contextBytes, this.hostPrefixBytes),
      readAtMs: performance.timeOrigin + nowMs,
    });
  }

  /** The context that stands now; null: none does. */
  context(context: ContextInfo | null, epoch: number): void {
    this.writer.write({ contextEpoch: epoch });
    this.contextBytes = 0;
    if (context === null) {
      this.writer.write({ kvBytes: 0, computeBytes: 0, kvTotalTokens: 0, kvUsedTokens: 0 });
      return;
    }
    const sum = (key: 'modelBytes' | 'contextBytes' | 'computeBytes') =>
      context.breakdown.reduce((total, part) => total + part[key], 0);
    this.contextBytes = sum('contextBytes') + sum('computeBytes');
    this.writer.write({
      weightsBytes: sum('modelBytes'),
      kvBytes: sum('contextBytes'),
      computeBytes: sum('computeBytes'),
      kvTotalTokens: this.isShared ? context.cells : context.cells * context.sequences,
    });
  }

  /** Threads of the step that begins. */
  threads(count: number): void {
    if (count === this.threadCount) return;
    this.threadCount = count;
    this.writer.write({ engineThreads: count });
  }

  set(values: { [G in DeviceGauge]?: number }): void {
    this.hostPrefixBytes = values.hostPrefixBytes ?? this.hostPrefixBytes;
    this.writer.write(values);
  }

  step(output: Int32Array, gapMicros: number, startMs: number, endMs: number): void {
    this.steps++;
    this.decodedTokens += output[STEP_OUT.decodedTokens];
    this.idleMicros += gapMicros;
    this.writer.write({
      steps: this.steps,
      decodedTokens: this.decodedTokens,
      kvUsedTokens: output[STEP_OUT.kvUsedTokens],
      lastStepMicros: (endMs - startMs) * 1000,
      lastDecodeMicros: output[STEP_OUT.decodeMicros],
      lastSampleMicros: output[STEP_OUT.sampleMicros],
      deviceIdleMicros: this.idleMicros,
      lastErrorCode: output[STEP_OUT.status],
    });
  }
}
