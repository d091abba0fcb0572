import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { processCpuMs, processTree } from './process-tree.js';

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
  for (const child of running) if (child.pid !== undefined) killTree(child.pid);
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

  private get pid(): number {
    return this.child.pid as number;
  }

  /** The server's processes: one, or a supervisor and the one that serves. */
  get pids(): number[] {
    return processTree(this.pid);
  }

  /** CPU milliseconds of the server so far; NaN where there is no /proc. */
  cpuMs(): number {
    return this.pids.reduce((total, pid) => total + processCpuMs(pid), 0);
  }

  async stop(): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const ended = once(this.child, 'exit');
    this.child.kill('SIGTERM');
    const timer = setTimeout(() => killTree(this.pid), STOP_TIMEOUT_MS);
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

/** Ends a server that did not end by itself, what it started included. */
function killTree(pid: number): void {
  for (const member of processTree(pid)) {
    try {
      process.kill(member, 'SIGKILL');
    } catch {
      // It ended meanwhile.
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
