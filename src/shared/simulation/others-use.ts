import { SeededRandom } from './random.js';

/** Bytes that other programs want at a time, beside what the machine has in use anyway. */
export type OthersUse = (atMs: number) => number;

export const NOBODY_ELSE: OthersUse = () => 0;

export interface Ballast {
  bytes: number;
  /** Mean time of a stay, and between two stays. */
  stayMs: number;
  pauseMs: number;
  /** Time in which it takes its bytes, and gives them back. */
  rampMs: number;
  /** It comes and goes no more after this. */
  untilMs: number;
  seed: number;
}

interface Stay {
  fromMs: number;
  toMs: number;
  bytes: number;
}

/** A program that comes and goes: takes its memory, holds it for a while, gives it back. Stays are from half to one and a half of the mean. */
export function comingAndGoing(ballast: Ballast): OthersUse {
  const stays = staysOf(ballast);
  const { rampMs } = ballast;
  // Times are asked for in order, nearly always: the search goes on where it stood.
  let at = 0;
  return (nowMs) => {
    while (at > 0 && nowMs < stays[at].fromMs) at--;
    while (at + 1 < stays.length && nowMs >= stays[at + 1].fromMs) at++;
    const stay = stays[at];
    if (stay === undefined || nowMs < stay.fromMs) return 0;
    const rising = (nowMs - stay.fromMs) / rampMs;
    const falling = (stay.toMs + rampMs - nowMs) / rampMs;
    return Math.round(stay.bytes * Math.max(0, Math.min(1, rising, falling)));
  };
}

function staysOf({ bytes, stayMs, pauseMs, rampMs, untilMs, seed }: Ballast): Stay[] {
  if (stayMs <= 0 || pauseMs <= 0 || rampMs <= 0)
    throw new RangeError('a ballast stays, pauses and ramps for some time');
  const random = new SeededRandom(seed);
  const around = (mean: number) => mean * (0.5 + random.next());
  const stays: Stay[] = [];
  for (let fromMs = around(pauseMs); fromMs < untilMs; ) {
    const toMs = fromMs + rampMs + around(stayMs);
    stays.push({ fromMs, toMs, bytes: bytes * (0.5 + random.next() / 2) });
    fromMs = toMs + rampMs + around(pauseMs);
  }
  return stays;
}
