import { DIRECTION, DiskLink, LINK_STATE } from '../shared/disk-link.js';
import type { Doorbell } from '../shared/doorbell.js';

/** A turn, between two looks at the ring of records, is so much of the last step, and at least so long: what steps can be late for a transfer. Chosen. */
const STEP_SHARE = 0.01;
const LEAST_TURN_MS = 0.1;

/** The states that the forward worker has, by slot. */
export interface StateHolder {
  stateOf(slot: number): Uint8Array | undefined;
  /** It came from the disk, whole and right. */
  adopt(slot: number, state: Uint8Array): void;
  release(state: Uint8Array): void;
}

/** The forward worker's end of the window to the disk worker: chunks of a state that is written, or of one that is read. */
export class DiskPump {
  private readonly link: DiskLink;
  private outgoing: Uint8Array | null = null;
  private incoming: Uint8Array | null = null;

  constructor(
    buffer: SharedArrayBuffer,
    private readonly diskBell: Doorbell,
    private readonly holder: StateHolder,
  ) {
    this.link = new DiskLink(buffer);
  }

  /** What is being read takes. */
  get incomingBytes(): number {
    return this.incoming?.byteLength ?? 0;
  }

  /** Does a bounded part of what there is to do. `stepMs`: of the last step. Returns whether it did anything. */
  turn(stepMs: number): boolean {
    const { link } = this;
    const { state } = link;
    if (state === LINK_STATE.accepted) return this.moveChunks(Math.max(stepMs * STEP_SHARE, LEAST_TURN_MS));
    if (state === LINK_STATE.offered) this.answer();
    else if (state === LINK_STATE.committed || state === LINK_STATE.aborted) this.conclude(state);
    else {
      // Given up on the other side, perhaps in the moment in which it was accepted here.
      this.letGo();
      return false;
    }
    this.diskBell.ring();
    return true;
  }

  /** What has come from the disk is there from now on. Who restores it may have heard of it since the last turn. */
  settle(): void {
    const { state } = this.link;
    if (state !== LINK_STATE.committed) return;
    this.conclude(state);
    this.diskBell.ring();
  }

  /** The slot's memory is about to go, or is not wanted: a transfer of it ends here. */
  drop(slot: number): void {
    const { link } = this;
    if (link.slot !== slot) return;
    const isRefused =
      link.move(LINK_STATE.offered, LINK_STATE.refused) || link.move(LINK_STATE.accepted, LINK_STATE.refused);
    if (isRefused || link.state === LINK_STATE.refused) this.letGo();
    if (isRefused) this.diskBell.ring();
  }

  /** Everything goes. */
  clear(): void {
    if (this.link.state !== LINK_STATE.idle) this.drop(this.link.slot);
  }

  private answer(): void {
    const { link, holder } = this;
    this.letGo();
    if (link.direction === DIRECTION.out) {
      const state = holder.stateOf(link.slot);
      if (!state) return void link.move(LINK_STATE.offered, LINK_STATE.refused);
      this.outgoing = state;
      link.accept(state.byteLength);
      return;
    }
    try {
      this.incoming = new Uint8Array(link.totalBytes);
      link.accept(link.totalBytes);
    } catch {
      // No memory for it.
      link.move(LINK_STATE.offered, LINK_STATE.refused);
    }
  }

  private moveChunks(turnMs: number): boolean {
    const endMs = performance.now() + turnMs;
    let hasMoved = false;
    while (this.outgoing ? this.fill(this.outgoing) : this.drain()) {
      hasMoved = true;
      if (performance.now() >= endMs) break;
    }
    if (hasMoved) this.diskBell.ring();
    return hasMoved;
  }

  private fill(state: Uint8Array): boolean {
    const at = this.link.filled;
    const chunk = this.link.chunkToFill();
    if (chunk === null) return false;
    chunk.set(state.subarray(this.link.byteAt(at), this.link.byteAt(at) + chunk.length));
    this.link.chunkFilled();
    return true;
  }

  private drain(): boolean {
    const at = this.link.drained;
    const chunk = this.link.chunkToDrain();
    if (chunk === null) return false;
    this.incoming?.set(chunk, this.link.byteAt(at));
    this.link.chunkDrained();
    return true;
  }

  private conclude(state: number): void {
    const { incoming } = this;
    this.incoming = null;
    if (incoming && state === LINK_STATE.committed) this.holder.adopt(this.link.slot, incoming);
    else if (incoming) this.holder.release(incoming);
    this.link.move(state, LINK_STATE.idle);
  }

  private letGo(): void {
    this.outgoing = null;
    if (this.incoming) this.holder.release(this.incoming);
    this.incoming = null;
  }
}
