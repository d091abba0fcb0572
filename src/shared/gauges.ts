import { GAUGES_DATA_BYTE, GAUGES_SEQUENCE_BYTE } from './gauges-layout.js';

/**
 * Attempts at a snapshot before the last one is given again. Chosen: some 100 µs, far over the 2 µs of a write; a writer that holds
 * the block for longer was taken off its core, and no reader can wait for that.
 */
const READ_ATTEMPTS_MAX = 1000;

/** Writing end of a gauge block: one thread. Fields that `write` does not name keep their value. */
export class GaugeWriter<Field extends string> {
  private readonly sequence: Int32Array;
  private readonly values: Float64Array;
  private readonly index: ReadonlyMap<string, number>;

  constructor(buffer: SharedArrayBuffer, fields: readonly Field[]) {
    this.sequence = new Int32Array(buffer, GAUGES_SEQUENCE_BYTE, 1);
    this.values = new Float64Array(buffer, GAUGES_DATA_BYTE, fields.length);
    this.index = new Map(fields.map((field, i) => [field, i]));
  }

  /** @throws Error on a field that the block does not have. */
  write(changes: { [F in Field]?: number }): void {
    Atomics.add(this.sequence, 0, 1);
    try {
      for (const field in changes) {
        const i = this.index.get(field);
        if (i === undefined) throw new Error(`no gauge is named ${field}`);
        this.values[i] = changes[field] as number;
      }
    } finally {
      // Also after an error: a block left locked would blind every reader.
      Atomics.add(this.sequence, 0, 1);
    }
  }
}

/**
 * Reading end. `read` returns one consistent snapshot in an object that is reused: copy what you keep. It never waits for a writer
 * that stands in the middle of a write: then the last snapshot comes again (all zero before the first).
 */
export class GaugeReader<Field extends string> {
  private readonly sequence: Int32Array;
  private readonly values: Float64Array;
  private readonly copy: Float64Array;
  private readonly snapshot: Record<Field, number>;

  constructor(
    buffer: SharedArrayBuffer,
    private readonly fields: readonly Field[],
  ) {
    this.sequence = new Int32Array(buffer, GAUGES_SEQUENCE_BYTE, 1);
    this.values = new Float64Array(buffer, GAUGES_DATA_BYTE, fields.length);
    this.copy = new Float64Array(fields.length);
    this.snapshot = Object.fromEntries(fields.map((field) => [field, 0])) as Record<Field, number>;
  }

  read(): Readonly<Record<Field, number>> {
    for (let attempt = 0; attempt < READ_ATTEMPTS_MAX; attempt++) {
      const before = Atomics.load(this.sequence, 0);
      if (before & 1) continue;
      this.copy.set(this.values);
      // Adding 0, not loading: a load keeps later accesses behind it but not earlier ones before it, so on ARM the copy could slip
      // past a plain second look.
      if (Atomics.add(this.sequence, 0, 0) !== before) continue;
      for (let i = 0; i < this.fields.length; i++) this.snapshot[this.fields[i]] = this.copy[i];
      return this.snapshot;
    }
    return this.snapshot;
  }
}
