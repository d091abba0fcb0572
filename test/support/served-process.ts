/** `plimsoll serve` as a user starts it: the program, with its log lines. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const MAIN = fileURLToPath(new URL('../../src/main.js', import.meta.url));

export interface LogLine {
  level: number;
  msg: string;
  [field: string]: unknown;
}

export class ServedProcess {
  readonly lines: LogLine[] = [];
  /** Exit code and signal. */
  readonly exited: Promise<unknown[]>;
  /** Every process that writes to its stderr is gone. */
  readonly allGone: Promise<unknown>;
  private readonly waiting = new Set<() => void>();
  private readonly process: ChildProcess;
  private isOver = false;

  /** In a group of its own, as a shell starts it. */
  constructor(args: string[], env: Record<string, string>) {
    this.process = spawn(process.execPath, [MAIN, ...args], {
      env: { ...process.env, ...env },
      stdio: ['ignore', 'ignore', 'pipe'],
      detached: true,
    });
    this.exited = once(this.process, 'exit');
    const reader = createInterface({ input: this.process.stderr! });
    this.allGone = once(reader, 'close');
    reader.on('line', (line) => {
      this.lines.push(line.startsWith('{') ? JSON.parse(line) : { level: 0, msg: line });
      for (const wake of this.waiting) wake();
    });
    void this.allGone.then(() => {
      this.isOver = true;
      for (const wake of this.waiting) wake();
    });
  }

  get pid(): number {
    return this.process.pid as number;
  }

  /** The first line from index `from` on that matches. @throws Error when the log ends without one. */
  async line(pattern: RegExp, from = 0): Promise<LogLine & { at: number }> {
    for (;;) {
      const at = this.lines.findIndex(({ msg }, index) => index >= from && pattern.test(msg));
      if (at >= 0) return { ...this.lines[at], at };
      if (this.isOver) throw new Error(`no ${pattern} in the log:\n${this.lines.map(({ msg }) => msg).join('\n')}`);
      await new Promise<void>((resolve) => {
        const wake = () => {
          this.waiting.delete(wake);
          resolve();
        };
        this.waiting.add(wake);
      });
    }
  }

  /** To every process of it, as a Ctrl-C in a terminal. */
  signalAll(signal: NodeJS.Signals): void {
    try {
      process.kill(-this.pid, signal);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
  }
}
