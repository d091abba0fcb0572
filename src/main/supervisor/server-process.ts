/** One life of the server process: started, told to stop, ended. */
import { type ChildProcess, spawn } from 'node:child_process';
import { type Death, deathOf } from './death.js';
import { type Birth, type FromServer, type LineTarget, SUPERVISED_MARK, type ToServer } from './protocol.js';

/** How long an end may take that was asked for, ms. */
export interface StopLimits {
  /** Beyond what the server gives its running requests: its workers say goodbye, its sockets close. */
  graceMs: number;
  /** After the second request to stop, and after its workers died. */
  forcedMs: number;
}

/** Chosen: the server itself gives its workers 10 s, and cancelled requests 2 s twice. */
export const STOP_LIMITS: StopLimits = { graceMs: 20_000, forcedMs: 5_000 };

/** What a dead process has sent is read soon after its end; a descendant that holds the channel must not delay the restart. */
const LAST_MESSAGES_MS = 1_000;

/** Before the server has said how long it gives its requests: its default. */
const SHUTDOWN_TIMEOUT_MS = 30_000;

export interface Life {
  death: Death;
  /** When it became ready; null: never. */
  readyAtMs: number | null;
  /** It was told to end, or said that it does. */
  isStop: boolean;
  /** Its workers died first. */
  hasDied: boolean;
  line: LineTarget | null;
  logFormat: 'json' | 'text' | null;
  isSilent: boolean;
}

export class ServerProcess {
  private readonly child: ChildProcess | null;
  private readonly life: Omit<Life, 'death'> = {
    readyAtMs: null,
    isStop: false,
    hasDied: false,
    line: null,
    logFormat: null,
    isSilent: false,
  };
  private shutdownTimeoutMs = SHUTDOWN_TIMEOUT_MS;
  private stopCount = 0;
  private killTimer: NodeJS.Timeout | null = null;
  readonly ended: Promise<Life>;

  /** `command`: program and arguments. */
  constructor(
    command: readonly string[],
    birth: Birth,
    private readonly nowMs: () => number,
    private readonly limits: StopLimits,
  ) {
    let child: ChildProcess;
    try {
      child = spawn(command[0], command.slice(1), {
        stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
        env: { ...process.env, [SUPERVISED_MARK]: JSON.stringify(birth) },
      });
    } catch (error) {
      // No memory for a process: node throws that one and tells of the others by an event.
      this.child = null;
      this.ended = Promise.resolve({ ...this.life, death: notStarted(error) });
      return;
    }
    this.child = child;
    child.on('message', (message) => this.onMessage(message as FromServer));
    this.ended = this.endOf(child).then((death) => {
      if (this.killTimer) clearTimeout(this.killTimer);
      return { ...this.life, death };
    });
  }

  get pid(): number | undefined {
    return this.child?.pid;
  }

  /**
   * The first call asks it to finish its requests and end, the second to end now, the third kills it. By message where it listens: a
   * Ctrl-C has reached it already, and a signal on top of that would be its second.
   */
  stop(): void {
    const { child } = this;
    if (child === null) return;
    this.stopCount++;
    this.life.isStop = true;
    const listens = this.life.logFormat !== null && child.connected;
    const message: ToServer = { type: 'stop' };
    if (this.stopCount >= 3) child.kill('SIGKILL');
    else if (!listens) child.kill('SIGTERM');
    else child.send(message, () => {});
    this.killIn(this.stopCount === 1 ? this.shutdownTimeoutMs + this.limits.graceMs : this.limits.forcedMs);
  }

  private onMessage(message: FromServer): void {
    switch (message.type) {
      case 'hello':
        this.shutdownTimeoutMs = message.shutdownTimeoutMs;
        this.life.logFormat = message.logFormat;
        this.life.isSilent = message.isSilent;
        break;
      case 'line':
        this.life.line = message.target;
        break;
      case 'ready':
        this.life.readyAtMs = this.nowMs();
        break;
      case 'stopping':
        this.life.isStop = true;
        break;
      case 'died':
        this.life.hasDied = true;
        // A worker that hangs in native code cannot be ended from inside its process, and keeps the process from ending.
        this.killIn(this.limits.graceMs);
    }
  }

  private killIn(ms: number): void {
    if (this.killTimer) clearTimeout(this.killTimer);
    this.killTimer = setTimeout(() => this.child?.kill('SIGKILL'), ms);
  }

  /** Its end, once everything it said is read. */
  private endOf(child: ChildProcess): Promise<Death> {
    return new Promise((resolve) => {
      child.on('error', (error) => {
        if (child.pid === undefined) resolve(notStarted(error));
      });
      child.once('exit', (code, signal) => {
        const death = deathOf(code, signal);
        if (!child.connected) return resolve(death);
        const timer = setTimeout(() => resolve(death), LAST_MESSAGES_MS);
        child.once('disconnect', () => {
          clearTimeout(timer);
          resolve(death);
        });
      });
    });
  }
}

/** A machine that is out of memory or processes now need not be in a second. */
function notStarted(error: unknown): Death {
  const what = `not started (${error instanceof Error ? error.message : error})`;
  return { what, exitCode: 1, isCrash: true, isMemoryLike: false, isAskedFor: false };
}
