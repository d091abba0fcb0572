import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createInterface, type Interface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { serves, wantsSupervisor } from '../../src/main/supervisor/supervise.js';

const PARENT = fileURLToPath(new URL('../support/supervise-child.js', import.meta.url));
const CHILD = fileURLToPath(new URL('../support/supervised-child.js', import.meta.url));
const MAIN = fileURLToPath(new URL('../../src/main.js', import.meta.url));

t.setTimeout(180_000);

interface Family {
  parent: ChildProcess;
  childPid: number;
  /** Lines of the child's stdout, to its end: when parent and child are both gone. */
  rest: Promise<string[]>;
  exited: Promise<unknown[]>;
  lines: Interface;
}

/** A supervisor in a group of its own, and its child that has said its process id. */
async function family(t: Test, act: string): Promise<Family> {
  const parent = spawn(process.execPath, [PARENT, CHILD, act], {
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true,
  });
  const exited = once(parent, 'exit');
  const lines = createInterface({ input: parent.stdout });
  const all: string[] = [];
  lines.on('line', (line) => all.push(line));
  const rest = once(lines, 'close').then(() => all.slice(1));
  while (all.length === 0) await once(lines, 'line');
  const childPid = Number(all[0].split(' ')[1]);
  t.teardown(() => {
    for (const pid of [parent.pid as number, childPid]) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch {}
    }
  });
  return { parent, childPid, rest, exited, lines };
}

for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  t.test(`${signal} stops the server by message, and its exit code is the supervisor's`, async (t) => {
    const { parent, rest, exited } = await family(t, 'hello+serve=7+say=up');
    parent.kill(signal);
    t.strictSame(await exited, [7, null]);
    t.strictSame(await rest, ['stopped by supervisor']);
  });
}

t.test('a supervisor that is killed takes its server with it', async (t) => {
  const { parent, rest } = await family(t, 'hello+serve+say=up');
  parent.kill('SIGKILL');
  t.strictSame(await rest, ['stopped by supervisor gone']);
});

t.test('a crash is met by another start in the whole of it', async (t) => {
  const { parent, childPid, rest, lines, exited } = await family(t, 'hello+serve+say=up');
  const again = once(lines, 'line');
  process.kill(childPid, 'SIGTRAP');
  const [line] = await again;
  t.not(line, `up ${childPid}`);
  parent.kill('SIGTERM');
  t.strictSame(await exited, [0, null]);
  t.strictSame(await rest, [line, 'stopped by supervisor']);
});

t.test('what is supervised', async (t) => {
  for (const words of ['', 'serve', '--port 1', 'serve --port 1']) {
    t.ok(wantsSupervisor(words === '' ? [] : words.split(' '), {}), words);
    t.ok(wantsSupervisor(words === '' ? [] : words.split(' '), { PLIMSOLL_NO_SUPERVISOR: '0' }), words);
    t.notOk(wantsSupervisor(words === '' ? [] : words.split(' '), { PLIMSOLL_NO_SUPERVISOR: '1' }), words);
  }
  for (const words of ['--no-supervisor', 'serve --no-supervisor', '--help', '-h', '--version', 'pull x', 'plam']) {
    t.notOk(wantsSupervisor(words.split(' '), {}), words);
    t.equal(serves(words.split(' ')), words.includes('--no-supervisor'), words);
  }
});

t.test('the supervisor loads only its own files and those of Node.js', async (t) => {
  const loaded = new Set<string>();
  const load = (url: string): void => {
    if (loaded.has(url)) return;
    loaded.add(url);
    for (const [, name] of readFileSync(fileURLToPath(url), 'utf8').matchAll(
      /^(?:import|export)\b[^;]*?from '(.+?)';/gm,
    )) {
      if (name.startsWith('node:')) continue;
      t.match(name, /^\./, `${url} imports ${name}`);
      load(new URL(name, url).href);
    }
  };
  load(new URL(`file://${MAIN}`).href);
  const outside = [...loaded].filter((url) => !url.includes('/src/main/supervisor/') && !url.endsWith('/src/main.js'));
  t.strictSame(
    outside.map((url) => url.split('/src/')[1]),
    ['main/cli/flag-values.js'],
  );
  t.ok(loaded.size > 5);
});
