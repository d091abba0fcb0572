import { SeededRandom } from '../../shared/simulation/random.js';

/** When each of `count` Poisson arrivals of that rate comes, milliseconds after the start; the first one waits like all others. */
export function* poissonArrivals(perSecond: number, count: number, seed: number): Generator<number> {
  const random = new SeededRandom(seed);
  let atMs = 0;
  for (let i = 0; i < count; i++) {
    atMs += random.exponential(1000 / perSecond);
    yield atMs;
  }
}
