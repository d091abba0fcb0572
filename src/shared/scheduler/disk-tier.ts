import {
  DISK_PREFIXES_MAX,
  type DiskCommand,
  type DiskEvent,
  type DiskPrefix,
  FILE_NOTES_BYTES_MAX,
} from '../disk-messages.js';
import { chooseEvictions, type IdlePrefix, prefixValue } from '../memory/eviction-order.js';
import type { SchedulerCounters } from './counters.js';
import { type HostTier, TIER_MIN_TOKENS } from './host-tier.js';
import type { SavedPrefix } from './saved-prefix.js';
import { commonPrefix } from './sequence-table.js';

/** What a first read is expected to do in a microsecond. Chosen: a fast disk's rate, because what is not tried is not measured. */
const ASSUMED_READ_BYTES_PER_MICRO = 2_000;
/** Weight of the newest read in the running average. Chosen: about the last five count. */
const NEWEST_WEIGHT = 0.2;
/** Reads that are ordered at once. Chosen: one runs, and who is behind three others is computed as soon. */
const READS_MAX = 4;
/** A request waits for this many times what its read should take, or as long as it would be computed: a disk that is slow for once costs no more than
 *  twice the time. And a little longer. Chosen. */
const WAIT_FACTOR = 3;
const WAIT_MORE_MS = 250;
/** Where it is not known how long it would be computed. Chosen: a first read, from a disk that sleeps. */
const WAIT_UNMEASURED_MS = 2_000;
/** Chosen: then something is the matter with the disk. */
const WAIT_MAX_MS = 10_000;
/** One that was just read is not read again: what was not taken then will not be taken now. Chosen. */
const REREAD_MS = 5_000;
/** A budget follows a reading within this. Derived: the longest interval of live-memory.ts, and a wake-up. */
const READING_MS = 500;
/** After a write that failed. Chosen: a full disk stays full for a while. */
const ERROR_PAUSE_MS = 60_000;

interface Entry extends DiskPrefix {
  lastUsedMs: number;
  readAtMs: number;
  /** A request waits until then for room in host memory. */
  roomUntilMs: number;
}

interface Write {
  id: number;
  saved: SavedPrefix;
  fileBytesMax: number;
}

interface Read {
  slot: number;
  waitUntilMs: number;
  isCancelled: boolean;
}

/**
 * The books of the disk tier: which prefixes lie in files, what is written, read and removed. Prefixes come from the host tier and go there;
 * the disk worker does what the commands say, and its events come back. Pure, like all of the scheduler. Without `opened` it does nothing.
 */
export class DiskTier {
  /** To be sent to the disk worker, oldest first. */
  readonly commands: DiskCommand[] = [];
  private bound = 0;
  private readonly byId = new Map<number, Entry>();
  private held = 0;
  private lastId = 0;
  private write: Write | null = null;
  private readonly reads = new Map<number, Read>();
  private quietUntilMs = Number.NEGATIVE_INFINITY;
  private bytesPerMicro = ASSUMED_READ_BYTES_PER_MICRO;

  constructor(
    private readonly host: HostTier,
    private readonly counters: SchedulerCounters,
  ) {}

  get isOpen(): boolean {
    return this.bound > 0;
  }

  /** Bytes of all files, with the one that is being written. */
  get heldBytes(): number {
    return this.held + (this.write?.fileBytesMax ?? 0);
  }

  get boundBytes(): number {
    return this.bound;
  }

  /** A write has failed not long ago. */
  isPaused(nowMs: number): boolean {
    return nowMs < this.quietUntilMs;
  }

  get isWriting(): boolean {
    return this.write !== null;
  }

  /** A file has all of these tokens. */
  covers(tokens: Int32Array, count: number, cacheSalt: number): boolean {
    for (const entry of this.byId.values()) if (isCovered(tokens, count, cacheSalt, entry)) return true;
    return false;
  }

  /** Takes what the disk worker has to tell. */
  apply(event: DiskEvent, nowMs: number): void {
    if (event.type === 'opened') this.opened(event, nowMs);
    else if (event.type === 'written') this.written(event, nowMs);
    else this.readEnded(event, nowMs);
  }

  private opened({ boundBytes, prefixes, removed }: Extract<DiskEvent, { type: 'opened' }>, nowMs: number): void {
    this.bound = boundBytes;
    this.counters.diskPrefixErrors += removed;
    for (const prefix of prefixes)
      this.put({ ...prefix, lastUsedMs: nowMs - prefix.ageMs, readAtMs: NEVER, roomUntilMs: NEVER });
  }

  private put(entry: Entry): void {
    this.byId.set(entry.id, entry);
    this.held += entry.fileBytes;
    this.lastId = Math.max(this.lastId, entry.id);
  }

  /**
   * Whether a file has more of a prompt than the `cached` tokens that are at hand, and it is worth waiting for: then it is on its way to host
   * memory. At most `limit` tokens count; the largest context has `cells`.
   */
  isComing(
    tokens: Int32Array,
    limit: number,
    cacheSalt: number,
    cached: number,
    cells: number,
    nowMs: number,
  ): boolean {
    const entry = this.find(tokens, limit, cacheSalt, cached);
    if (!entry) return false;
    const read = this.reads.get(entry.id);
    if (read) return nowMs < read.waitUntilMs;
    const { length } = entry.tokens;
    const gained = commonPrefix(entry.tokens, tokens, Math.min(length, limit)) - cached;
    const micros = (this.bytesOrdered() + entry.stateBytes) / this.bytesPerMicro;
    if (length > cells || this.reads.size >= READS_MAX || nowMs - entry.readAtMs < REREAD_MS) return false;
    if (this.host.covers(entry.tokens, length, cacheSalt) || !this.host.isShortEnough(length)) return false;
    if (!this.host.costs.isWorthCopying(gained, length, 1, micros)) return false;
    const slot = this.host.expect(entry.tokens, cacheSalt, entry.stateBytes, entry.hits, nowMs);
    if (slot === 0) return this.awaitsRoom(entry, gained, micros, nowMs);
    this.reads.set(entry.id, { slot, isCancelled: false, waitUntilMs: nowMs + this.waitMs(gained, micros) });
    this.commands.push({ type: 'read', id: entry.id, slot });
    return true;
  }

  private waitMs(gained: number, readMicros: number): number {
    const computeMs = this.host.costs.isMeasured
      ? (gained * this.host.costs.promptTokenMicros) / 1000
      : WAIT_UNMEASURED_MS;
    return Math.min(Math.max((WAIT_FACTOR * readMicros) / 1000, computeMs) + WAIT_MORE_MS, WAIT_MAX_MS);
  }

  /** After a context has moved host memory takes nothing for a moment: what takes much longer to compute waits for that, once. */
  private awaitsRoom(entry: Entry, gained: number, micros: number, nowMs: number): boolean {
    if (nowMs < entry.roomUntilMs) return true;
    const waitMs = this.host.heldBackMs(nowMs) + READING_MS;
    if (waitMs === READING_MS || nowMs - entry.roomUntilMs < REREAD_MS || !this.host.costs.isMeasured) return false;
    if (!this.host.costs.isWorthCopying(gained, entry.tokens.length, 1, micros + waitMs * 1000)) return false;
    entry.roomUntilMs = nowMs + waitMs;
    return true;
  }

  private find(tokens: Int32Array, limit: number, cacheSalt: number, cached: number): Entry | null {
    const decisive = cached + TIER_MIN_TOKENS - 1;
    if (decisive >= limit) return null;
    let best: Entry | null = null;
    let most = decisive;
    for (const entry of this.byId.values()) {
      if (entry.cacheSalt !== cacheSalt || entry.tokens[decisive] !== tokens[decisive]) continue;
      const count = commonPrefix(entry.tokens, tokens, Math.min(entry.tokens.length, limit));
      if (count <= most) continue;
      most = count;
      best = entry;
    }
    return best;
  }

  private bytesOrdered(): number {
    let bytes = this.write?.fileBytesMax ?? 0;
    for (const id of this.reads.keys()) bytes += this.byId.get(id)?.stateBytes ?? 0;
    return bytes;
  }

  private readEnded(event: Extract<DiskEvent, { type: 'read' }>, nowMs: number): void {
    const { id, slot, isLoaded, isBad, stateBytes, micros } = event;
    this.reads.delete(id);
    const entry = this.byId.get(id);
    if (entry) entry.readAtMs = nowMs;
    if (isBad) {
      this.counters.diskPrefixErrors++;
      this.forget(id);
    }
    if (isLoaded && entry) {
      entry.hits++;
      entry.lastUsedMs = nowMs;
    }
    if (isLoaded && micros > 0) this.bytesPerMicro += (stateBytes / micros - this.bytesPerMicro) * NEWEST_WEIGHT;
    this.host.readEnded(slot, isLoaded);
  }

  /** Orders the next write, when none runs: the oldest that is saved and in no file. */
  writeNext(nowMs: number): void {
    this.giveUpReads();
    if (!this.isOpen || this.write !== null || this.isPaused(nowMs)) return;
    for (let saved = this.host.firstUnwritten(); saved; saved = this.host.firstUnwritten()) {
      if (this.covers(saved.tokens, saved.tokens.length, saved.cacheSalt)) this.host.diskLooked(saved.slot, 'written');
      else if (!this.begin(saved, nowMs)) this.host.diskLooked(saved.slot, 'refused');
      else return;
    }
  }

  /** Host memory was needed elsewhere: reads whose slot is gone need not be begun. */
  private giveUpReads(): void {
    for (const read of this.reads.values()) {
      if (read.isCancelled || this.host.tokensOf(read.slot) > 0) continue;
      read.isCancelled = true;
      this.commands.push({ type: 'cancel', slot: read.slot });
    }
  }

  private begin(saved: SavedPrefix, nowMs: number): boolean {
    const { slot, tokens, cacheSalt, hits, lastUsedMs } = saved;
    const { length } = tokens;
    const fileBytesMax = saved.bytes + 4 * length + FILE_NOTES_BYTES_MAX;
    if (!this.host.costs.isWorthCopying(length, length, 1, saved.bytes / this.bytesPerMicro)) return false;
    if (!this.makeRoom(saved, fileBytesMax, nowMs)) return false;
    const id = ++this.lastId;
    this.write = { id, saved, fileBytesMax };
    const ageMs = Math.max(0, nowMs - lastUsedMs);
    this.commands.push({ type: 'write', id, slot, tokens, cacheSalt, hits, ageMs, fileBytesMax });
    return true;
  }

  /** Less valuable ones go, if they are enough. Those that the new one contains go first, whatever they are worth. */
  private makeRoom(newcomer: SavedPrefix, fileBytesMax: number, nowMs: number): boolean {
    const all = [...this.byId.values()].filter(({ id }) => !this.reads.has(id));
    const contained = all.filter((entry) => isWithin(entry, newcomer));
    const worth = prefixValue(asIdle({ ...newcomer, id: 0, fileBytes: fileBytesMax }), nowMs);
    const others = all.filter((entry) => !contained.includes(entry) && prefixValue(asIdle(entry), nowMs) < worth);
    const gone: Entry[] = [];
    const missing = () =>
      this.held - gone.reduce((sum, { fileBytes }) => sum + fileBytes, 0) + fileBytesMax - this.bound;
    for (const entry of contained) if (missing() > 0) gone.push(entry);
    const isFull = this.byId.size - gone.length >= DISK_PREFIXES_MAX;
    const need = { cells: 0, bytes: Math.max(missing(), isFull ? 1 : 0) };
    const choice = chooseEvictions(others.map(asIdle), need, nowMs);
    if (!choice.fits) return false;
    for (const id of [...gone.map(({ id }) => id), ...choice.ids]) this.remove(id);
    this.counters.diskPrefixEvictions += choice.ids.length;
    return true;
  }

  private written(event: Extract<DiskEvent, { type: 'written' }>, nowMs: number): void {
    const { write } = this;
    if (write?.id !== event.id) throw new Error(`file ${event.id} was written, and nobody asked for it`);
    this.write = null;
    const { saved } = write;
    if (event.fileBytes === 0) {
      if (event.isError) {
        this.counters.diskPrefixErrors++;
        this.quietUntilMs = nowMs + ERROR_PAUSE_MS;
      }
      this.host.diskLooked(saved.slot, 'refused');
      return;
    }
    this.counters.diskPrefixSaves++;
    for (const entry of [...this.byId.values()]) {
      if (isWithin(entry, saved) && !this.reads.has(entry.id)) this.remove(entry.id);
    }
    const { tokens, cacheSalt, hits, lastUsedMs } = saved;
    const { id, fileBytes, stateBytes } = event;
    this.put({
      id,
      tokens,
      cacheSalt,
      fileBytes,
      stateBytes,
      hits,
      ageMs: 0,
      lastUsedMs,
      readAtMs: NEVER,
      roomUntilMs: NEVER,
    });
    this.host.diskLooked(saved.slot, 'written');
  }

  private remove(id: number): void {
    this.forget(id);
    this.commands.push({ type: 'remove', id });
  }

  private forget(id: number): void {
    this.held -= this.byId.get(id)?.fileBytes ?? 0;
    this.byId.delete(id);
  }
}

const NEVER = Number.NEGATIVE_INFINITY;

function isCovered(tokens: Int32Array, count: number, cacheSalt: number, entry: Entry): boolean {
  if (entry.cacheSalt !== cacheSalt || entry.tokens[count - 1] !== tokens[count - 1]) return false;
  return commonPrefix(entry.tokens, tokens, count) === count;
}

/** `newcomer` has all of the entry's tokens. */
function isWithin(entry: Entry, newcomer: SavedPrefix): boolean {
  const { length } = entry.tokens;
  if (entry.cacheSalt !== newcomer.cacheSalt || length > newcomer.tokens.length) return false;
  return commonPrefix(entry.tokens, newcomer.tokens, length) === length;
}

type Aged = Pick<Entry, 'id' | 'tokens' | 'fileBytes' | 'hits' | 'lastUsedMs'>;

function asIdle({ id, tokens, fileBytes, hits, lastUsedMs }: Aged): IdlePrefix {
  const { length } = tokens;
  return { id, freesCells: length, freesBytes: fileBytes, tokens: length, hits, lastUsedMs, pinned: false };
}
