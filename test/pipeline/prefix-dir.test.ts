import { readdirSync, readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import type { ConfigInput } from '../../src/shared/config.js';
import type { FakeEngineOptions } from '../../src/workers/fake-options.js';
import { ask, startFakePipeline, textTokens } from '../support/fake-pipeline.js';

const SETTINGS = {
  contextTokens: 512,
  maxRunningRequests: 4,
  kvLayout: 'private',
  maxTotalTokens: 2048,
} as const;
/** A prompt token takes long enough that a copy is worth it. */
const SLOW = { deviceKind: 'cpu', perTokenDelayMicros: 100 } as const;
const CHATS = 8;
const prompt = (chat: number) => Array.from(textTokens(`chat ${String.fromCharCode(65 + chat)} `.repeat(25)));
const ONE = { maxTokens: 1, ignoreEos: true };

/** A folder for prefixes beside a model file of its own. */
function place(test: Tap.Test) {
  const folder = test.testdir({ 'fake.gguf': 'weights', prefixes: {} });
  const modelPath = path.join(folder, 'fake.gguf');
  const prefixDir = path.join(folder, 'prefixes');
  const lines: string[] = [];
  const start = (settings: ConfigInput = {}, fake = SLOW as Partial<FakeEngineOptions>) =>
    startFakePipeline(
      fake,
      { ...SETTINGS, prefixDir, ...settings },
      { modelPath, log: (level, message) => lines.push(`${level} ${message}`) },
    );
  const files = () => readdirSync(prefixDir).filter((name) => name.endsWith('.plimsoll-prefix'));
  return { modelPath, prefixDir, lines, start, files, fileOf: (name: string) => path.join(prefixDir, name) };
}

namespace Tap {
  export type Test = Pick<typeof t, 'testdir'>;
}

/** Gauges follow what happens within some milliseconds. */
async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise((resolve) => setTimeout(resolve, 5));
}

/** Asks for every chat once and shuts down. */
async function fill(start: () => ReturnType<typeof startFakePipeline>, chats = CHATS): Promise<void> {
  const pipeline = await start();
  for (let chat = 0; chat < chats; chat++) await ask(pipeline, prompt(chat), ONE);
  await pipeline.close(0);
}

t.test('after a restart conversations go on from the disk', async (t) => {
  const { start, files, fileOf } = place(t);
  await fill(start);
  t.equal(files().length, CHATS, 'what was evicted, and what was idle in cells');
  t.equal(statSync(fileOf(files()[0])).mode & 0o777, 0o600);
  const pipeline = await start();
  for (let chat = 0; chat < CHATS; chat++) {
    const turn = [...prompt(chat), 33];
    const { cachedTokens, tokens } = await ask(pipeline, turn, ONE);
    t.equal(cachedTokens, prompt(chat).length, `chat ${chat}`);
    t.equal(tokens.length, 1);
  }
  await until(() => pipeline.schedulerGauges().diskPrefixHits === CHATS);
  const gauges = pipeline.schedulerGauges();
  t.equal(gauges.diskPrefixHitTokens, CHATS * prompt(0).length);
  t.equal(gauges.diskPrefixErrors, 0);
  t.ok(gauges.diskPrefixBytes > 0 && gauges.diskPrefixBytes <= gauges.diskPrefixBoundBytes);
  await pipeline.close(0);
});

t.test(
  'what is idle is written without a shutdown, leaves host memory, and is there after an idle release',
  async (t) => {
    const { start } = place(t);
    const pipeline = await start({ idleReleaseMs: 2_500 }, { ...SLOW, perTokenDelayMicros: 30_000 });
    await ask(pipeline, prompt(1), ONE);
    const until = async (isSo: () => boolean) => {
      while (!isSo()) await new Promise((resolve) => setTimeout(resolve, 10));
    };
    await until(() => pipeline.schedulerGauges().diskPrefixSaves === 1);
    await until(() => pipeline.deviceGauges().hostPrefixBytes === 0);
    await until(() => pipeline.deviceGauges().kvBytes === 0);
    t.equal((await ask(pipeline, [...prompt(1), 33], ONE)).cachedTokens, prompt(1).length);
    await until(() => pipeline.schedulerGauges().diskPrefixHits === 1);
    await pipeline.close(0);
  },
);

t.test('prefixes of one salt are not those of another, before and after', async (t) => {
  const { start } = place(t);
  const first = await start();
  await ask(first, prompt(0), ONE, undefined, { cacheSalt: 7 });
  await first.close(0);
  const second = await start();
  t.equal((await ask(second, [...prompt(0), 33], ONE)).cachedTokens, 0);
  t.ok((await ask(second, [...prompt(0), 34], ONE, undefined, { cacheSalt: 7 })).cachedTokens > 0);
  await second.close(0);
});

t.test('a file that was damaged is computed, removed and counted', async (t) => {
  const { start, files, fileOf, lines } = place(t);
  await fill(start, 2);
  const [first, second] = files();
  const damaged = readFileSync(fileOf(first));
  damaged[damaged.length - 100] ^= 1;
  writeFileSync(fileOf(first), damaged);
  writeFileSync(fileOf(second), readFileSync(fileOf(second)).subarray(0, -1));
  const pipeline = await start();
  for (let chat = 0; chat < 2; chat++) {
    const { cachedTokens, reason } = await ask(pipeline, [...prompt(chat), 33], ONE);
    t.same([cachedTokens, reason], [0, 'length'], `chat ${chat}`);
  }
  await until(() => pipeline.schedulerGauges().diskPrefixErrors === 2);
  await pipeline.close(0);
  const again = await start();
  t.ok((await ask(again, [...prompt(0), 34], ONE)).cachedTokens > 0, 'what was computed is there');
  t.equal(again.schedulerGauges().diskPrefixErrors, 0);
  await again.close(0);
  t.match(lines.join('\n'), /checksum is wrong/);
  t.match(lines.join('\n'), /not as long as it should be/);
});

t.test('another model, engine setting or half-written file: removed; what is not ours stays', async (t) => {
  const { start, files, fileOf, modelPath } = place(t);
  await fill(start, 2);
  writeFileSync(fileOf('99.plimsoll-prefix.partial'), 'half');
  writeFileSync(fileOf('notes.txt'), 'mine');
  utimesSync(modelPath, 1, 1);
  const changed = await start();
  t.equal((await ask(changed, [...prompt(0), 33], ONE)).cachedTokens, 0);
  await changed.close(0);
  t.equal(files().length, 1, 'the one of now');
  t.notOk(readdirSync(path.dirname(fileOf('x'))).includes('99.plimsoll-prefix.partial'));
  t.equal(readFileSync(fileOf('notes.txt'), 'utf8'), 'mine');
  const quantized = await start({ kvType: 'q8_0' });
  t.equal((await ask(quantized, [...prompt(0), 33], ONE)).cachedTokens, 0);
  await quantized.close(0);
});

t.test('a second server leaves the folder alone', async (t) => {
  const { start, lines } = place(t);
  const first = await start();
  const second = await start();
  t.match(lines.join('\n'), /another server uses it/);
  t.equal((await ask(second, prompt(0), ONE)).reason, 'length');
  await Promise.all([first.close(0), second.close(0)]);
  const third = await start();
  t.equal(third.schedulerGauges().diskPrefixErrors, 0);
  await third.close(0);
});

t.test('a folder that cannot be used is said at once, with the flag', async (t) => {
  const { start, modelPath } = place(t);
  await t.rejects(start({ prefixDir: path.join(modelPath, 'below') }), {
    message: /--prefix-dir .*it is a file, or lies in one; name another folder, or leave --prefix-dir out/,
  });
});

t.test('the files keep to the size, from the start on', async (t) => {
  const { start, files, fileOf } = place(t);
  await fill(start);
  const bytes = () => files().reduce((sum, name) => sum + statSync(fileOf(name)).size, 0);
  const one = bytes() / CHATS;
  const writePad = (id: number) => {
    const whole = readFileSync(fileOf(files()[0]));
    writeFileSync(fileOf(`${id}.plimsoll-prefix`), whole);
  };
  const many = Math.ceil(2 ** 20 / one) + 20;
  for (let id = 1000; id < 1000 + many; id++) writePad(id);
  t.ok(bytes() > 2 ** 20);
  const pipeline = await start({ prefixDirBytes: 2 ** 20 });
  await until(() => pipeline.schedulerGauges().diskPrefixBoundBytes > 0);
  t.ok(bytes() <= 2 ** 20);
  await pipeline.close(0);
  t.ok(bytes() <= 2 ** 20);
});
