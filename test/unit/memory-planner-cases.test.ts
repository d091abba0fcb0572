import t from 'tap';
import { planLines, refusalText } from '../../src/shared/memory/plan-text.js';
import type { Plan, PlanFlags, PlanInput, Refusal } from '../../src/shared/memory/plan-types.js';
import { planContext } from '../../src/shared/memory/planner.js';
import { exactCosts, GIB, MIB, machineInput, readings, SMOL, shape } from './memory-machines.js';

const FAT = shape({
  layerCount: 16,
  embeddingLength: 256,
  feedForwardLength: 512,
  queryHeadCount: 16,
  kvHeads: [16],
  keyLength: 128,
  valueLength: 128,
  vocabularySize: 151_936,
  trainContextTokens: 40_960,
  weightsBytes: 72e6,
});

function planOf(input: PlanInput, model = SMOL): Plan {
  const plan = planContext(input, exactCosts(model, input.machine.memory));
  if (plan.refused) throw new Error(refusalText(plan));
  return plan;
}

function refusalOf(input: PlanInput, model = SMOL): Refusal {
  const plan = planContext(input, exactCosts(model, input.machine.memory));
  if (!plan.refused) throw new Error('it was planned');
  return plan;
}

const smol = (mib: number, flags: Partial<PlanFlags> = {}) =>
  machineInput('host', mib * MIB, (mib - 200) * MIB, SMOL, flags);

t.test('plenty of memory: private streams of the whole train context', async (t) => {
  const plan = planOf(smol(8192));
  t.match(plan, { layout: 'private', contextTokens: 8192, runningCap: 8, chunkTokens: 512 });
  t.match(plan.spec, { sequences: 8, cells: 8192, batchTokens: 520, ubatchTokens: 520 });
  t.same(plan.reasons.map((reason) => reason.cap).sort(), ['chunk', 'context', 'layout', 'pool', 'running']);
  t.ok(planLines(plan).every((line) => line.length > 10));
});

t.test('less: a shared pool, in which a request may still be as long as it wants', async (t) => {
  const plan = planOf(smol(900));
  t.match(plan, { layout: 'shared', contextTokens: 8192, runningCap: 8 });
  t.ok(plan.poolTokens < 8 * 8192);
});

t.test('as many requests run as there are streams, unless a number was asked for', async (t) => {
  const input = (mib: number, flags: Partial<PlanFlags> = {}) =>
    machineInput('host', mib * MIB, (mib - 200) * MIB, FAT, flags);
  const three = planOf(input(1300), FAT);
  t.match(three, { layout: 'shared', asStreams: true, runningCap: Math.floor(three.spec.cells / 2048) });
  t.equal(three.spec.sequences, three.runningCap);
  t.ok(planLines(three).some((line) => line.includes(`${three.runningCap} running requests: each has a private`)));
  const one = planOf(input(600), FAT);
  t.match(one, { asStreams: true, runningCap: 1, chunkTokens: 256 }, 'requests take turns where decodes share little');
  t.match(planOf(input(600, { runningCap: 4 }), FAT), { asStreams: false, runningCap: 4 }, 'honoured');
  t.match(planOf(smol(380)), { asStreams: false }, 'decodes that share weights are computed together');
});

t.test('the context of a request does not depend on how many run', async (t) => {
  for (const runningCap of [1, 2, 8, 32]) {
    t.equal(planOf(smol(900, { runningCap, layout: 'shared' })).contextTokens, 8192, `${runningCap} running`);
  }
});

t.test('the step has room for the chunk and a token of each running request', async (t) => {
  const { spec } = planOf(smol(8192, { chunkTokens: 100, runningCap: 5 }));
  t.equal(spec.batchTokens, 105);
  t.equal(spec.ubatchTokens, 105);
});

t.test('a GPU computes several short prompts in one step, a CPU one after the other', async (t) => {
  const gpu = (flags: Partial<PlanFlags>) => planOf(machineInput('discrete', 80 * GIB, 79 * GIB, SMOL, flags));
  for (const layout of ['private', 'shared'] as const) {
    const plan = gpu({ layout, contextTokens: 768, runningCap: 64 });
    t.match(plan, { layout, chunkTokens: 2048, spec: { batchTokens: 2112, ubatchTokens: 2112 } });
    t.match(plan.reasons.find(({ cap }) => cap === 'chunk')?.sentence, /no more speed/);
  }
  t.equal(gpu({ contextTokens: 768, runningCap: 1 }).chunkTokens, 512, 'one request is never longer than its context');
  t.equal(planOf(smol(8192, { contextTokens: 300, runningCap: 8 })).chunkTokens, 256);
});

t.test('a refusal says what binds, what would do and only knobs that help', async (t) => {
  const refusal = refusalOf(smol(600, { contextTokens: 100_000 }));
  t.match(refusal, { poolShort: true, chunkShort: false, binds: 'system' });
  t.same(
    refusal.knobs.map((knob) => knob.flag),
    ['--context-length'],
  );
  t.equal(refusal.knobs[0].value, String(refusal.largestContextTokens));
  const text = refusalText(refusal);
  for (const part of [
    /does not fit/,
    /limit − .* kv − .* = .* short/,
    /what binds/,
    /would do/,
    /try --context-length/,
  ]) {
    t.match(text, part);
  }
});

t.test('flags that contradict each other are refused as that', async (t) => {
  const refusal = refusalOf(smol(8192, { contextTokens: 4096, maxTotalTokens: 2048 }));
  t.match(refusal, { binds: 'flags', sufficientLimitBytes: null });
  t.match(refusal.sentence, /4096 .*2048/);
  t.ok(refusal.knobs.some((knob) => knob.flag === '--max-total-tokens'));
  const streams = refusalOf(
    smol(8192, { contextTokens: 4096, maxTotalTokens: 8192, runningCap: 4, layout: 'private' }),
  );
  t.equal(streams.binds, 'flags');
});

t.test('a fraction that binds is named, with one that would do', async (t) => {
  const refusal = refusalOf(smol(1000, { contextTokens: 8192, memFraction: 0.4 }));
  t.equal(refusal.binds, 'fraction');
  t.equal(refusal.fractionHint, 0.48);
  t.ok(refusal.knobs.some((knob) => knob.flag === '--mem-fraction-static' && knob.value === '0.48'));
});

t.test('a cgroup is the limit that counts, and the number that would do is a cgroup limit', async (t) => {
  const inGroup = (limitMib: number, usedMib: number): PlanInput => {
    const input = machineInput('host', 8192 * MIB, 7000 * MIB, FAT);
    const group = { cgroupLimitBytes: limitMib * MIB, cgroupUsedBytes: usedMib * MIB };
    const machine = readings({ systemTotalBytes: 8192 * MIB, systemAvailableBytes: 7000 * MIB, ...group });
    return { ...input, machine: { ...input.machine, readings: machine } };
  };
  const plan = planOf(inGroup(900, 180), FAT);
  t.equal(plan.arithmetic.headroom.binds, 'cgroup');
  t.ok(plan.cost.kvBytes + plan.cost.computeBytes + 72e6 + 180 * MIB <= 0.96 * 900 * MIB, 'stays under 97 %');
  const refusal = refusalOf(inGroup(300, 180), FAT);
  t.equal(refusal.binds, 'cgroup');
  const enough = Math.ceil((refusal.sufficientLimitBytes ?? 0) / MIB);
  t.equal(planContext(inGroup(enough, 180), exactCosts(FAT, 'host')).refused, false, `${enough} MiB do`);
  t.equal(planContext(inGroup(enough - 16, 180), exactCosts(FAT, 'host')).refused, true, 'and not much less');
});

t.test('beside a discrete card, host buffers must fit into RAM', async (t) => {
  const input = machineInput('discrete', 8192 * MIB, 8192 * MIB, SMOL);
  const poor = { ...input.machine.readings, systemAvailableBytes: 1000 };
  const plan = planContext({ ...input, machine: { ...input.machine, readings: poor } }, exactCosts(SMOL, 'discrete'));
  t.equal(plan.refused, true);
  t.equal(planContext(input, exactCosts(SMOL, 'discrete')).refused, false);
});

t.test('a pool cut short leaves no larger chunk by accident of rounding', async (t) => {
  const model = shape({
    layerCount: 5,
    embeddingLength: 256,
    feedForwardLength: 512,
    queryHeadCount: 4,
    kvHeads: [16],
    weightsBytes: 70e6,
  });
  const flags = { contextTokens: 2048, runningCap: 4, layout: 'shared' } as const;
  const chunks: number[] = [];
  for (let mib = 225; mib <= 300; mib++) {
    const plan = planContext(machineInput('host', mib * MIB, mib * MIB, model, flags), exactCosts(model, 'host'));
    if (!plan.refused) chunks.push(plan.chunkTokens);
  }
  t.ok(chunks.length > 40);
  t.same(
    chunks,
    [...chunks].sort((a, b) => a - b),
    'more memory, never a smaller chunk',
  );
});
