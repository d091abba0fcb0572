import { FAKE_CONTROL, FAKE_CONTROL_BYTES } from './fake-options.js';

/** How often a waiting decode looks at the abort flag, ms. Chosen: the real engine looks between graph nodes, about as often. */
const ABORT_POLL_MS = 1;

/** The time a decode takes, spent asleep: the fake device is not the CPU, so the threads around it keep their cores. */
export class FakeDelay {
  private readonly control: Int32Array;
  private abortWords: Int32Array | null = null;
  private abortIndex = 0;

  constructor(control: SharedArrayBuffer | null) {
    this.control = new Int32Array(control ?? new SharedArrayBuffer(FAKE_CONTROL_BYTES));
  }

  setAbortFlag(words: Int32Array, index: number): void {
    this.abortWords = words;
    this.abortIndex = index;
  }

  /** Sleeps for `micros`, and while a test holds the engine. Returns true when the abort flag ended it. */
  decode(micros: number): boolean {
    this.count(FAKE_CONTROL.entered);
    if (micros > 0) {
      for (let left = micros / 1000; left > 0; left -= ABORT_POLL_MS) {
        if (this.isAborted()) return true;
        this.sleep(Math.min(left, ABORT_POLL_MS));
      }
    }
    while (Atomics.load(this.control, FAKE_CONTROL.hold) !== 0) {
      if (this.isAborted()) return true;
      Atomics.wait(this.control, FAKE_CONTROL.hold, 1, ABORT_POLL_MS);
    }
    return this.isAborted();
  }

  completed(): void {
    this.count(FAKE_CONTROL.completed);
  }

  /** Sleeps without an end. */
  hang(): never {
    for (;;) this.sleep(60_000);
  }

  sleep(ms: number): void {
    Atomics.wait(sleeper, 0, 0, ms);
  }

  readOverride(index: number): number {
    return Atomics.load(this.control, index);
  }

  private isAborted(): boolean {
    return this.abortWords !== null && Atomics.load(this.abortWords, this.abortIndex) !== 0;
  }

  private count(index: number): void {
    Atomics.add(this.control, index, 1);
    Atomics.notify(this.control, index);
  }
}

/** A word that nobody ever notifies. */
const sleeper = new Int32Array(new SharedArrayBuffer(4));
