/** Conversations that come back from the disk after a restart answer as if they had been computed whole. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { DirectDecode } from '../support/direct-decode.js';
import { EXACT } from '../support/greedy-check.js';
import { makePrompts } from '../support/prompts.js';
import { complete, startRealPipeline } from '../support/real-pipeline.js';

t.setTimeout(300_000);

const MODEL = 'smollm2-q4_0';
const OUTPUT = { maxTokens: 8, ignoreEos: true };
const PROMPT_TOKENS = 300;
const CHATS = 3;

const direct = new DirectDecode(MODEL);
t.teardown(() => direct.close());
const chats = makePrompts(direct.vocabulary, CHATS, PROMPT_TOKENS);

/** Gauges follow what happens within some milliseconds. */
async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise((resolve) => setTimeout(resolve, 5));
}

for (const kvLayout of ['private', 'shared'] as const) {
  t.test(`${kvLayout}: a restart, then one damaged file`, async (t) => {
    const prefixDir = t.testdir();
    const start = () =>
      startRealPipeline(MODEL, {
        ...EXACT,
        kvLayout,
        contextTokens: 512,
        maxRunningRequests: 2,
        maxTotalTokens: kvLayout === 'private' ? 1024 : 512,
        prefixDir,
      });
    const turns = chats.map((chat) => [...chat]);
    const first = await start();
    for (const turn of turns) turn.push(...(await complete(first, turn, OUTPUT, {})).tokens);
    await first.close(0);

    const second = await start();
    direct.createContext(second.ready.ladder[0].spec);
    for (const [i, turn] of turns.entries()) {
      const known = turn.length - 1;
      turn.push(...chats[(i + 1) % CHATS].slice(1, 11));
      const { tokens, cachedTokens } = await complete(second, turn, OUTPUT, {});
      t.equal(cachedTokens, known, `chat ${i}: all that it had`);
      t.same(tokens, direct.generate(turn, tokens.length, { sampling: { ignoreEos: true } }), `chat ${i}: its answer`);
    }
    await until(() => second.schedulerGauges().diskPrefixHits === CHATS);
    const { diskPrefixHitTokens, diskPrefixErrors } = second.schedulerGauges();
    t.ok(diskPrefixHitTokens >= CHATS * PROMPT_TOKENS);
    t.equal(diskPrefixErrors, 0);
    await second.close(0);

    for (const name of readdirSync(prefixDir).filter((file) => file.endsWith('.plimsoll-prefix'))) {
      const bytes = readFileSync(path.join(prefixDir, name));
      bytes[bytes.length >> 1] ^= 0x40;
      writeFileSync(path.join(prefixDir, name), bytes);
    }
    const third = await start();
    const { tokens, cachedTokens } = await complete(third, turns[0], OUTPUT, {});
    t.equal(cachedTokens, 0);
    t.same(tokens, direct.generate(turns[0], tokens.length, { sampling: { ignoreEos: true } }));
    await until(() => third.schedulerGauges().diskPrefixErrors === 1);
    await third.close(0);
  });
}
