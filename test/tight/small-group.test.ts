import { fileURLToPath } from 'node:url';
import t from 'tap';
import type { Contestant } from '../../bench/tight/contestants.js';
import { findMemoryGroups } from '../../bench/tight/memory-group.js';
import type { PromptMix } from '../../bench/tight/prompt-mix.js';
import { runTrial, type TrialSettings } from '../../bench/tight/trial.js';
import { requireTestModel } from '../support/test-models.js';

const MIB = 2 ** 20;
/** The project's promise: the working set never comes nearer to the limit. */
const PEAK_SHARE_MAX = 0.97;
const MIX: PromptMix = { leastTokens: 500, mostTokens: 2000, outputTokens: 32, seed: 7 };

const place = findMemoryGroups();
/** Two busy cores compute some hundred prompt tokens a second; a hang still ends. */
const TIMEOUT_MS = 1_200_000;
const skip = 'reason' in place ? place.reason : false;
const options = { skip, timeout: TIMEOUT_MS };
t.setTimeout(2 * TIMEOUT_MS);

/** Plimsoll as it was compiled beside this test, without any tuning. */
const plimsoll: Contestant = {
  kind: 'plimsoll',
  flags: [],
  entry: fileURLToPath(new URL('../../src/main.js', import.meta.url)),
};

function settings(limitBytes: number, requests: number): TrialSettings {
  return { contestant: plimsoll, modelPath: requireTestModel('fat-kv'), limitBytes, clients: 4, requests, mix: MIX };
}

t.test(
  '20 requests with much KV in 900 MiB: nothing is killed, nothing fails, the line is kept',
  { skip },
  async (t) => {
    const trial = await runTrial(settings(900 * MIB, 20));
    t.equal(trial.startFailure, null);
    t.equal(trial.kills, 0);
    t.same(trial.load?.failures, []);
    t.equal(trial.load?.answered, 20);
    t.ok(trial.peakShare <= PEAK_SHARE_MAX, `${(trial.peakShare * 100).toFixed(1)} % of the limit`);
    t.ok(trial.peakShare > 0.6, 'the load is one that needs the memory');
    t.ok(trial.workingSet.samples > 20, 'the working set was watched');
  },
);

t.test('where nothing fits it refuses at start and names a limit that would do', options, async (t) => {
  const refused = await runTrial(settings(210 * MIB, 1));
  t.equal(refused.kills, 0);
  const message = refused.startFailure ?? '';
  t.match(message, /does not fit/);
  const named = /would do: a limit of ([\d.]+) MiB/.exec(message);
  if (named === null) throw new Error(`no limit is named: ${message}`);
  const enough = Math.ceil(Number(named[1])) * MIB;
  t.ok(enough < 500 * MIB, `${named[1]} MiB`);
  const short: PromptMix = { leastTokens: 100, mostTokens: 300, outputTokens: 8, seed: 7 };
  const served = await runTrial({ ...settings(enough, 4), mix: short });
  t.equal(served.startFailure, null, 'the named limit does');
  t.equal(served.kills, 0);
  t.equal(served.load?.answered, 4);
});
