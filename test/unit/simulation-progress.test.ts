import fc from 'fast-check';
import t from 'tap';
import { findProfile } from '../../src/shared/memory/profiles.js';
import {
  Clients,
  cgroupMachine,
  comingAndGoing,
  isRefusal,
  MODELS,
  machineOfProfile,
  type OthersUse,
  PoissonArrivals,
  type RequestShape,
  type SimulationInput,
  simulate,
  type Workload,
} from '../../src/shared/simulation/index.js';

const MIB = 2 ** 20;
const SECONDS = 120;
const MAX_WAIT_MS = 60_000;
/** A stall is broken after ten seconds; a step of the slowest machine here takes some seconds more. */
const STANDSTILL_MAX_MS = MAX_WAIT_MS + 20_000;

const anyShape: fc.Arbitrary<RequestShape> = fc
  .record({
    least: fc.integer({ min: 1, max: 2000 }),
    spread: fc.integer({ min: 0, max: 3000 }),
    answer: fc.integer({ min: 1, max: 200 }),
    share: fc.constantFrom(0, 0.3, 1),
    prefix: fc.integer({ min: 1, max: 1500 }),
    priorities: fc.constantFrom([0], [0, 1, 5]),
  })
  .map(({ least, spread, answer, share, prefix, priorities }) => ({
    promptTokens: [least, least + spread],
    answerTokens: [1, answer],
    repeats: { share, count: 2, tokens: [1, prefix] },
    priorities,
  }));

const anyWorkload = fc
  .record({
    shape: anyShape,
    clients: fc.integer({ min: 1, max: 12 }),
    perSecond: fc.constantFrom(0, 0.5, 4),
    seed: fc.integer({ min: 1, max: 1e6 }),
    turns: fc.constantFrom(1, 4),
  })
  .map(({ shape, clients, perSecond, seed, turns }): (() => Workload) => {
    const untilMs = SECONDS * 1000;
    if (perSecond > 0) return () => new PoissonArrivals({ perSecond, untilMs, seed, shape });
    const chat = { turns: [1, turns] as const, userTokens: [5, 50] as const };
    return () => new Clients({ count: clients, thinkMs: 500, untilMs, seed, shape, chat });
  });

/** Others that come and go, and others that come to stay. */
const anyOthers = (most: number): fc.Arbitrary<OthersUse> =>
  fc.oneof(
    fc
      .record({
        share: fc.double({ min: 0, max: 1, noNaN: true }),
        stayMs: fc.integer({ min: 100, max: 20_000 }),
        pauseMs: fc.integer({ min: 100, max: 20_000 }),
        rampMs: fc.integer({ min: 1, max: 3000 }),
        seed: fc.integer({ min: 1, max: 1e6 }),
      })
      .map(({ share, ...rest }) => comingAndGoing({ bytes: share * most, untilMs: 1e9, ...rest })),
    fc.record({ share: fc.double({ min: 0, max: 1, noNaN: true }), fromMs: fc.integer({ min: 0, max: 60_000 }) }).map(
      ({ share, fromMs }): OthersUse =>
        (atMs) =>
          atMs < fromMs ? 0 : share * most,
    ),
  );

const anyMac = fc.constantFrom('m4-16gb', 'm4-pro-24gb').chain((profile) => {
  const machine = machineOfProfile(findProfile(profile)!);
  return fc.record({
    machine: fc.constant(machine),
    chip: fc.constant('m4-max' as const),
    model: fc.constant(MODELS['llama-3.1-8b-q4']),
    // Up to more than there is: macOS pages others out.
    othersUse: anyOthers(machine.ramBytes - machine.ramInUseBytes),
  });
});

/** Others of a cgroup take half of the margin at most: what comes faster and larger kills whatever a server does. */
const anyCgroup = fc.integer({ min: 300, max: 2000 }).chain((mib) =>
  fc.record({
    machine: fc.constant(cgroupMachine(mib * MIB)),
    chip: fc.constant('m4' as const),
    model: fc.constant(MODELS['fat-kv']),
    othersUse: anyOthers(24 * MIB),
  }),
);

const anyInput = fc
  .record({
    where: fc.oneof(anyMac, anyCgroup),
    workload: anyWorkload,
    readingLagMs: fc.constantFrom(0, 100, 1000),
    idleReleaseMs: fc.constantFrom(0, 500),
    isOverlapped: fc.boolean(),
    flags: fc.record({
      layout: fc.constantFrom<'auto' | 'shared' | 'private'>('auto', 'shared', 'private'),
      runningCap: fc.constantFrom<'auto' | number>('auto', 1, 6),
      prefixCache: fc.boolean(),
    }),
  })
  .map(({ where, workload, ...rest }): (() => SimulationInput) => () => ({
    ...where,
    ...rest,
    workload: workload(),
    seconds: SECONDS,
    maxWaitMs: MAX_WAIT_MS,
  }));

t.test('whatever is asked and read: no crash, no wedge, every request has its end', async (t) => {
  let refused = 0;
  fc.assert(
    fc.property(anyInput, (input) => {
      const given = input();
      const outcome = simulate(given);
      if (isRefusal(outcome)) {
        refused++;
        return;
      }
      const wrong =
        outcome.crash ??
        (outcome.open > 0 ? `${outcome.open} requests never ended` : null) ??
        (outcome.longestStandstillMs > STANDSTILL_MAX_MS
          ? `stood still for ${outcome.longestStandstillMs} ms`
          : null) ??
        (outcome.peakUsedBytes > outcome.limitBytes ? 'over the limit' : null);
      if (wrong !== null) {
        const { machine, flags, readingLagMs, idleReleaseMs } = given;
        throw new Error(
          `${wrong}: ${JSON.stringify({ ends: outcome.ends, machine: machine.name, flags, readingLagMs, idleReleaseMs })}`,
        );
      }
    }),
    {
      numRuns: Number(process.env.SIMULATION_RUNS ?? 25),
      endOnFailure: true,
      includeErrorInReport: true,
      seed: process.env.SIMULATION_SEED ? Number(process.env.SIMULATION_SEED) : 1,
    },
  );
  t.ok(refused < 30, `${refused} of the machines were too small`);
});
