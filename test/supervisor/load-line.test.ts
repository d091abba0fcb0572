import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { readLineFile, removeLineFile, writeLineFile } from '../../src/main/supervisor/line-file.js';
import { type LineRecord, loweredLine, WORKED_MS_PER_STEP } from '../../src/main/supervisor/line-record.js';
import { WHOLE_LINE } from '../../src/main/supervisor/line-view.js';
import { LoadLine } from '../../src/main/supervisor/load-line.js';
import type { Birth, LineTarget } from '../../src/main/supervisor/protocol.js';
import type { SupervisorLink } from '../../src/main/supervisor/supervisor-link.js';
import { type ConfigInput, parseConfig } from '../../src/shared/config.js';

interface Start {
  line: LoadLine;
  target: LineTarget | null;
  log: string[];
}

/** A start of the server on a model of one byte, with this cache folder. */
function start(t: Test, folder: string, settings: ConfigInput = {}, carried: Birth['carried'] = null): Start {
  const log: string[] = [];
  const say = (message: unknown) => {
    log.push(String(message));
  };
  let target: LineTarget | null = null;
  const link: SupervisorLink = {
    birth: { restarts: 0, carried },
    hello() {},
    line: (sent) => {
      target = sent;
    },
    ready() {},
    stopping() {},
    died() {},
    onStop: () => () => {},
  };
  const modelPath = join(folder, 'm.gguf');
  writeFileSync(modelPath, 'x');
  const line = new LoadLine({
    config: parseConfig(settings),
    modelPath,
    link,
    log: { warn: say, info: say },
    cacheDir: folder,
    intervalMs: 1,
  });
  t.teardown(() => line.close());
  return { line, target, log };
}

function lowered(target: LineTarget | null, changes: Partial<LineRecord> = {}): LineRecord {
  if (target === null) throw new Error('no target');
  const record = loweredLine(null, target.fraction, { because: 'aborted (SIGABRT)', atMs: 0 }, target.subject);
  return { ...record, ...changes };
}

t.test('nothing remembered: the whole limit, and a place for what comes', async (t) => {
  const { line, target, log } = start(t, t.testdir({}));
  t.equal(line.fraction, 1);
  t.strictSame(line.view(), WHOLE_LINE);
  t.match(target, {
    path: /load-line\/[0-9a-f]{32}\.json$/,
    fraction: 1,
    subject: { model: 'm.gguf', devices: 'auto' },
  });
  t.strictSame(log, []);
});

t.test('what is remembered is kept, said, and shown', async (t) => {
  const folder = t.testdir({});
  const path = start(t, folder).target?.path as string;
  writeLineFile(path, lowered(start(t, folder).target));
  const { line, target, log } = start(t, folder);
  t.equal(line.fraction, 0.9);
  t.equal(target?.fraction, 0.9);
  t.strictSame(line.view(), {
    fraction: 0.9,
    lowered_because: 'aborted (SIGABRT)',
    since: '1970-01-01T00:00:00.000Z',
  });
  t.match(log, [
    /^the line is lowered: 90 % of the memory limit since 1970.* \(aborted \(SIGABRT\)\); removing .*\.json/,
  ]);
  line.planned(0.95);
  t.match(line.view(), { fraction: 0.95 }, 'the line that the plan keeps, not the wish');
  t.match(log[1], /no plan fits under 90 % .* the line is at 95 %/);
});

t.test('another model size, device or share of layers has a line of its own', async (t) => {
  const folder = t.testdir({});
  const paths = [{}, { devices: ['cpu'] }, { gpuLayers: 3 }].map((settings) => start(t, folder, settings).target?.path);
  t.equal(new Set(paths).size, 3);
  t.equal(start(t, folder, { port: 1, contextTokens: 512 }).target?.path, paths[0], 'other settings do not matter');
});

t.test('an explicit share is the line, and says what it overrides', async (t) => {
  const folder = t.testdir({});
  const { target } = start(t, folder);
  writeLineFile(target?.path as string, lowered(target));
  const explicit = start(t, folder, { memoryFraction: 0.97 });
  t.equal(explicit.line.fraction, 1);
  t.strictSame(explicit.line.view(), WHOLE_LINE);
  t.equal(explicit.target, null, 'its death lowers nothing that would be kept');
  t.match(explicit.log, [/is not kept: --mem-fraction-static 0.97 is explicit/]);
});

t.test('what the supervisor carries wins where no file could be written', async (t) => {
  const folder = t.testdir({});
  const { target } = start(t, folder);
  const carried = { path: target?.path as string, record: lowered(target, { fraction: 0.81 }) };
  t.equal(start(t, folder, {}, carried).line.fraction, 0.81);
  t.equal(start(t, folder, {}, { ...carried, path: '/elsewhere' }).line.fraction, 1);
});

/** Watches for `calls` intervals, and no longer. */
function watched(line: LoadLine, stepsAt: (call: number) => number, calls: number): Promise<void> {
  return new Promise((resolve) => {
    // The watch keeps no process alive.
    const alive = setInterval(() => {}, 1000);
    let call = 0;
    line.watch(() => {
      if (call === calls) {
        clearInterval(alive);
        line.close();
        resolve();
      }
      return stepsAt(call++);
    });
  });
}

t.test('intervals with steps in them are work; idle ones are not', async (t) => {
  const folder = t.testdir({});
  const { target } = start(t, folder);
  const path = target?.path as string;
  writeLineFile(path, lowered(target));
  await watched(start(t, folder).line, () => 5, 4);
  t.match(readLineFile(path), { workedMs: 0 });
  await watched(start(t, folder).line, (call) => call, 4);
  t.match(readLineFile(path), { workedMs: 4, fraction: 0.9 });
});

t.test('work raises the line, and at the limit nothing is left', async (t) => {
  const folder = t.testdir({});
  const { target } = start(t, folder);
  const path = target?.path as string;
  writeLineFile(path, lowered(target, { fraction: 0.81, workedMs: WORKED_MS_PER_STEP - 1 }));
  const { line, log } = start(t, folder);
  await watched(line, (call) => call, 2);
  t.match(readLineFile(path), { fraction: 0.9 });
  t.match(log[1], /^the line held: from the next start on it is at 90 %/);
  t.equal(line.view().fraction, 0.81, 'this run keeps what its plan was made for');
  writeLineFile(path, lowered(target, { fraction: 0.95, workedMs: WORKED_MS_PER_STEP - 1 }));
  await watched(start(t, folder).line, (call) => call, 2);
  t.strictSame(readdirSync(join(path, '..')), []);
});

t.test('a file that was removed stays removed', async (t) => {
  const folder = t.testdir({});
  const { target } = start(t, folder);
  const path = target?.path as string;
  writeLineFile(path, lowered(target));
  const { line } = start(t, folder);
  removeLineFile(path);
  await watched(line, (call) => call, 3);
  t.equal(readLineFile(path), null);
});
