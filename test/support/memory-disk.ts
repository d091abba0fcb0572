import { DIRECTION, DiskLink, LINK_BYTES, LINK_STATE } from '../../src/shared/disk-link.js';
import type { DiskCommand, DiskEvent, DiskPrefix } from '../../src/shared/disk-messages.js';
import { DOORBELL_BYTES, Doorbell } from '../../src/shared/doorbell.js';
import type { SchedulerHarness } from './scheduler-harness.js';

interface File extends DiskPrefix {
  state: Uint8Array;
}

type Write = Extract<DiskCommand, { type: 'write' }>;
type Read = Extract<DiskCommand, { type: 'read' }>;

/** The disk worker in the scheduler's thread, with files in memory: a test decides when it does what it was told, and how that ends. */
export class MemoryDisk {
  readonly files: Map<number, File>;
  /** Commands that were taken and not done. */
  readonly pending: DiskCommand[] = [];
  failWrites = false;
  /** Reads find a wrong checksum. */
  damageReads = false;
  private readonly link: DiskLink;

  constructor(
    private readonly harness: SchedulerHarness,
    readonly boundBytes: number,
    /** What an earlier one has left. */
    left: ReadonlyMap<number, File> = new Map(),
  ) {
    this.files = new Map(left);
    const buffer = new SharedArrayBuffer(LINK_BYTES);
    this.link = new DiskLink(buffer);
    harness.prefixes.useDisk(buffer, new Doorbell(new SharedArrayBuffer(DOORBELL_BYTES)));
    const prefixes = [...this.files.values()].map(({ state, ...prefix }) => ({ ...prefix, ageMs: 1000 }));
    this.tell({ type: 'opened', boundBytes, prefixes, removed: 0 });
  }

  get bytes(): number {
    return [...this.files.values()].reduce((sum, { fileBytes }) => sum + fileBytes, 0);
  }

  /** Takes what was ordered since the last time. */
  take(): void {
    const { commands } = this.harness.scheduler.disk;
    this.pending.push(...commands);
    commands.length = 0;
  }

  /** Does the oldest thing it was told. False: there was nothing. */
  step(): boolean {
    this.take();
    const command = this.pending.shift();
    if (!command) return false;
    if (command.type === 'write') this.write(command);
    else if (command.type === 'read') this.read(command);
    else if (command.type === 'remove') this.files.delete(command.id);
    else this.cancel(command.slot);
    return true;
  }

  private write({ id, slot, tokens, cacheSalt, hits, fileBytesMax: fileBytes }: Write): void {
    const failed = { type: 'written', id, slot, fileBytes: 0, stateBytes: 0, isError: this.failWrites } as const;
    const state = this.failWrites ? null : this.copyOut(slot);
    if (state === null) {
      this.tell(failed);
      return;
    }
    const stateBytes = state.length;
    this.files.set(id, { id, tokens, cacheSalt, fileBytes, stateBytes, hits, ageMs: 0, state });
    this.tell({ ...failed, fileBytes, stateBytes });
  }

  private copyOut(slot: number): Uint8Array | null {
    const { link, harness } = this;
    harness.prefixes.turnPump(0);
    link.offer(DIRECTION.out, slot, 0);
    harness.prefixes.turnPump(0);
    if (link.move(LINK_STATE.refused, LINK_STATE.idle)) return null;
    const parts: number[] = [];
    while (link.drained < link.chunkCount) {
      harness.prefixes.turnPump(0);
      for (let chunk = link.chunkToDrain(); chunk; chunk = link.chunkToDrain()) {
        parts.push(...chunk);
        link.chunkDrained();
      }
    }
    link.move(LINK_STATE.accepted, LINK_STATE.idle);
    return Uint8Array.from(parts);
  }

  private read({ id, slot }: Read): void {
    const file = this.files.get(id);
    const isLoaded = file !== undefined && this.copyIn(slot, file.state);
    const isBad = file === undefined || this.damageReads;
    if (isBad) this.files.delete(id);
    this.tell({ type: 'read', id, slot, isLoaded, isBad, stateBytes: file?.stateBytes ?? 0, micros: 1 });
  }

  private copyIn(slot: number, state: Uint8Array): boolean {
    const { link, harness } = this;
    harness.prefixes.turnPump(0);
    link.offer(DIRECTION.in, slot, state.length);
    harness.prefixes.turnPump(0);
    if (link.move(LINK_STATE.refused, LINK_STATE.idle)) return false;
    for (let at = 0; at < state.length; ) {
      for (let chunk = link.chunkToFill(); chunk; chunk = link.chunkToFill()) {
        chunk.set(state.subarray(at, at + chunk.length));
        at += chunk.length;
        link.chunkFilled();
      }
      harness.prefixes.turnPump(0);
    }
    while (link.drained < link.chunkCount) harness.prefixes.turnPump(0);
    link.move(LINK_STATE.accepted, this.damageReads ? LINK_STATE.aborted : LINK_STATE.committed);
    // A good one is seen by the next record, a bad one by the next turn.
    if (this.damageReads) harness.prefixes.turnPump(0);
    return !this.damageReads;
  }

  private cancel(slot: number): void {
    const at = this.pending.findIndex((command) => command.type === 'read' && command.slot === slot);
    if (at < 0) return;
    const [{ id }] = this.pending.splice(at, 1) as [Read];
    this.tell({ type: 'read', id, slot, isLoaded: false, isBad: false, stateBytes: 0, micros: 0 });
  }

  private tell(event: DiskEvent): void {
    this.harness.scheduler.disk.apply(event, this.harness.nowMs);
  }
}
