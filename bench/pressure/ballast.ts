import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { MemoryGroup } from '../tight/memory-group.js';

export interface BallastShape {
  bytes: number;
  /** How fast it grows. */
  bytesPerSecond: number;
  holdMs: number;
  pauseMs: number;
}

/** When a ballast was whole, and when it was gone, performance.now(). */
export interface BallastTurn {
  wholeAtMs: number;
  goneAtMs: number;
}

/** Memory written in one go. Chosen: small against any margin. */
const PIECE_BYTES = 2 ** 20;

/**
 * A process inside the group that takes memory, holds it and ends, again and again: `tail` keeps what it was asked to keep until its input
 * ends, and is otherwise as small as a process can be.
 */
export class Ballast {
  readonly turns: BallastTurn[] = [];
  private child: ChildProcess | null = null;
  private isStopped = false;
  private readonly done: Promise<void>;

  constructor(
    private readonly group: MemoryGroup,
    private readonly shape: BallastShape,
  ) {
    this.done = this.run();
  }

  async stop(): Promise<BallastTurn[]> {
    this.isStopped = true;
    this.child?.stdin?.end();
    await this.done;
    return this.turns;
  }

  private async run(): Promise<void> {
    while (!this.isStopped) {
      await this.turn();
      await sleep(this.shape.pauseMs);
    }
  }

  private async turn(): Promise<void> {
    const { bytes, bytesPerSecond, holdMs } = this.shape;
    const { command, args } = this.group.wrap('tail', ['-c', String(bytes)]);
    const child = spawn(command, args, { stdio: ['pipe', 'ignore', 'ignore'] });
    this.child = child;
    const ended = once(child, 'exit');
    // A ballast that is killed ends its turn; the kill is counted by the group.
    child.stdin.on('error', () => {});
    const startMs = performance.now();
    for (let written = 0; written < bytes && !this.isStopped && child.exitCode === null; written += PIECE_BYTES) {
      child.stdin.write(Buffer.alloc(Math.min(PIECE_BYTES, bytes - written)));
      await sleep(Math.max(0, startMs + (written / bytesPerSecond) * 1000 - performance.now()));
    }
    const wholeAtMs = performance.now();
    if (!this.isStopped) await sleep(holdMs);
    child.stdin.end();
    await ended;
    this.turns.push({ wholeAtMs, goneAtMs: performance.now() });
  }
}
