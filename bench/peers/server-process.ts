import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/** Longest wait for a server to be ready, and for one to end after SIGTERM. Chosen. */
const READY_TIMEOUT_MS = 60_000;
const STOP_TIMEOUT_MS = 10_000;
/** How often readiness is asked. Small, because start-up is measured with it. */
const READY_POLL_MS = 5;
/** Output kept for the error message of a server that did not start. */
const LOG_TAIL_CHARACTERS = 4000;

export interface ServerCommand {
  name: string;
  command: string;
  args: string[];
  env?: Record<string, string>;
  port: number;
  /** Answers 200 when the server is ready. */
  readyPath: string;
}

/** Servers that run now: whatever ends the benchmark ends them too. */
const running = new Set<ChildProcess>();
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130));

/** A server in a process of its own, on this machine. */
export class ServerProcess {
  readonly url: string;
  readonly startedAtMs = performance.now();
  private readonly child: ChildProcess;
  private log = '';

  private constructor(private readonly options: ServerCommand) {
    this.url = `http://127.0.0.1:${options.port}`;
    const env = { ...process.env, ...options.env };
    this.child = spawn(options.command, options.args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
    running.add(this.child);
    this.child.once('exit', () => running.delete(this.child));
    for (const stream of [this.child.stdout, this.child.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => {
        this.log = (this.log + text).slice(-LOG_TAIL_CHARACTERS);
      });
    }
  }

  /** The end of what it wrote. */
  get logTail(): string {
    return this.log;
  }

  /** Starts it and waits until it is ready. @throws Error with the end of its output. */
  static async start(options: ServerCommand): Promise<ServerProcess> {
    const server = new ServerProcess(options);
    try {
      await server.becomeReady();
    } catch (error) {
      await server.stop();
      throw error;
    }
    return server;
  }

  /** Milliseconds from its start until it answered that it is ready. */
  readyAfterMs = Number.NaN;

  /** How it ended; null: it runs. */
  get ended(): { code: number | null; signal: NodeJS.Signals | null } | null {
    const { exitCode: code, signalCode: signal } = this.child;
    return code === null && signal === null ? null : { code, signal };
  }

  get pid(): number {
    return this.child.pid as number;
  }

  /** CPU milliseconds of the process so far, all threads; NaN where there is no /proc. */
  cpuMs(): number {
    try {
      const stat = readFileSync(`/proc/${this.pid}/stat`, 'utf8');
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      // utime and stime, in USER_HZ ticks of 10 ms.
      return (Number(fields[11]) + Number(fields[12])) * 10;
    } catch {
      return Number.NaN;
    }
  }

  async stop(): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const ended = once(this.child, 'exit');
    this.child.kill('SIGTERM');
    const timer = setTimeout(() => this.child.kill('SIGKILL'), STOP_TIMEOUT_MS);
    await ended;
    clearTimeout(timer);
  }

  private async becomeReady(): Promise<void> {
    let spawnError: Error | null = null;
    this.child.once('error', (error) => {
      spawnError = error;
    });
    while (performance.now() - this.startedAtMs < READY_TIMEOUT_MS) {
      if (spawnError) throw spawnError;
      if (this.child.exitCode !== null || this.child.signalCode !== null) break;
      if (await this.isReady()) {
        this.readyAfterMs = performance.now() - this.startedAtMs;
        return;
      }
      await sleep(READY_POLL_MS);
    }
    throw new Error(`${this.options.name} did not become ready:\n${this.log}`);
  }

  private async isReady(): Promise<boolean> {
    try {
      const response = await fetch(this.url + this.options.readyPath, { signal: AbortSignal.timeout(1000) });
      await response.arrayBuffer();
      return response.ok;
    } catch {
      return false;
    }
  }
}

export async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const address = probe.address();
  probe.close();
  await once(probe, 'close');
  if (address === null || typeof address === 'string') throw new Error('no port could be had');
  return address.port;
}
