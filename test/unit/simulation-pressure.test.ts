import t from 'tap';
import { findProfile } from '../../src/shared/memory/profiles.js';
import {
  Clients,
  cgroupMachine,
  comingAndGoing,
  MODELS,
  machineOfProfile,
  type SimulationResult,
} from '../../src/shared/simulation/index.js';
import { mustFit, runOn } from '../support/simulated.js';

const MIB = 2 ** 20;
const SECONDS = 600;

/** The load of the memory-limit benchmark: 4 clients without a pause, 500 to 2000 prompt tokens, a third with a common prefix. */
function tightLoad(seconds = SECONDS): Clients {
  return new Clients({
    count: 4,
    thinkMs: 1,
    untilMs: seconds * 1000,
    seed: 2,
    shape: {
      promptTokens: [500, 2000],
      answerTokens: [32, 32],
      repeats: { share: 0.33, count: 4, tokens: [300, 600] },
    },
  });
}

/** Bytes that come for some seconds and go for some seconds. */
function ballast(bytes: number, rampMs: number) {
  return comingAndGoing({ bytes, stayMs: 5000, pauseMs: 5000, rampMs, untilMs: SECONDS * 1000, seed: 4 });
}

for (const limitMib of [1638, 900, 500]) {
  for (const readingLagMs of [0, 500]) {
    t.test(`a memory cgroup of ${limitMib} MiB, readings ${readingLagMs} ms old`, async (t) => {
      const machine = cgroupMachine(limitMib * MIB);
      const model = MODELS['fat-kv'];
      const result = runOn({
        machine,
        chip: 'two-cores',
        model,
        workload: tightLoad(),
        seconds: SECONDS,
        readingLagMs,
      });
      mustFit(t, result);
      t.same(Object.keys(result.ends), ['done']);
      t.ok(result.peakUsedBytes > 0.85 * result.limitBytes, 'and what is above the line is used');
    });
  }
}

t.test('what a plan promises is served at every limit, in a pool and in streams', async (t) => {
  // In a pool of 480 and 580 MiB the climb that a request needed was refused once, for the margin, until its wait was over.
  for (const layout of ['auto', 'shared'] as const) {
    for (let limitMib = 440; limitMib <= 1_000; limitMib += 10) {
      const result = runOn({
        machine: cgroupMachine(limitMib * MIB),
        chip: 'two-cores',
        model: MODELS['fat-kv'],
        workload: tightLoad(60),
        seconds: 60,
        flags: { layout },
      });
      mustFit(t, result);
      t.same(Object.keys(result.ends), ['done'], `${limitMib} MiB, ${layout}`);
    }
  }
});

t.test('a shared prefix that many hold counts for each of them while the context moves', async (t) => {
  // Settings under which copies of shared cells once went over the limit at a climb.
  for (const [limitMib, prefix, pool, clients] of [
    [1224, 1034, 5120, 9],
    [1026, 352, 4096, 9],
    [1479, 668, 6144, 14],
  ]) {
    const workload = new Clients({
      count: clients,
      thinkMs: 500,
      untilMs: 60_000,
      seed: limitMib,
      shape: {
        promptTokens: [prefix + 20, prefix + 100],
        answerTokens: [20, 200],
        repeats: { share: 1, count: 1, tokens: [prefix, prefix] },
      },
    });
    const result = runOn({
      machine: cgroupMachine(limitMib * MIB),
      chip: 'm4',
      model: MODELS['fat-kv'],
      workload,
      seconds: 60,
      flags: { maxTotalTokens: pool, contextTokens: 2048, layout: 'shared', runningCap: 16, chunkTokens: 64 },
    });
    t.equal(result.crash, null, `${limitMib} MiB: no crash`);
    t.ok(result.replans.length > 0, 'the context has moved');
  }
});

t.test('other programs come and go every few seconds, and take no more than the margin', async (t) => {
  const machine = cgroupMachine(1638 * MIB);
  const result = runOn({
    machine,
    chip: 'two-cores',
    model: MODELS['fat-kv'],
    workload: tightLoad(),
    seconds: SECONDS,
    othersUse: ballast(50 * MIB, 200),
    readingLagMs: 100,
  });
  t.equal(result.crash, null);
  t.same(Object.keys(result.ends), ['done']);
});

function moves(result: SimulationResult, way: 'up' | 'down'): number {
  return result.replans.filter(({ from, to }) => (way === 'up' ? to > from : to < from)).length;
}

t.test(
  'other programs take gigabytes of a Mac and give them back: contexts shrink and grow, answers stay whole',
  async (t) => {
    const machine = machineOfProfile(findProfile('m4-16gb')!);
    const workload = new Clients({
      count: 6,
      thinkMs: 500,
      untilMs: SECONDS * 1000,
      seed: 5,
      shape: { promptTokens: [500, 3000], answerTokens: [32, 200] },
    });
    const result = runOn({
      machine,
      chip: 'm4',
      model: MODELS['llama-3.1-8b-q4'],
      workload,
      seconds: SECONDS,
      othersUse: comingAndGoing({
        bytes: 16e9,
        stayMs: 20_000,
        pauseMs: 30_000,
        rampMs: 3000,
        untilMs: SECONDS * 1000,
        seed: 8,
      }),
      readingLagMs: 250,
    });
    mustFit(t, result);
    t.same(Object.keys(result.ends), ['done']);
    t.ok(moves(result, 'down') >= 2, `${moves(result, 'down')} shrinks`);
    t.ok(moves(result, 'up') >= 4, `${moves(result, 'up')} climbs`);
  },
);

t.test('an idle context is put away and comes back with the next request', async (t) => {
  const machine = machineOfProfile(findProfile('m4-16gb')!);
  const workload = new Clients({
    count: 1,
    thinkMs: 120_000,
    untilMs: 3_600_000,
    seed: 6,
    shape: { promptTokens: [100, 500], answerTokens: [10, 50] },
  });
  const model = MODELS['llama-3.1-8b-q4'];
  const result = runOn({ machine, chip: 'm4', model, workload, seconds: 3600, idleReleaseMs: 30_000 });
  mustFit(t, result);
  t.same(Object.keys(result.ends), ['done']);
  t.ok(result.replans.filter(({ to }) => to === -1).length > 5, 'put away many times');
  const least = Math.min(...result.moments.map((moment) => moment.usedBytes));
  t.ok(least <= model.shape.weightsBytes + machine.runtimeExtraBytes, 'then only the weights are left');
});
