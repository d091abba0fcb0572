import { PlimsollError } from '../../shared/errors.js';
import type { Pipeline } from '../pipeline-types.js';
import type { PreparePool } from '../prepare-types.js';
import { PieceTable } from '../streaming/piece-table.js';

/** What a request needs to run: there only once the model is loaded. */
export interface Backend {
  pipeline: Pipeline;
  prepare: PreparePool;
  table: PieceTable;
}

/** Work in flight. `abort` ends it with an error that its client sees. */
export interface Lease {
  abort: (error: PlimsollError) => void;
}

/** For the last words of requests that were ended: they are short, and a client that does not read them is not waited for. Chosen. */
const LAST_BYTES_MS = 1000;

/** Whether requests are taken, with what, and which are in flight. */
export class Serving {
  private backend: Backend | null = null;
  private isDraining = false;
  private readonly leases = new Set<Lease>();
  private onIdle: (() => void) | null = null;

  get pipeline(): Pipeline | null {
    return this.backend?.pipeline ?? null;
  }

  /** The error that a new request would get, or null. */
  get refusal(): PlimsollError | null {
    if (this.isDraining) return new PlimsollError('draining', 'The server is shutting down.');
    if (this.backend === null) return new PlimsollError('loading', 'The model is being loaded.');
    return null;
  }

  get inFlightCount(): number {
    return this.leases.size;
  }

  attach(pipeline: Pipeline, prepare: PreparePool): void {
    this.backend = { pipeline, prepare, table: new PieceTable(pipeline.pieces) };
  }

  /** The pipeline is gone: new requests get `loading` until another is attached. Those in flight hear it from the pipeline. */
  detach(): void {
    this.backend = null;
  }

  /** @throws PlimsollError loading, draining. */
  require(): Backend {
    const refusal = this.refusal;
    if (refusal !== null) throw refusal;
    return this.backend as Backend;
  }

  enter(lease: Lease): void {
    this.leases.add(lease);
  }

  leave(lease: Lease): void {
    this.leases.delete(lease);
    if (this.leases.size === 0) this.onIdle?.();
  }

  /** Refuses new work, waits for what is in flight, and ends what is left after `timeoutMs`. Returns how many had to be ended. */
  async drain(timeoutMs: number): Promise<number> {
    this.isDraining = true;
    await this.idleOrTimeout(timeoutMs);
    const late = [...this.leases];
    for (const lease of late) lease.abort(new PlimsollError('draining', 'The server is shutting down.'));
    await this.idleOrTimeout(LAST_BYTES_MS);
    return late.length;
  }

  private idleOrTimeout(timeoutMs: number): Promise<void> {
    if (this.leases.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, timeoutMs);
      this.onIdle = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
