import t from 'tap';
import { findProfile } from '../../src/shared/memory/profiles.js';
import {
  Clients,
  cgroupMachine,
  comingAndGoing,
  MODELS,
  machineOfProfile,
  NOBODY_ELSE,
  parseTrace,
  SimulatedCrash,
  SimulatedDevice,
  TracePlayer,
} from '../../src/shared/simulation/index.js';
import { LaggedReadings } from '../../src/shared/simulation/lagged-readings.js';
import { mustFit, runOn } from '../support/simulated.js';

const MIB = 2 ** 20;

t.test('an allocation past the limit is a crash', async (t) => {
  const device = new SimulatedDevice(cgroupMachine(100 * MIB), NOBODY_ELSE);
  device.set('weights', 60 * MIB, 0);
  device.set('kv', 40 * MIB, 0);
  t.throws(() => device.set('compute', 1, 5), SimulatedCrash);
  t.equal(device.readings(0).cgroupUsedBytes, 100 * MIB + 1);
});

t.test('others that want more than there is: killed in a memory group, paged out on a Mac', async (t) => {
  const linux = new SimulatedDevice(cgroupMachine(100 * MIB), (atMs) => (atMs < 10 ? 0 : 50 * MIB));
  linux.set('weights', 60 * MIB, 0);
  linux.look(9);
  t.throws(() => linux.look(10), /killed/);
  const machine = machineOfProfile(findProfile('m4-16gb')!);
  const mac = new SimulatedDevice(machine, () => machine.ramBytes);
  mac.set('weights', 60 * MIB, 0);
  mac.look(0);
  t.equal(mac.peakShortageBytes, machine.ramInUseBytes + 60 * MIB);
  t.equal(mac.readings(0).systemAvailableBytes, 0);
  t.equal(mac.readings(0).pressureLevel, 2);
});

t.test('readings are seen as late as they are told to', async (t) => {
  const device = new SimulatedDevice(cgroupMachine(100 * MIB), NOBODY_ELSE);
  const readings = new LaggedReadings(50);
  readings.take(device.readings(0), 0);
  device.set('weights', MIB, 0);
  readings.take(device.readings(10), 10);
  t.equal(readings.seen(59).cgroupUsedBytes, 0);
  t.equal(readings.seen(60).cgroupUsedBytes, MIB);
  t.equal(readings.ageMs(60), 50);
});

t.test('a ballast takes its bytes and gives all of them back', async (t) => {
  const use = comingAndGoing({ bytes: 1000, stayMs: 100, pauseMs: 100, rampMs: 10, untilMs: 5000, seed: 1 });
  const values = Array.from({ length: 6000 }, (_, atMs) => use(atMs));
  t.ok(Math.max(...values) > 500 && Math.max(...values) <= 1000);
  t.ok(Math.min(...values) === 0);
  t.equal(values[5999], 0);
  const comings = values.filter((bytes, i) => i > 0 && bytes > 0 && values[i - 1] === 0).length;
  t.ok(comings > 10, `${comings} times`);
});

t.test('a trace is read strictly', async (t) => {
  const lines = parseTrace('# a comment\n{"at": 2, "prompt": 5, "output": 3}\n\n{"at": 1, "prompt": 5, "output": 3}\n');
  t.same(
    lines.map((line) => line.at),
    [1, 2],
  );
  for (const wrong of [
    'no JSON',
    '[1]',
    '{"at": 1, "prompt": 0, "output": 3}',
    '{"at": -1, "prompt": 5, "output": 3}',
    '{"at": 1, "prompt": 5.5, "output": 3}',
    '{"at": 1, "prompt": 5, "output": 3, "prefix": 1}',
    '{"at": 1, "prompt": 5, "output": 3, "colour": 1}',
  ]) {
    t.throws(() => parseTrace(`{"at": 1, "prompt": 5, "output": 3}\n${wrong}`), /line 2/, wrong);
  }
});

t.test('a trace is played: shared prefixes are hits, what cannot fit is refused', async (t) => {
  const text = [
    '{"at": 0, "prompt": 800, "prefix": 1, "prefixTokens": 600, "output": 10}',
    '{"at": 60, "prompt": 900, "prefix": 1, "prefixTokens": 600, "output": 10, "priority": 1}',
    '{"at": 61, "prompt": 9000000, "output": 10}',
  ].join('\n');
  const machine = machineOfProfile(findProfile('m4-16gb')!);
  const workload = new TracePlayer(parseTrace(text));
  const result = runOn({ machine, chip: 'm4', model: MODELS['llama-3.1-8b-q4'], workload, seconds: 120 });
  mustFit(t, result);
  t.same(result.ends, { done: 2, neverFits: 1 });
  t.equal(result.answerTokens, 20);
  t.equal(result.repeatHitRate, 600 / 900);
});

t.test('chats find what was said before in the cache', async (t) => {
  const seconds = 1800;
  const workload = new Clients({
    count: 3,
    thinkMs: 5000,
    untilMs: seconds * 1000,
    seed: 4,
    shape: { promptTokens: [300, 800], answerTokens: [50, 150] },
    chat: { turns: [3, 8], userTokens: [10, 40] },
  });
  const machine = machineOfProfile(findProfile('m4-16gb')!);
  const result = runOn({ machine, chip: 'm4-max', model: MODELS['llama-3.1-8b-q4'], workload, seconds });
  mustFit(t, result);
  t.ok(result.repeatHitRate > 0.9, `${result.repeatHitRate} of later turns`);
});

t.test('the same seed gives the same simulation, another one another', async (t) => {
  const run = (seed: number, isOverlapped = true) => {
    const shape = { promptTokens: [10, 500] as const, answerTokens: [1, 50] as const };
    const workload = new Clients({ count: 3, thinkMs: 100, untilMs: 60_000, seed, shape });
    const machine = machineOfProfile(findProfile('m4-16gb')!);
    return runOn({ machine, chip: 'm4-max', model: MODELS['llama-3.1-8b-q4'], workload, seconds: 60, isOverlapped });
  };
  t.same(run(1), run(1));
  t.not(run(1).promptTokens, run(2).promptTokens);
  t.equal(run(1, false).crash, null, 'in lock step too');
});
