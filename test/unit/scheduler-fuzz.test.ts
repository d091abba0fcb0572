import fc from 'fast-check';
import t from 'tap';
import { OP_KIND } from '../../src/shared/batch-wire.js';
import type { KvLayout } from '../../src/shared/engine.js';
import { startWordsMax } from '../../src/shared/pipeline-buffers.js';
import type { DraftSource } from '../../src/shared/scheduler/draft-policy.js';
import type { Request } from '../../src/shared/scheduler/request.js';
import { STEP_STATUS } from '../../src/shared/step-output.js';
import { fakeCompletion } from '../../src/workers/fake-tokens.js';
import { LIMITS, SchedulerHarness } from '../support/scheduler-harness.js';

const CELL_BYTES = 100;
const STATE_BYTES = 2000;

/** A prompt of a few shared openings, so that prefixes meet, fork and repeat. */
const prompt = fc
  .tuple(
    fc.constantFrom(0, 1, 2),
    fc.integer({ min: 0, max: 150 }),
    fc.array(fc.integer({ min: 65, max: 90 }), { minLength: 1, maxLength: 40 }),
  )
  .map(([opening, length, rest]) => [...Array.from({ length }, (_, i) => 97 + ((i * (opening + 1)) % 26)), ...rest]);

/** Ends of messages: few of them, so that prompts with the same opening have the same. */
const boundaries = fc.constantFrom<number[]>([], [70], [70, 140], [100], [140]);
const within = (counts: number[], prompt: number[]) => counts.filter((count) => count <= prompt.length);

type Action =
  | {
      kind: 'submit';
      prompt: number[];
      boundaries: number[];
      maxTokens: number;
      priority: number;
      salt: number;
      cache: boolean;
    }
  /** The next turn of a conversation: an earlier prompt, its answer so far, and more. */
  | { kind: 'goOn'; which: number; boundaries: number[]; maxTokens: number }
  | { kind: 'cancel'; which: number }
  | { kind: 'budget'; bytes: number }
  | { kind: 'plan' }
  | { kind: 'run' };

const action: fc.Arbitrary<Action> = fc.oneof(
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('goOn' as const),
      which: fc.nat(20),
      boundaries,
      maxTokens: fc.integer({ min: 1, max: 30 }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('submit' as const),
      prompt,
      boundaries,
      maxTokens: fc.integer({ min: 1, max: 60 }),
      priority: fc.integer({ min: 0, max: 2 }),
      salt: fc.constantFrom(0, 0, 0, 7),
      cache: fc.constantFrom(true, true, false),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('cancel' as const), which: fc.nat(20) }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('budget' as const), bytes: fc.constantFrom(0, 30_000, 100_000) }),
  },
  { weight: 5, arbitrary: fc.constant({ kind: 'plan' as const }) },
  { weight: 5, arbitrary: fc.constant({ kind: 'run' as const }) },
);

/** Drafts now and then, of which some are right: what the fake model will say, with mistakes. */
class FuzzDrafts implements DraftSource {
  constructor(
    /** 0: none; 1: always as many as there may be. */
    private readonly share: number,
    private readonly ends: { endOfGenerationProbability: number },
  ) {}

  worthwhile(request: Request, most: number): number {
    const draw = noise(request.id, request.knownCount);
    return draw < this.share ? 1 + Math.floor((draw / this.share) * most) : 0;
  }

  drafts(request: Request, count: number): Int32Array {
    const prompt = request.tokens.subarray(0, request.promptCount);
    const answer = fakeCompletion(prompt, request.spec.maxTokens, this.ends);
    const from = request.knownCount - request.promptCount;
    return Int32Array.from({ length: count }, (_, i) => {
      const isRight = noise(request.id, from + i + 7) < 0.7;
      return isRight ? (answer[from + i] ?? 65) : 66;
    });
  }
}

/** A number from 0 to 1 that looks like chance. */
function noise(a: number, b: number): number {
  const mixed = Math.imul(Math.imul(a + 1, 0x9e3779b1) ^ (b + 1), 0x85ebca6b);
  return ((mixed ^ (mixed >>> 15)) >>> 0) / 2 ** 32;
}

const world = fc.record({
  layout: fc.constantFrom<KvLayout>('shared', 'private'),
  canTrim: fc.boolean(),
  sequences: fc.integer({ min: 1, max: 5 }),
  cells: fc.constantFrom(256, 512),
  chunkTokens: fc.constantFrom(16, 64),
  hostBytes: fc.constantFrom(0, 30_000, 1e9),
  failedCopies: fc.uniqueArray(fc.integer({ min: 1, max: 12 }), { maxLength: 4 }),
  failures: fc.uniqueArray(fc.integer({ min: 1, max: 60 }), { maxLength: 3 }),
  draftShare: fc.constantFrom(0, 0.6, 1),
  actions: fc.array(action, { minLength: 30, maxLength: 150, size: 'max' }),
});

t.test(
  'every request gets the tokens it would get alone, whatever runs, ends, fails or is taken from it',
  async (t) => {
    const seen = {
      preemptions: 0,
      evictions: 0,
      hits: 0,
      copies: 0,
      saves: 0,
      hostHits: 0,
      hostEvictions: 0,
      checkpoints: 0,
      checkpointHits: 0,
      failedCopies: 0,
      drafted: 0,
      accepted: 0,
      rejected: 0,
    };
    fc.assert(
      fc.property(world, (w) => {
        const limits = {
          ...LIMITS,
          layout: w.layout,
          canTrim: w.canTrim,
          sequences: w.sequences,
          runningCap: w.sequences,
          cells: w.cells,
          cellBytes: CELL_BYTES,
          stateBytes: w.canTrim ? 0 : STATE_BYTES,
          contextTokens: 256,
          chunkTokens: w.chunkTokens,
          batchTokens: 80,
          startWords: startWordsMax(256),
        };
        const ends = { endOfGenerationProbability: 0.03 };
        const fake = {
          ...ends,
          failSave: w.failedCopies.filter((call) => call % 2 === 0),
          failRestore: w.failedCopies.filter((call) => call % 2 === 1),
          // A step of the same request may fail twice, not three times: the third would rightly end it.
          failAtStep: w.failures.slice(0, 2).map((step) => ({ step, status: STEP_STATUS.failed })),
        };
        const harness = new SchedulerHarness(limits, fake, new FuzzDrafts(w.draftShare, ends));
        harness.scheduler.setHostPrefixBudget(w.hostBytes, 0);
        const submitted: { prompt: number[]; maxTokens: number }[] = [];
        const cancelled = new Set<number>();
        for (const a of w.actions) {
          if (a.kind === 'submit') {
            submitted.push(a);
            harness.submit(submitted.length, a.prompt, {
              boundaries: within(a.boundaries, a.prompt),
              priority: a.priority,
              cacheSalt: a.salt,
              usesPrefixCache: a.cache,
              params: { maxTokens: a.maxTokens },
            });
          } else if (a.kind === 'goOn' && submitted.length > 0) {
            const which = a.which % submitted.length;
            const prompt = [...submitted[which].prompt, ...harness.outcome(which + 1).tokens, 66, 67].slice(0, 190);
            submitted.push({ prompt, maxTokens: a.maxTokens });
            const boundaries = within(a.boundaries, prompt);
            harness.submit(submitted.length, prompt, { boundaries, params: { maxTokens: a.maxTokens } });
          } else if (a.kind === 'cancel' && submitted.length > 0) {
            const id = (a.which % submitted.length) + 1;
            if (harness.outcome(id).end === '') cancelled.add(id);
            harness.scheduler.cancel(id);
          } else if (a.kind === 'budget') {
            harness.scheduler.setHostPrefixBudget(a.bytes, harness.nowMs);
          } else if (a.kind === 'plan' && harness.recordsInFlight < 2) harness.plan();
          else if (a.kind === 'run') harness.run();
        }
        harness.drain();
        submitted.forEach(({ prompt, maxTokens }, i) => {
          const id = i + 1;
          const { tokens, end } = harness.outcome(id);
          const expected = fakeCompletion(prompt, maxTokens, ends);
          if (cancelled.has(id) && end === 'cancelled') {
            if (JSON.stringify(tokens) !== JSON.stringify(expected.slice(0, tokens.length)))
              throw new Error(`request ${id}: cancelled with ${tokens}`);
          } else {
            if (JSON.stringify(tokens) !== JSON.stringify(expected))
              throw new Error(`request ${id}: got ${tokens}, expected ${expected}`);
            if (end !== 'stop' && end !== 'length') throw new Error(`request ${id} ended as '${end}'`);
          }
        });
        if (harness.scheduler.activeCount !== 0) throw new Error('a request was left behind');
        const { used, cached } = harness.scheduler.cellCounts();
        if (used !== cached) throw new Error('cells are held by nobody');
        const { slots, heldBytes, budgetBytes } = harness.scheduler.hostPrefix;
        if (String(slots) !== String(harness.prefixes.slots))
          throw new Error(`saved are ${harness.prefixes.slots}, in the books ${slots}`);
        if (heldBytes > budgetBytes) throw new Error(`the host tier holds ${heldBytes} of ${budgetBytes} bytes`);
        const { counters } = harness.scheduler;
        seen.preemptions += counters.preemptions;
        seen.evictions += counters.evictions;
        seen.saves += counters.hostPrefixSaves;
        seen.hostHits += counters.hostPrefixHits;
        seen.hostEvictions += counters.hostPrefixEvictions;
        seen.checkpoints += w.canTrim ? 0 : counters.hostPrefixSaves;
        seen.checkpointHits += w.canTrim ? 0 : counters.hostPrefixHits;
        seen.failedCopies += harness.failedCopies;
        seen.drafted += counters.draftedTokens;
        seen.accepted += counters.acceptedDraftTokens;
        seen.rejected += counters.draftedTokens - counters.acceptedDraftTokens;
        seen.hits += counters.prefixHitTokens;
        seen.copies += harness.ops.filter(([kind]) => kind === OP_KIND.copy).length;
      }),
      { numRuns: 500 },
    );
    // A world in which nothing is ever taken away would prove little.
    for (const [what, count] of Object.entries(seen)) t.ok(count > 5, `${what}: ${count}`);
  },
);
