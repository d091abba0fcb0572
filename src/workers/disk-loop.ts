import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads';
import { CONTROL, STOP } from '../shared/control-layout.js';
import { DiskLink, LINK_STATE } from '../shared/disk-link.js';
import type { DiskCommand, DiskEvent } from '../shared/disk-messages.js';
import type { Doorbell } from '../shared/doorbell.js';
import { bellOf, type CoreBuffers } from '../shared/pipeline-buffers.js';
import { type DiskJob, type ReadCommand, ReadJob, type WriteCommand, WriteJob } from './disk-jobs.js';
import { PrefixFolder } from './prefix-folder.js';
import type { WorkerLogLevel } from './worker-messages.js';

const IDLE_WAIT_MS = 1_000;
/** While the engine computes, work is followed by so many times its length of rest. Chosen: a tenth of a core. */
const REST_FACTOR = 9;
/** A word that nobody notifies. */
const NEVER = new Int32Array(new SharedArrayBuffer(4));

export interface DiskOptions {
  folder: string;
  boundBytes: number;
  /** What makes the prefixes of this server (prefix-identity.ts). */
  identity: string;
}

/**
 * The disk worker's loop: one read or write at a time, reads first. It does what the overlap worker's books say; bytes come from the forward
 * worker and go to it through the window (disk-link.ts). Everything that goes wrong here costs a computation.
 */
export class DiskLoop {
  private readonly control: Int32Array;
  private readonly bell: Doorbell;
  private readonly forwardBell: Doorbell;
  private readonly overlapBell: Doorbell;
  private readonly link: DiskLink;
  private readonly folder: PrefixFolder;
  private readonly reads: ReadCommand[] = [];
  private readonly writes: WriteCommand[] = [];
  private job: DiskJob | null = null;
  private problems = 0;

  constructor(
    core: CoreBuffers,
    link: SharedArrayBuffer,
    private readonly port: MessagePort,
    private readonly options: DiskOptions,
    private readonly report: (level: WorkerLogLevel, message: string) => void,
  ) {
    this.control = new Int32Array(core.control);
    this.bell = bellOf(core, 'disk');
    this.forwardBell = bellOf(core, 'forward');
    this.overlapBell = bellOf(core, 'overlap');
    this.link = new DiskLink(link);
    this.folder = new PrefixFolder(options.folder, options.identity, options.boundBytes);
  }

  /** Runs until the stop word says so. */
  run(): void {
    while (Atomics.load(this.control, CONTROL.stop) !== STOP.now) {
      const seen = this.bell.read();
      this.takeCommands();
      const startMs = performance.now();
      if (!this.advance()) this.bell.wait(seen, IDLE_WAIT_MS);
      else this.rest(performance.now() - startMs);
    }
    this.job?.abort();
  }

  /** Looks at the folder, and tells what is in it. @throws Error of the file system when it cannot be read at all. */
  open(): void {
    const { folder, options } = this;
    const prefixes = folder.open();
    const removed = folder.problems.length;
    if (removed > 0) {
      const [{ name, reason }] = folder.problems;
      this.report('warn', `${removed} files of saved prefixes in ${options.folder} are removed (${name}: ${reason})`);
    }
    const mib = Math.round(folder.bytes / 2 ** 20);
    this.report('info', `${prefixes.length} saved prefixes, ${mib} MiB, in ${options.folder}`);
    this.post({ type: 'opened', boundBytes: options.boundBytes, prefixes, removed });
  }

  private takeCommands(): void {
    for (let got = receiveMessageOnPort(this.port); got; got = receiveMessageOnPort(this.port)) {
      const command = got.message as DiskCommand;
      if (command.type === 'write') this.writes.push(command);
      else if (command.type === 'read') this.reads.push(command);
      else if (command.type === 'remove') this.remove(command.id);
      else this.cancel(command.slot);
    }
  }

  private remove(id: number): void {
    try {
      this.folder.remove(id);
    } catch (error) {
      this.problem(`file ${id} of saved prefixes cannot be removed: ${(error as Error).message}`);
    }
  }

  /** One that has begun is refused by the forward worker, which has dropped its slot. */
  private cancel(slot: number): void {
    const at = this.reads.findIndex((read) => read.slot === slot);
    if (at < 0) return;
    const [{ id }] = this.reads.splice(at, 1);
    this.post({ type: 'read', id, slot, isLoaded: false, isBad: false, stateBytes: 0, micros: 0 });
  }

  /** Returns whether there may be more to do at once. */
  private advance(): boolean {
    this.job ??= this.nextJob();
    if (this.job === null) return false;
    const result = this.job.advance();
    if (result === 'waits') return false;
    if (result !== 'worked') {
      this.job = null;
      this.post(result);
    }
    this.forwardBell.ring();
    return true;
  }

  private nextJob(): DiskJob | null {
    const { folder, link, options } = this;
    // The forward worker has not seen yet how the last one ended.
    if (link.state !== LINK_STATE.idle) return null;
    const problem = (text: string) => this.problem(text);
    const read = this.reads.shift();
    if (read) return new ReadJob(read, options.identity, folder, link, problem);
    const write = this.writes.shift();
    if (!write) return null;
    const job = new WriteJob(write, options.identity, folder, link, problem);
    this.forwardBell.ring();
    return job;
  }

  /** A read is waited for; everything else can wait. */
  private rest(workedMs: number): void {
    if (this.job instanceof WriteJob && Atomics.load(this.control, CONTROL.forwardInEngine) !== 0)
      Atomics.wait(NEVER, 0, 0, workedMs * REST_FACTOR);
  }

  private post(event: DiskEvent): void {
    this.port.postMessage(event);
    this.link.mailPosted();
    this.overlapBell.ring();
  }

  /** Told once in the log of most people: a disk that fails does so again and again. */
  private problem(text: string): void {
    this.report(this.problems++ === 0 ? 'warn' : 'debug', text);
  }
}
