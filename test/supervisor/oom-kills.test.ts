import t from 'tap';
import { readOomKills } from '../../src/main/supervisor/oom-kills.js';

const EVENTS = 'low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n';
const CONTROL = 'oom_kill_disable 0\nunder_oom 0\noom_kill 4\n';
const VMSTAT = 'nr_free_pages 1\noom_kill 9\ndrop_pagecache 0\n';

t.test('cgroup v2, by its path and as a container sees it', async (t) => {
  const proc = { self: { cgroup: '0::/user/app\n' }, vmstat: VMSTAT };
  const byPath = t.testdir({ proc, sys: { fs: { cgroup: { user: { app: { 'memory.events': EVENTS } } } } } });
  t.strictSame(readOomKills(byPath), { cgroup: 2, machine: 9 });
  const container = t.testdir({ proc, sys: { fs: { cgroup: { 'memory.events': EVENTS } } } });
  t.strictSame(readOomKills(container), { cgroup: 2, machine: 9 });
});

t.test('cgroup v1, also beside an empty v2', async (t) => {
  const cgroup = '5:cpu,cpuacct:/\n4:memory:/jobs/a:b\n0::/\n';
  const memory = { jobs: { 'a:b': { 'memory.oom_control': CONTROL } } };
  const root = t.testdir({ proc: { self: { cgroup }, vmstat: VMSTAT }, sys: { fs: { cgroup: { memory } } } });
  t.strictSame(readOomKills(root), { cgroup: 4, machine: 9 });
});

t.test('without counters there is nothing to say', async (t) => {
  t.strictSame(readOomKills(t.testdir({})), { cgroup: null, machine: null });
  const old = t.testdir({ proc: { self: { cgroup: '0::/\n' }, vmstat: 'nr_free_pages 1\n' } });
  t.strictSame(readOomKills(old), { cgroup: null, machine: null });
});
