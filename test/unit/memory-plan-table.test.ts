import t from 'tap';
import { planJson, planTable } from '../../src/main/cli/plan-table.js';
import {
  AUTOMATIC_FLAGS,
  costModelOfProfile,
  inputOfProfile,
  planForProfile,
} from '../../src/shared/memory/plan-profile.js';
import { findProfile, PROFILES, readingsOfProfile } from '../../src/shared/memory/profiles.js';
import { whatWouldChange } from '../../src/shared/memory/what-changes.js';
import { GIB, shape } from './memory-machines.js';

const EIGHT_B = shape({
  name: 'an 8B model',
  layerCount: 32,
  embeddingLength: 4096,
  feedForwardLength: 14_336,
  queryHeadCount: 32,
  kvHeads: [8],
  keyLength: 128,
  valueLength: 128,
  vocabularySize: 128_256,
  trainContextTokens: 131_072,
  weightsBytes: 4.6e9,
});

function entry(name: string) {
  const profile = findProfile(name);
  if (profile === null) throw new Error(`no profile ${name}`);
  const result = planForProfile(profile, EIGHT_B, AUTOMATIC_FLAGS);
  const input = inputOfProfile(profile, EIGHT_B, AUTOMATIC_FLAGS);
  const changes = result.refused ? [] : whatWouldChange(input, costModelOfProfile(profile, EIGHT_B), result);
  return { device: name, model: EIGHT_B.name, result, changes, limitSource: profile.sourceNote };
}

t.test('profiles: Macs from 8 to 512 GB and NVIDIA cards, each with a source, none above its RAM', async (t) => {
  const sizes = new Set(PROFILES.filter((one) => one.memory === 'unified').map((one) => one.ramBytes / GIB));
  for (const size of [8, 16, 24, 32, 64, 96, 128, 192, 256, 512]) t.ok(sizes.has(size), `${size} GB`);
  t.equal(new Set(PROFILES.map((one) => one.name)).size, PROFILES.length, 'names are unique');
  for (const profile of PROFILES) {
    const share = profile.limitBytes / profile.ramBytes;
    t.ok(profile.memory === 'discrete' || (share > 0.6 && share < 0.94), `${profile.name}: ${share.toFixed(2)} of RAM`);
    t.ok(profile.sourceNote.length > 10 && profile.highestLimitBytes >= profile.limitBytes, profile.name);
    t.ok(readingsOfProfile(profile).deviceFreeBytes > 0, profile.name);
  }
  t.equal(findProfile('M4-Pro-24GB')?.ramBytes, 24 * GIB, 'names in any case');
  t.equal(findProfile('vax-11'), null);
});

t.test('a larger machine of a kind never gets less', async (t) => {
  let last = 0;
  for (const name of ['m1-8gb', 'm1-16gb', 'm4-pro-24gb', 'm4-pro-48gb', 'm4-max-128gb', 'm3-ultra-512gb']) {
    const { result } = entry(name);
    if (result.refused) throw new Error(`${name} was refused`);
    t.ok(result.contextTokens >= last, `${name}: ${result.contextTokens}`);
    last = result.contextTokens;
  }
});

t.test('the table has a row a machine, and says what would change it', async (t) => {
  const text = planTable([entry('m4-pro-24gb'), entry('rtx-3090')]);
  const lines = text.split('\n');
  t.match(lines[0], /^device +layout +running +context +pool +chunk +weights +kv +compute +free$/);
  t.match(lines[2], /^m4-pro-24gb +shared +16 +\d+ /);
  t.match(text, /what would change it: --context-length \d+/);
  t.match(text, /GiB limit − .* kv − .* = .* free/);
});

t.test('a machine that is too small is a row too, with its refusal', async (t) => {
  const large = shape({ ...EIGHT_B, weightsBytes: 17e9, kvHeads: [8] });
  const profile = findProfile('m1-16gb');
  if (profile === null) throw new Error('no profile');
  const result = planForProfile(profile, large, AUTOMATIC_FLAGS);
  const text = planTable([{ device: profile.name, model: 'large', result, changes: [], limitSource: 'test' }]);
  t.match(text, /m1-16gb +does not fit +–/);
  t.match(text, /would do: a limit of/);
});

t.test('what a change promises is what planning with it gives', async (t) => {
  const one = entry('m4-pro-24gb');
  const longest = one.changes.find((knob) => knob.flag === '--context-length');
  const profile = findProfile('m4-pro-24gb');
  if (longest === undefined || profile === null) throw new Error('no longest context');
  const flags = { ...AUTOMATIC_FLAGS, contextTokens: Number(longest.value) };
  t.equal(planForProfile(profile, EIGHT_B, flags).refused, false);
});

t.test('JSON has the same numbers under stable names', async (t) => {
  const [fits] = JSON.parse(planJson([entry('h200')]));
  t.match(fits, { device: 'h200', fits: true, layout: 'shared', costSource: 'analytic' });
  for (const key of [
    'runningCap',
    'contextTokens',
    'poolTokens',
    'chunkTokens',
    'kvBytes',
    'computeBytes',
    'weightsBytes',
  ]) {
    t.type(fits[key], 'number', key);
  }
  t.ok(fits.reasons.length >= 4 && fits.ledger.length >= 4);
});
