import { closeSync, fdatasyncSync, fstatSync, openSync, statfsSync, unlinkSync } from 'node:fs';
import path from 'node:path';
import { type Engine, EngineError } from '../shared/engine.js';
import { ASSUMED_SPILL_BYTES_PER_MS } from '../shared/memory/spill-budget.js';
import type { SequenceMove } from '../shared/scheduler/carry-over.js';

/** Left free on the user's disk. Chosen: below it a desktop begins to fail in other places. */
const DISK_MARGIN_BYTES = 2 ** 30;
/** A rate that was measured in a bad moment is forgotten by so much with each move that writes nothing. Chosen. */
const DOUBT = 0.1;

const NO_DESCRIPTOR = -1;

/** A sequence's state in a file that has no name any more: it is gone with its last descriptor, however this process ends. */
export interface SpilledSequence extends SequenceMove {
  readDescriptor: number;
}

interface WrittenSequence extends SpilledSequence {
  bytes: number;
}

export interface SpillLimits {
  /** Time for all of them. */
  spillMs: number;
  /** Bytes of all of them, at most. */
  spillBytes: number;
  /** Bytes of them that may stay in the system's file cache; those of the first are the ones that do. */
  cacheBytes: number;
}

/**
 * Sequences that wait in files while the context is replaced, because memory has no room for their copies. Each file is on the disk before the
 * next is written: its pages in the file cache are clean then, and the kernel takes them back when it needs them.
 */
export class SequenceSpill {
  /** Measured; 0: nothing was written yet. */
  bytesPerMs = 0;
  private files = 0;

  constructor(
    private readonly engine: Engine,
    /** On a disk; null: nothing is spilled. */
    private readonly folder: string | null,
    private readonly warn: (message: string) => void,
  ) {}

  /**
   * Writes them in this order until one fails or the time is over. What is not written is computed again; the reason is logged once.
   */
  write(sequences: readonly SequenceMove[], limits: SpillLimits): SpilledSequence[] {
    const spilled: SpilledSequence[] = [];
    if (sequences.length === 0) this.forgetSlowly();
    else {
      const failure = this.writeAll(sequences, limits, spilled);
      if (failure !== null) {
        const count = sequences.length - spilled.length;
        this.warn(
          `${count} of ${sequences.length} sequences could not be kept in files and are computed again: ${failure}`,
        );
      }
    }
    return spilled;
  }

  /** Puts it back into a context of `sequences` sequences and removes it. False: it does not fit, or cannot be read. */
  read({ to, readDescriptor }: SpilledSequence, sequences: number): boolean {
    try {
      return to < sequences && this.engine.readSequence(to, descriptorPath(readDescriptor));
    } finally {
      closeSync(readDescriptor);
    }
  }

  /** What went wrong, if anything did. */
  private writeAll(
    sequences: readonly SequenceMove[],
    { spillMs, spillBytes, cacheBytes }: SpillLimits,
    spilled: SpilledSequence[],
  ): string | null {
    const startMs = performance.now();
    try {
      const folder = this.folderFor(spillBytes);
      let cachedBytes = cacheBytes;
      for (const sequence of sequences) {
        const { bytes, ...file } = this.writeOne(folder, sequence, cachedBytes);
        spilled.push(file);
        cachedBytes = Math.max(cachedBytes - bytes, 0);
        const isLast = spilled.length === sequences.length;
        const ms = performance.now() - startMs;
        // One more takes about as long as each of those before it.
        if (!isLast && ms + ms / spilled.length > spillMs) return `writing ${spilled.length} took ${Math.round(ms)} ms`;
      }
      return null;
    } catch (error) {
      if (!(error instanceof EngineError) && !isSystemError(error)) throw error;
      return error.message;
    }
  }

  /** @throws Error of the system, or EngineError: the folder cannot take it. */
  private folderFor(bytes: number): string {
    if (this.folder === null) throw new EngineError('failed', 'there is no folder for them');
    const { bavail, bsize } = statfsSync(this.folder);
    const freeBytes = bavail * bsize;
    if (freeBytes < bytes + DISK_MARGIN_BYTES)
      throw new EngineError(
        'failed',
        `${this.folder} has ${freeBytes} bytes free, and ${bytes} and a margin are needed`,
      );
    return this.folder;
  }

  private writeOne(folder: string, { from, to }: SequenceMove, cachedBytes: number): WrittenSequence {
    const name = path.join(folder, `sequence-${process.pid}-${++this.files}`);
    const startMs = performance.now();
    const writeDescriptor = openSync(name, 'wx', 0o600);
    let readDescriptor = NO_DESCRIPTOR;
    try {
      try {
        // Its head is rewritten before it is read (stream-state.h); macOS opens a descriptor's path no wider than the descriptor was.
        readDescriptor = openSync(name, 'r+');
      } finally {
        unlinkSync(name);
      }
      const bytes = this.engine.writeSequence(from, descriptorPath(writeDescriptor), cachedBytes);
      fdatasyncSync(writeDescriptor);
      // The engine does not look at what its last buffer came to, and ends the process over a file that is too short.
      if (fstatSync(writeDescriptor).size !== bytes) throw new EngineError('failed', 'the file is not whole');
      this.bytesPerMs = bytes / Math.max(performance.now() - startMs, Number.EPSILON);
      return { from, to, readDescriptor, bytes };
    } catch (error) {
      if (readDescriptor !== NO_DESCRIPTOR) closeSync(readDescriptor);
      throw error;
    } finally {
      closeSync(writeDescriptor);
    }
  }

  /** It is not read. */
  drop({ readDescriptor }: SpilledSequence): void {
    closeSync(readDescriptor);
  }

  private forgetSlowly(): void {
    if (this.bytesPerMs > 0 && this.bytesPerMs < ASSUMED_SPILL_BYTES_PER_MS)
      this.bytesPerMs += (ASSUMED_SPILL_BYTES_PER_MS - this.bytesPerMs) * DOUBT;
  }
}

/** How a file without a name is opened by one who takes names only. */
function descriptorPath(descriptor: number): string {
  return `/dev/fd/${descriptor}`;
}

function isSystemError(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && 'syscall' in error;
}
