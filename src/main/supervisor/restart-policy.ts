/** When to start again after a crash, and when to stop trying. Pure. All numbers are chosen. */

/** A killed process can leave memory wired for a moment, so even the first restart waits. */
const FIRST_DELAY_MS = 500;
const MAX_DELAY_MS = 30_000;
/** Ready for this long: the crashes before are history. Longer than a model takes to load and to meet its first prompts. */
const HEALTHY_MS = 5 * 60_000;
/** More crashes than this in WINDOW_MS, or in a row before it was ever ready, and a person has to look. The lowered line is at 0.59 then. */
const CRASHES_MAX = 5;
const WINDOW_MS = 10 * 60_000;

export type RestartDecision = { restart: true; delayMs: number } | { restart: false; reason: string };

export class RestartPolicy {
  private crashTimesMs: number[] = [];
  private inARow = 0;
  private inARowBeforeReady = 0;

  /** `readyForMs`: how long the process that crashed had served; null: it was never ready. */
  crashed(nowMs: number, readyForMs: number | null): RestartDecision {
    if (readyForMs !== null) this.inARowBeforeReady = 0;
    if (readyForMs !== null && readyForMs >= HEALTHY_MS) {
      this.inARow = 0;
      this.crashTimesMs = [];
    }
    this.inARow++;
    if (readyForMs === null) this.inARowBeforeReady++;
    this.crashTimesMs = [...this.crashTimesMs.filter((timeMs) => nowMs - timeMs < WINDOW_MS), nowMs];
    if (this.inARowBeforeReady >= CRASHES_MAX) {
      return { restart: false, reason: `it crashed ${CRASHES_MAX} times in a row before it was ready` };
    }
    if (this.crashTimesMs.length >= CRASHES_MAX) {
      return { restart: false, reason: `it crashed ${CRASHES_MAX} times within ${WINDOW_MS / 60_000} minutes` };
    }
    return { restart: true, delayMs: Math.min(FIRST_DELAY_MS * 2 ** (this.inARow - 1), MAX_DELAY_MS) };
  }
}
