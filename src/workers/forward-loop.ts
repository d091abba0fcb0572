import { BATCH_HEADER, BATCH_HEADER_WORDS, NOTICE_WORDS, OP_WORDS, SEGMENT_WORDS } from '../shared/batch-wire.js';
import {
  CONTEXT_HEADER,
  CONTEXT_HEADER_WORDS,
  CONTEXT_RECORD_TYPE,
  KEPT_WORDS,
  RUNG_NONE,
} from '../shared/context-wire.js';
import { CONTROL, rescuedRung, STOP } from '../shared/control-layout.js';
import type { Doorbell } from '../shared/doorbell.js';
import { type ContextInfo, type ContextSpec, type Engine, EngineError } from '../shared/engine.js';
import { heartbeatNow } from '../shared/heartbeat.js';
import { MIB } from '../shared/memory/constants.js';
import { bellOf, type CoreBuffers, type RingBuffers } from '../shared/pipeline-buffers.js';
import { RingConsumer } from '../shared/ring.js';
import {
  SAMPLE,
  SAMPLE_FLAGS_DONE,
  SAMPLE_WORDS,
  STEP_OUT,
  STEP_OUT_HEADER_WORDS,
  STEP_STATUS,
  stepOutputWords,
} from '../shared/step-output.js';
import { TIER_OP_WORDS } from '../shared/tier-wire.js';
import { ContextKeeper, KEEP_NOTHING, type KeptSequences } from './context-keeper.js';
import type { DeviceGaugeWriter } from './device-gauges.js';
import { drainEngineLog } from './engine-log.js';
import type { LiveThreads } from './live-threads.js';
import { PrefixStore } from './prefix-store.js';
import { ResultPublisher, Stopped } from './result-publisher.js';
import { SequenceSpill } from './sequence-spill.js';
import type { WorkerLogLevel } from './worker-messages.js';

/** How long the device owner looks at its ring before it sleeps: a wake-up costs more than a short gap between two steps. Chosen. */
const SPIN_MS = 0.2;
/** After a long step the engine stands still for so long: its threads take all cores, and whoever waits for the token needs one. Measured: the
 *  first token reaches a client on the same machine 1 % sooner (2 to 3 of 220 ms, 32 pairs); 1 and 2 ms bring no more. */
const YIELD_MS = 0.5;
/** A step is long when that is at most a hundredth of it. Chosen. */
const YIELD_LEAST_STEP_MS = 100 * YIELD_MS;
/** Longest sleep; also the rate of readings when idle. */
const IDLE_WAIT_MS = 250;

/** A word that nobody notifies. */
const NEVER = new Int32Array(new SharedArrayBuffer(4));

/** Tells the owner of the thread, which alone can log. */
export type ForwardReport = (level: WorkerLogLevel, message: string) => void;

/**
 * The forward worker's loop: take record → apply → decode → sample → publish. It asks nobody anything. A step that fails costs the
 * context, not the process: its results are discarded, a new context is made, and the scheduler computes its requests again.
 */
export class ForwardLoop {
  private readonly control: Int32Array;
  private readonly bell: Doorbell;
  private readonly batches: RingConsumer;
  private readonly publisher: ResultPublisher;
  private readonly output: Int32Array;
  private readonly contexts: ContextKeeper;
  private readonly spill: SequenceSpill;
  private readonly prefixes: PrefixStore;
  private epoch: number;
  private lastStepEndMs = 0;
  private lastStepMs = 0;
  private hadLiveSequences = false;

  constructor(
    private readonly engine: Engine,
    ladder: readonly ContextSpec[],
    rung: number,
    epoch: number,
    core: CoreBuffers,
    rings: RingBuffers,
    private readonly gauges: DeviceGaugeWriter,
    /** null: the threads stay as they were set. */
    private readonly live: LiveThreads | null,
    /** The engine computes on the cores that the other threads run on. */
    private readonly sharesCores: boolean,
    /** Where sequences wait while the context is replaced; null: nowhere. */
    spillFolder: string | null,
    private readonly report: ForwardReport,
    /** The window to the disk worker; null: there is none. */
    diskLink: SharedArrayBuffer | null = null,
  ) {
    this.control = new Int32Array(core.control);
    this.bell = bellOf(core, 'forward');
    this.batches = new RingConsumer(rings.batch);
    this.publisher = new ResultPublisher(core, rings);
    this.output = new Int32Array(stepOutputWords(Math.max(...ladder.map(({ sequences }) => sequences))));
    this.epoch = epoch;
    this.prefixes = new PrefixStore(engine);
    if (diskLink) this.prefixes.useDisk(diskLink, bellOf(core, 'disk'));
    const warn = (message: string) => report('warn', message);
    this.spill = new SequenceSpill(engine, spillFolder, warn);
    this.contexts = new ContextKeeper(engine, ladder, rung, this.spill, warn, (ms) =>
      this.bell.wait(this.bell.read(), ms),
    );
    engine.setAbortFlag(this.control, CONTROL.abortDecode);
  }

  /** Runs until the stop word says so. @throws Error when the engine cannot go on. */
  run(): void {
    try {
      while (Atomics.load(this.control, CONTROL.stop) !== STOP.now) {
        this.beat();
        const seen = this.bell.read();
        const hasMoved = this.turnPump();
        if (this.takeRecord() || hasMoved) continue;
        if (this.hadLiveSequences && this.bell.spin(seen, SPIN_MS)) continue;
        this.gauges.refresh(this.engine, performance.now());
        drainEngineLog(this.engine, this.report);
        this.bell.wait(seen, IDLE_WAIT_MS);
      }
    } catch (error) {
      if (!(error instanceof Stopped)) throw error;
    } finally {
      this.prefixes.clear();
    }
  }

  /** Bytes on their way to or from the disk: a part of them between two records, so that no step waits for it. */
  private turnPump(): boolean {
    if (!this.prefixes.turnPump(this.lastStepMs)) return false;
    this.gauges.set({ hostPrefixBytes: this.prefixes.bytes });
    return true;
  }

  private beat(): void {
    Atomics.store(this.control, CONTROL.forwardHeartbeat, heartbeatNow());
  }

  private takeRecord(): boolean {
    const record = this.batches.peek();
    if (!record) return false;
    const words = this.batches.payloadWords;
    const { at } = record;
    if (record.type === CONTEXT_RECORD_TYPE) {
      this.moveContext(words, at);
      return true;
    }
    const tierAt = at + words[at + BATCH_HEADER.totalWords];
    const end = at + record.lengthWords;
    if (tierAt > end || (end - tierAt) % TIER_OP_WORDS !== 0) throw new Error('a batch record contradicts its length');
    const startMs = performance.now();
    const gapMicros = this.hadLiveSequences ? (startMs - this.lastStepEndMs) * 1000 : 0;
    this.publishNotices(words, at);
    const isCurrent = words[at + BATCH_HEADER.epoch] === this.epoch;
    this.prefixes.beforeStep(words, tierAt, end, isCurrent);
    const failure = this.runStep(words, at);
    this.prefixes.afterStep(words, tierAt, end, isCurrent && this.output[STEP_OUT.status] === STEP_STATUS.ok);
    if (tierAt < end) this.gauges.set({ hostPrefixBytes: this.prefixes.bytes });
    this.publishStep(words, at, startMs);
    this.batches.release();
    this.gauges.step(this.output, gapMicros, startMs, this.lastStepEndMs);
    this.gauges.refresh(this.engine, this.lastStepEndMs);
    this.lastStepMs = this.lastStepEndMs - startMs;
    this.yieldCores(this.lastStepMs);
    if (failure) this.rebuildContext(failure);
    return true;
  }

  private yieldCores(stepMs: number): void {
    const hasTokens = this.output[STEP_OUT.sampleCount] > 0;
    if (this.sharesCores && hasTokens && stepMs >= YIELD_LEAST_STEP_MS) Atomics.wait(NEVER, 0, 0, YIELD_MS);
  }

  private publishNotices(words: Int32Array, at: number): void {
    const count = words[at + BATCH_HEADER.noticeCount];
    if (count === 0) return;
    const noticesAt =
      at +
      BATCH_HEADER_WORDS +
      words[at + BATCH_HEADER.opCount] * OP_WORDS +
      words[at + BATCH_HEADER.startWords] +
      words[at + BATCH_HEADER.segmentCount] * SEGMENT_WORDS +
      words[at + BATCH_HEADER.tokenCount];
    this.publisher.notices(words, noticesAt, count * NOTICE_WORDS);
  }

  /** Runs the record's step into `output`. Returns what went wrong with the context, or null. */
  private runStep(words: Int32Array, at: number): string | null {
    const { output } = this;
    output.fill(0, 0, STEP_OUT_HEADER_WORDS);
    const hasWork = words[at + BATCH_HEADER.segmentCount] > 0 || words[at + BATCH_HEADER.opCount] > 0;
    if (!hasWork) return null;
    if (words[at + BATCH_HEADER.epoch] !== this.epoch) {
      // Planned before the context was lost: its cells are gone, and the scheduler knows by now or soon.
      output[STEP_OUT.status] = STEP_STATUS.invalidRecord;
      return null;
    }
    Atomics.store(this.control, CONTROL.forwardInEngine, 1);
    const threads = this.beginLiveStep(words, at);
    const startMs = performance.now();
    try {
      this.engine.step(words, at, output);
    } catch (error) {
      if (!(error instanceof EngineError)) throw error;
      output.fill(0, 0, STEP_OUT_HEADER_WORDS);
      output[STEP_OUT.status] = STEP_STATUS.failed;
      return error.message;
    } finally {
      Atomics.store(this.control, CONTROL.forwardInEngine, 0);
      this.live?.stepEnded(threads, (performance.now() - startMs) * 1000);
      this.beat();
    }
    const status = output[STEP_OUT.status];
    return status === STEP_STATUS.ok ? null : `step status ${status}, engine code ${output[STEP_OUT.engineCode]}`;
  }

  /** Puts the number of threads that suits the machine now into the record, which is ours until it is released. */
  private beginLiveStep(words: Int32Array, at: number): number {
    if (this.live === null) return 0;
    const { threads } = this.live;
    words[at + BATCH_HEADER.threads] = threads;
    this.gauges.threads(threads);
    this.live.stepBegins();
    return threads;
  }

  private publishStep(words: Int32Array, at: number, startMs: number): void {
    const { output } = this;
    if (output[STEP_OUT.status] !== STEP_STATUS.ok) output[STEP_OUT.sampleCount] = 0;
    const count = output[STEP_OUT.sampleCount];
    this.hadLiveSequences = false;
    for (let i = 0; i < count; i++) {
      const flags = output[STEP_OUT_HEADER_WORDS + i * SAMPLE_WORDS + SAMPLE.flags];
      if ((flags & SAMPLE_FLAGS_DONE) === 0) this.hadLiveSequences = true;
    }
    this.lastStepEndMs = performance.now();
    const stepMicros = Math.round((this.lastStepEndMs - startMs) * 1000);
    this.publisher.step(output, words[at + BATCH_HEADER.stepId], this.epoch, stepMicros, this.prefixes);
  }

  private rebuildContext(reason: string): void {
    if (Atomics.load(this.control, CONTROL.stop) === STOP.now) throw new Stopped();
    this.hadLiveSequences = false;
    const rescue = Atomics.exchange(this.control, CONTROL.rescue, 0);
    let context: ContextInfo | null;
    if (rescue === 0) {
      drainEngineLog(this.engine, this.report);
      this.report('error', `a step failed (${reason}): its results are discarded and the context is made anew`);
      context = this.contexts.rebuild();
    } else {
      Atomics.store(this.control, CONTROL.abortDecode, 0);
      context = this.contexts.move(rescuedRung(rescue), KEEP_NOTHING).context;
      if (context === null) this.putPrefixesAway();
      this.report(
        'warn',
        `memory ran out under a step: it is given up, and the context has ${context?.cells ?? 0} cells`,
      );
    }
    this.epoch = (this.epoch + 1) | 0;
    this.gauges.context(context, this.epoch);
    this.gauges.refreshNow(this.engine, performance.now());
    this.publisher.context(this.epoch, this.contexts.rung, context?.cells ?? 0, []);
  }

  /** With the last context goes what was saved of it: who gives memory back gives all of it. */
  private putPrefixesAway(): void {
    this.prefixes.clear();
    this.gauges.set({ hostPrefixBytes: 0 });
  }

  private moveContext(words: Int32Array, at: number): void {
    const startMs = performance.now();
    const before = this.contexts.rung;
    const keep = keptSequences(words, at);
    const keepCount = keep.copied.length + keep.spilled.length;
    this.epoch = words[at + CONTEXT_HEADER.epoch];
    const { context, rung, carried } = this.contexts.move(words[at + CONTEXT_HEADER.rung], keep);
    this.batches.release();
    if (context === null) this.putPrefixesAway();
    this.gauges.set({ spillBytesPerMs: this.spill.bytesPerMs });
    this.gauges.context(context, this.epoch);
    this.gauges.refreshNow(this.engine, performance.now());
    this.publisher.context(this.epoch, rung, context?.cells ?? 0, carried);
    const name = (index: number) => (index === RUNG_NONE ? 'none' : `rung ${index}`);
    this.report(
      'info',
      `context ${name(before)} → ${name(rung)}, ${context?.cells ?? 0} cells: ${carried.length} of ${keepCount} sequences carried over ` +
        `in ${Math.round(performance.now() - startMs)} ms${keep.spilled.length > 0 ? `, ${keep.spilled.length} through files` : ''}`,
    );
  }
}

function keptSequences(words: Int32Array, at: number): KeptSequences {
  const keptAt = at + CONTEXT_HEADER_WORDS;
  const kept = Array.from({ length: words[at + CONTEXT_HEADER.keepCount] }, (_, i) => {
    const moveAt = keptAt + i * KEPT_WORDS;
    return { from: words[moveAt], to: words[moveAt + 1] };
  });
  const copyCount = words[at + CONTEXT_HEADER.copyCount];
  return {
    copied: kept.slice(0, copyCount),
    spilled: kept.slice(copyCount),
    spillMs: words[at + CONTEXT_HEADER.spillMs],
    spillBytes: words[at + CONTEXT_HEADER.spillMib] * MIB,
    cacheBytes: words[at + CONTEXT_HEADER.cacheMib] * MIB,
  };
}
