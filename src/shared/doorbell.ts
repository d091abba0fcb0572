/**
 * Wakes one sleeping consumer of any number of rings. An event count: the consumer notes the count, looks at its rings, and
 * sleeps only while the count is unchanged, so a ring that fills between the look and the sleep still wakes it.
 *
 * ```
 * byte 0      128
 *      | count | waiting |
 * ```
 */
export const DOORBELL_BYTES = 256;
const COUNT = 0;
const WAITING = 32;

export class Doorbell {
  private readonly words: Int32Array;

  constructor(buffer: SharedArrayBuffer, byteOffset = 0) {
    this.words = new Int32Array(buffer, byteOffset, DOORBELL_BYTES >> 2);
  }

  /** Producer: call after publishing. Costs a notify only when the consumer sleeps. */
  ring(): void {
    Atomics.add(this.words, COUNT, 1);
    if (Atomics.load(this.words, WAITING) !== 0) Atomics.notify(this.words, COUNT);
  }

  /** Consumer: the count to hand to `wait`; read it before looking at the rings. */
  read(): number {
    return Atomics.load(this.words, COUNT);
  }

  /** Consumer: looks at the count for up to `spinMs`, for waits that are shorter than a sleep and a wake-up. True: it was rung. */
  spin(seen: number, spinMs: number): boolean {
    const untilMs = performance.now() + spinMs;
    do {
      // Many looks a clock read: the clock costs more than the look.
      for (let i = 0; i < 64; i++) if (Atomics.load(this.words, COUNT) !== seen) return true;
    } while (performance.now() < untilMs);
    return false;
  }

  /** Consumer in a worker thread: sleeps until rung since `seen`, at most `timeoutMs`. Returns true when it was rung. */
  wait(seen: number, timeoutMs: number): boolean {
    Atomics.store(this.words, WAITING, 1);
    // wait() itself re-reads the count, so nothing is lost between the store above and the sleep.
    const result = Atomics.wait(this.words, COUNT, seen, timeoutMs);
    Atomics.store(this.words, WAITING, 0);
    return result !== 'timed-out';
  }

  /**
   * Consumer on the main thread, which must not sleep. Resolves when it was rung since `seen`. It has no time limit: V8 keeps the timer of one
   * until it is due, however soon the wait is over, so a limit for every token would wake the thread once more for each of them.
   */
  async waitAsync(seen: number): Promise<void> {
    Atomics.store(this.words, WAITING, 1);
    const wait = Atomics.waitAsync(this.words, COUNT, seen);
    if (wait.async) await wait.value;
    Atomics.store(this.words, WAITING, 0);
  }
}
