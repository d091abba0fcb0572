import { FAKE_CONTROL, FAKE_CONTROL_BYTES } from '../../src/workers/fake-options.js';

/** Holds the fake engine still in the middle of a step, from another thread. */
export class EngineLatch {
  readonly buffer = new SharedArrayBuffer(FAKE_CONTROL_BYTES);
  private readonly words = new Int32Array(this.buffer);

  hold(): void {
    Atomics.store(this.words, FAKE_CONTROL.hold, 1);
  }

  release(): void {
    Atomics.store(this.words, FAKE_CONTROL.hold, 0);
    Atomics.notify(this.words, FAKE_CONTROL.hold);
  }

  /** What the machine has left, from the next reading on. */
  systemAvailableMib(mib: number): void {
    Atomics.store(this.words, FAKE_CONTROL.systemAvailableMib, mib);
  }

  get enteredSteps(): number {
    return Atomics.load(this.words, FAKE_CONTROL.entered);
  }

  /** Resolves when `count` steps have entered their decode. */
  async entered(count: number): Promise<void> {
    for (let now = this.enteredSteps; now < count; now = this.enteredSteps) {
      const wait = Atomics.waitAsync(this.words, FAKE_CONTROL.entered, now, 1000);
      if (wait.async) await wait.value;
    }
  }
}
