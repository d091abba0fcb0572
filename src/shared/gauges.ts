import { GAUGES_DATA_BYTE, GAUGES_SEQUENCE_BYTE } from './gauges-layout.js';

/** A torn read is retried; after this many the writer must be dead or stuck. Chosen: a write takes under a microsecond. */
const READ_ATTEMPTS_MAX = 10_000;

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

/** Reading end. `read` returns one consistent snapshot in an object that is reused: copy what you keep. */
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

  /** @throws Error when no consistent snapshot can be had. */
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
    throw new Error('the gauge block is locked: its writer died in the middle of a write');
  }
}
