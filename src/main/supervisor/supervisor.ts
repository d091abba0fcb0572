import { lowerLine } from './lower-line.js';
import { type OomKills, oomSentence, readOomKills } from './oom-kills.js';
import { type Birth, EXIT_PIPELINE_DIED } from './protocol.js';
import { RestartPolicy } from './restart-policy.js';
import { type Life, ServerProcess, STOP_LIMITS, type StopLimits } from './server-process.js';
import type { SupervisorLog } from './supervisor-log.js';

const EXIT_FAILED = 1;

export interface SupervisorOptions {
  /** Program and arguments of the server process. */
  command: readonly string[];
  log: SupervisorLog;
  /** Tests: other time, other counters, shorter waits. */
  nowMs?: () => number;
  sleep?: (ms: number, signal: AbortSignal) => Promise<void>;
  oomKills?: () => OomKills;
  limits?: StopLimits;
  onStart?: (pid: number | undefined) => void;
}

/**
 * Runs the server process, and starts it again when it crashes: with a growing pause, with a lower line where memory was the cause, and
 * not for ever. An end that is none by accident (the server was told to stop, its command was wrong, it could not start) is its own end
 * too.
 */
export class Supervisor {
  private readonly policy = new RestartPolicy();
  private readonly stopping = new AbortController();
  private readonly nowMs: () => number;
  private readonly oomKills: () => OomKills;
  private server: ServerProcess | null = null;
  private carried: Birth['carried'] = null;
  private wasReady = false;

  constructor(private readonly options: SupervisorOptions) {
    this.nowMs = options.nowMs ?? (() => performance.now());
    this.oomKills = options.oomKills ?? readOomKills;
  }

  /** As a signal says it: once to finish and end, again to end now. */
  stop(): void {
    this.stopping.abort();
    this.server?.stop();
  }

  /** Resolves with the exit code when there is nothing more to run. */
  async run(): Promise<number> {
    for (let restarts = 0; ; restarts++) {
      const killsBefore = this.oomKills();
      this.server = new ServerProcess(
        this.options.command,
        { restarts, carried: this.carried },
        this.nowMs,
        this.options.limits ?? STOP_LIMITS,
      );
      this.options.onStart?.(this.server.pid);
      const life = await this.server.ended;
      this.server = null;
      if (!this.isCrash(life)) return life.death.exitCode;
      const exitCode = await this.afterCrash(life, killsBefore);
      if (exitCode !== null) return exitCode;
    }
  }

  /** A server that was ready before has a command that works: that it cannot start now is an accident like a crash. */
  private isCrash(life: Life): boolean {
    if (life.isStop || life.death.exitCode === 0) return false;
    this.wasReady ||= life.readyAtMs !== null;
    if (life.death.isCrash || life.hasDied || life.death.exitCode === EXIT_PIPELINE_DIED) return true;
    return this.wasReady && !life.death.isAskedFor;
  }

  /** Waits for the next start; returns an exit code where there is none. */
  private async afterCrash(life: Life, killsBefore: OomKills): Promise<number | null> {
    const { log } = this.options;
    log.use(life);
    const cause = causeOf(life, oomSentence(killsBefore, this.oomKills()));
    log.error(`the server process ended: ${cause}`);
    if (life.death.isMemoryLike && !life.hasDied) this.lower(life, cause);
    const readyForMs = life.readyAtMs === null ? null : this.nowMs() - life.readyAtMs;
    const decision = this.policy.crashed(this.nowMs(), readyForMs);
    if (!decision.restart) {
      log.error(`giving up: ${decision.reason}; the last time it was ${cause}`);
      return EXIT_FAILED;
    }
    log.warn(`starting it again in ${decision.delayMs / 1000} s`);
    await (this.options.sleep ?? sleepUntil)(decision.delayMs, this.stopping.signal);
    return this.stopping.signal.aborted ? 0 : null;
  }

  private lower(life: Life, cause: string): void {
    if (life.line === null) return;
    const lowered = lowerLine(life.line, this.carried, cause, Date.now());
    this.carried = lowered.carried;
    for (const line of lowered.log) this.options.log.warn(line);
  }
}

function causeOf(life: Life, oomKiller: string | null): string {
  const { what, isMemoryLike } = life.death;
  if (life.hasDied || life.death.exitCode === EXIT_PIPELINE_DIED) return 'its workers died';
  if (isMemoryLike && oomKiller !== null) return `killed by ${oomKiller}`;
  if (what === 'SIGKILL') return 'killed (SIGKILL)';
  return what === 'SIGABRT' ? 'aborted (SIGABRT)' : what;
}

function sleepUntil(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener(
      'abort',
      () => {
        clearTimeout(timer);
        resolve();
      },
      { once: true },
    );
  });
}
