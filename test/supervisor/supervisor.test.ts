import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { readLineFile } from '../../src/main/supervisor/line-file.js';
import type { OomKills } from '../../src/main/supervisor/oom-kills.js';
import { Supervisor } from '../../src/main/supervisor/supervisor.js';
import { SupervisorLog } from '../../src/main/supervisor/supervisor-log.js';

const CHILD = fileURLToPath(new URL('../support/supervised-child.js', import.meta.url));
const NO_COUNTERS: OomKills = { cgroup: null, machine: null };

t.setTimeout(180_000);

interface Options {
  command?: string[];
  oomKills?: OomKills[];
  graceMs?: number;
  onSleep?: (supervisor: Supervisor) => void;
  onStart?: (supervisor: Supervisor, pid: number | undefined) => void;
}

interface Run {
  exitCode: number;
  starts: number;
  delaysMs: number[];
  log: string[];
}

/** Supervises `supervised-child` with these words; no pause is waited for. */
async function run(words: string[], options: Options = {}): Promise<Run> {
  const result: Run = { exitCode: -1, starts: 0, delaysMs: [], log: [] };
  const kills = [...(options.oomKills ?? [])];
  const supervisor = new Supervisor({
    command: options.command ?? [process.execPath, CHILD, ...words],
    log: new SupervisorLog(false, (line) => result.log.push(JSON.parse(line).msg)),
    oomKills: () => kills.shift() ?? NO_COUNTERS,
    limits: { graceMs: options.graceMs ?? 20_000, forcedMs: 20_000 },
    sleep: async (delayMs) => {
      result.delaysMs.push(delayMs);
      options.onSleep?.(supervisor);
    },
    onStart: (pid) => {
      result.starts++;
      options.onStart?.(supervisor, pid);
    },
  });
  result.exitCode = await supervisor.run();
  return result;
}

t.test('an end by itself is passed on', async (t) => {
  for (const code of [0, 1, 2, 130]) {
    t.match(await run([`exit=${code}`]), { exitCode: code, starts: 1, log: [] });
  }
  t.match(await run(['signal=SIGTERM']), { exitCode: 143, starts: 1, log: [] });
});

t.test('a crash is met by another start, after a growing pause', async (t) => {
  const { exitCode, starts, delaysMs, log } = await run(['signal=SIGABRT', 'signal=SIGSEGV', 'exit=134', 'exit=3']);
  t.match({ exitCode, starts, delaysMs }, { exitCode: 3, starts: 4, delaysMs: [500, 1000, 2000] });
  t.match(log, [
    'the server process ended: aborted (SIGABRT)',
    'starting it again in 0.5 s',
    'the server process ended: SIGSEGV',
    'starting it again in 1 s',
    'the server process ended: exit code 134',
    'starting it again in 2 s',
  ]);
});

t.test('it is not for ever', async (t) => {
  const never = await run(['signal=SIGILL']);
  t.match(never, { exitCode: 1, starts: 5 });
  t.equal(never.log.at(-1), 'giving up: it crashed 5 times in a row before it was ready; the last time it was SIGILL');
  const often = await run(['ready+signal=SIGKILL']);
  t.match(often, { exitCode: 1, starts: 5 });
  t.match(often.log.at(-1), /^giving up: it crashed 5 times within 10 minutes; .* killed \(SIGKILL\)$/);
});

t.test('a program that cannot be started is tried as often', async (t) => {
  const { exitCode, starts, log } = await run([], { command: ['/nonexistent/program'] });
  t.match({ exitCode, starts }, { exitCode: 1, starts: 5 });
  t.match(log[0], /not started .*ENOENT/);
});

t.test('what failed to start counts as a crash once it has been ready', async (t) => {
  t.match(await run(['ready+signal=SIGSEGV', 'exit=1', 'exit=0']), { exitCode: 0, starts: 3 });
  t.match(await run(['ready+exit=1', 'exit=0']), { exitCode: 0, starts: 2 });
  t.match(await run(['ready+signal=SIGTERM']), { exitCode: 143, starts: 1 });
});

t.test('dead workers are met by another start, at the same line', async (t) => {
  const path = join(t.testdir({}), 'line.json');
  const { starts, log } = await run([`line=${path}`, 'line+ready+died+exit=70', 'exit=70', 'exit=0']);
  t.equal(starts, 3);
  t.equal(log[0], 'the server process ended: its workers died');
  t.notOk(existsSync(path));
});

t.test('workers that died and hold up the end of their process are killed with it', async (t) => {
  const path = join(t.testdir({}), 'line.json');
  const { starts, log } = await run([`line=${path}`, 'line+ready+died+hang', 'exit=0'], { graceMs: 50 });
  t.equal(starts, 2);
  t.equal(log[0], 'the server process ended: its workers died');
  t.notOk(existsSync(path), 'our own SIGKILL says nothing of memory');
});

t.test('deaths of memory lower the line, one step each', async (t) => {
  const path = join(t.testdir({}), 'load-line', 'line.json');
  const { log } = await run([`line=${path}`, 'line+signal=SIGABRT', 'line+ready+signal=SIGKILL', 'exit=0']);
  t.match(readLineFile(path), {
    fraction: 0.81,
    because: 'killed (SIGKILL)',
    deaths: 2,
    model: 'm.gguf',
    devices: 'auto',
    machine: 'here',
  });
  t.equal(log[1], `the line is lowered to 90 % of the memory limit (${path})`);
});

t.test('other deaths leave it where it is', async (t) => {
  const path = join(t.testdir({}), 'line.json');
  await run([`line=${path}`, 'line+signal=SIGSEGV', 'line+ready+exit=1', 'exit=0']);
  t.notOk(existsSync(path));
});

t.test('a line that cannot be written is carried to the next process', async (t) => {
  const folder = t.testdir({ file: 'not a folder' });
  const births = join(folder, 'births');
  const { log } = await run([
    `line=${join(folder, 'file', 'line.json')}`,
    'line+signal=SIGABRT',
    'line+signal=SIGABRT',
    `birth=${births}+exit=0`,
  ]);
  t.match(JSON.parse(readFileSync(births, 'utf8')), {
    restarts: 2,
    carried: { record: { fraction: 0.81, deaths: 2 } },
  });
  t.match(log[2], /^the lower line is not remembered after this run: E/);
});

t.test('the OOM killer is named where a counter tells', async (t) => {
  const counted = async (before: OomKills, after: OomKills, act = 'signal=SIGKILL') =>
    (await run([act, 'exit=0'], { oomKills: [before, after] })).log[0];
  t.match(await counted({ cgroup: 1, machine: 7 }, { cgroup: 2, machine: 8 }), /OOM killer \(the cgroup counted it\)/);
  t.match(await counted({ cgroup: null, machine: 7 }, { cgroup: null, machine: 8 }), /OOM killer \(the machine/);
  t.match(await counted({ cgroup: 1, machine: 7 }, { cgroup: 1, machine: 8 }), /killed \(SIGKILL\)/);
  t.match(await counted(NO_COUNTERS, NO_COUNTERS), /killed \(SIGKILL\)/);
  t.match(await counted({ cgroup: 1, machine: 7 }, { cgroup: 2, machine: 8 }, 'signal=SIGSEGV'), /SIGSEGV/);
});

t.test('told to stop, it ends with the server and starts no other', async (t) => {
  const stop = (words: string[], options: Options = {}) =>
    run(words, { ...options, onStart: (supervisor) => supervisor.stop() });
  t.match(await stop(['hang']), { exitCode: 143, starts: 1, log: [] }, 'before it listens: by a signal');
  t.match(await stop(['deaf'], { graceMs: 0 }), { starts: 1, log: [] }, 'deaf: killed');
});

t.test('stopped while it waits: the next start is left out', async (t) => {
  const stopped = await run(['signal=SIGABRT', 'exit=5'], { onSleep: (supervisor) => supervisor.stop() });
  t.match(stopped, { exitCode: 0, starts: 1 });
});

t.test('a crash on the way to a wanted end is the end', async (t) => {
  t.match(await run(['ready+stopping+signal=SIGABRT']), { exitCode: 134, starts: 1, log: [] });
});

t.test('garbage in the place of a line is overwritten', async (t) => {
  const path = join(t.testdir({}), 'line.json');
  writeFileSync(path, '{"schema":1,"fraction":');
  await run([`line=${path}`, 'line+signal=SIGABRT', 'exit=0']);
  t.match(readLineFile(path), { fraction: 0.9, deaths: 1 });
});
