import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import t, { type Test } from 'tap';
import { loadNativeAddon } from '../../src/shared/native-addon.js';

const { hostReadings } = loadNativeAddon().addon;
const GiB = 1024 ** 3;
const MiB = 1024 ** 2;
const onlyLinux = process.platform === 'linux' ? false : 'fake trees of /proc are for Linux';

type Tree = Record<string, string>;

/** A machine with 16 GiB, 9 of them available, and no control groups. */
const machine: Tree = {
  'proc/meminfo': `MemTotal:       ${16 * 1024 ** 2} kB\nMemFree:  1024 kB\nMemAvailable:   ${9 * 1024 ** 2} kB\nBuffers: 12 kB\n`,
  'proc/self/status':
    'Name:\tnode\nVmRSS:\t  999999 kB\nRssAnon:\t    2048 kB\nRssFile:\t   70000 kB\nRssShmem:\t     512 kB\nVmSwap:\t  256 kB\n',
};

/** Version 2, mounted whole: this process is in /a/b. */
const inVersion2: Tree = {
  ...machine,
  'proc/self/cgroup': '0::/a/b\n',
  'proc/self/mountinfo': '31 23 0:28 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate\n',
};

/** Version 1 beside an empty version 2 (as systemd's hybrid mode has it): the memory controller is in /a/b. */
const inVersion1: Tree = {
  ...machine,
  'proc/self/cgroup': '9:name=systemd:/s\n4:memory:/a/b\n1:cpu,cpuacct:/c\n0::/a/b\n',
  'proc/self/mountinfo': [
    '32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct',
    '35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory',
    '41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw',
    '',
  ].join('\n'),
};

const version1NoLimit = '9223372036854771712\n';

function group2(path: string, files: Tree): Tree {
  return Object.fromEntries(
    Object.entries(files).map(([name, text]) => [join('sys/fs/cgroup', path, `memory.${name}`), text]),
  );
}

function group1(path: string, files: Tree): Tree {
  return group2(join('memory', path), files);
}

function readTree(test: Test, tree: Tree) {
  const root = mkdtempSync(join(tmpdir(), 'plimsoll-readings-'));
  test.teardown(() => rmSync(root, { recursive: true, force: true }));
  for (const [path, text] of Object.entries(tree)) {
    mkdirSync(join(root, dirname(path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  return hostReadings(root);
}

function cgroupOf(test: Test, tree: Tree): [limit: number, used: number, reclaimable: number] {
  const readings = readTree(test, tree);
  return [readings.cgroupLimitBytes, readings.cgroupUsedBytes, readings.cgroupReclaimableBytes];
}

t.test('this machine', async (t) => {
  const readings = hostReadings();
  t.ok(readings.systemTotalBytes > 256 * MiB);
  t.ok(readings.systemAvailableBytes > 0);
  t.ok(readings.systemAvailableBytes < readings.systemTotalBytes);
  t.ok(readings.processFootprintBytes > 4 * MiB, 'Node.js alone has 8');
  t.ok(readings.processFootprintBytes < readings.systemTotalBytes);
  t.ok([0, 1, 2].includes(readings.pressureLevel));
});

t.test('the footprint follows what this process takes', async (t) => {
  const before = hostReadings().processFootprintBytes;
  const taken = Buffer.alloc(64 * MiB, 1);
  const grown = hostReadings().processFootprintBytes - before;
  t.ok(grown > 48 * MiB && grown < 96 * MiB, `${grown} bytes for a buffer of ${taken.length}`);
});

t.test('without control groups', { skip: onlyLinux }, async (t) => {
  t.match(readTree(t, machine), {
    systemTotalBytes: 16 * GiB,
    systemAvailableBytes: 9 * GiB,
    cgroupLimitBytes: 0,
    cgroupUsedBytes: 0,
    cgroupReclaimableBytes: 0,
    processFootprintBytes: (2048 + 512 + 256) * 1024,
    pressureLevel: 0,
    gpuWiredLimitBytes: 0,
  });
});

t.test('a kernel without MemAvailable: free memory alone', { skip: onlyLinux }, async (t) => {
  const readings = readTree(t, { 'proc/meminfo': 'MemTotal: 4096 kB\nMemFree: 1024 kB\nCached: 2048 kB\n' });
  t.equal(readings.systemAvailableBytes, MiB);
  t.equal(readings.processFootprintBytes, 0);
});

t.test('no total memory is an error', { skip: onlyLinux }, async (t) => {
  t.throws(() => readTree(t, {}));
  t.throws(() => readTree(t, { 'proc/meminfo': 'MemTotal: lots\n' }));
  t.throws(() => readTree(t, { 'proc/meminfo': '' }));
});

t.test('version 2', { skip: onlyLinux }, async (t) => {
  t.test('own limit', async (t) => {
    const own = group2('a/b', { max: `${2 * GiB}\n`, high: 'max\n', current: `${GiB}\n` });
    t.strictSame(cgroupOf(t, { ...inVersion2, ...own }), [2 * GiB, GiB, 0]);
  });

  t.test('no limit anywhere, and no memory files at all', async (t) => {
    const none = {
      ...group2('a/b', { max: 'max\n', high: 'max\n', current: '5\n' }),
      ...group2('a', { max: 'max\n' }),
    };
    t.strictSame(cgroupOf(t, { ...inVersion2, ...none }), [0, 0, 0]);
    t.strictSame(cgroupOf(t, inVersion2), [0, 0, 0]);
  });

  t.test('the smallest of nested limits', async (t) => {
    const nested = {
      ...group2('a/b', { max: `${4 * GiB}\n`, current: `${GiB}\n` }),
      ...group2('a', { max: `${3 * GiB}\n`, current: `${GiB}\n` }),
    };
    t.strictSame(cgroupOf(t, { ...inVersion2, ...nested }), [3 * GiB, GiB, 0]);
  });

  t.test('a larger limit above that others have nearly used up leaves less room', async (t) => {
    const nested = {
      ...group2('a/b', { max: `${4 * GiB}\n`, current: `${GiB}\n` }),
      ...group2('a', { max: `${8 * GiB}\n`, current: `${7 * GiB}\n` }),
      ...group2('', { stat: 'anon 5\n' }),
    };
    t.strictSame(cgroupOf(t, { ...inVersion2, ...nested }), [8 * GiB, 7 * GiB, 0]);
  });

  t.test('memory.high below memory.max', async (t) => {
    const own = group2('a/b', { max: `${4 * GiB}\n`, high: `${3 * GiB}\n`, current: `${GiB}\n` });
    t.strictSame(cgroupOf(t, { ...inVersion2, ...own }), [3 * GiB, GiB, 0]);
  });

  t.test('reclaimable is clean file cache', async (t) => {
    const withStat = (stat: string) => {
      const files = { max: `${4 * GiB}\n`, current: `${2 * GiB}\n`, stat };
      return cgroupOf(t, { ...inVersion2, ...group2('a/b', files) })[2];
    };
    const mib = (count: number) => count * MiB;
    const lists = `anon ${mib(7)}\nactive_file ${mib(300)}\ninactive_file ${mib(500)}\n`;
    t.equal(withStat(lists), mib(800));
    t.equal(withStat(`${lists}file_mapped ${mib(200)}\nfile_dirty ${mib(30)}\nfile_writeback ${mib(20)}\n`), mib(750));
    t.equal(withStat(`${lists}file_dirty ${mib(900)}\n`), 0, 'never below zero');
    t.equal(withStat(`inactive_file ${mib(4000)}\n`), 2 * GiB, 'never more than is used');
    t.equal(withStat('inactive_file\nactive_file -5\nfile_dirty none\n'), 0, 'garbage counts as nothing');
    t.equal(withStat(`active_files ${mib(9)}\n${lists}`), mib(800), 'a longer name is another one');
  });

  t.test('garbage in the limit is no limit; a limit of zero is one', async (t) => {
    for (const max of ['', 'hello\n', '-1\n', `${version1NoLimit}`]) {
      t.strictSame(cgroupOf(t, { ...inVersion2, ...group2('a/b', { max, current: '5\n' }) }), [0, 0, 0], `"${max}"`);
    }
    t.strictSame(cgroupOf(t, { ...inVersion2, ...group2('a/b', { max: '0\n', current: '5\n' }) }), [1, 5, 0]);
  });

  t.test('garbage in the lists of groups and mounts', async (t) => {
    const own = group2('a/b', { max: `${GiB}\n`, current: '5\n' });
    for (const list of ['', '0\n', '0:\n', '::::\n', 'memory\n', '0::', '\n\n\n']) {
      t.strictSame(cgroupOf(t, { ...inVersion2, ...own, 'proc/self/cgroup': list })[0], 0, JSON.stringify(list));
    }
    for (const list of ['', 'a b c\n', '- - - -\n', '1 2 3 4 5 6 - cgroup2\n', '\\04 \\\n']) {
      t.strictSame(cgroupOf(t, { ...inVersion2, ...own, 'proc/self/mountinfo': list })[0], 0, JSON.stringify(list));
    }
  });

  t.test('in a container the mount point is the group', async (t) => {
    const own = group2('', { max: `${2 * GiB}\n`, current: `${GiB}\n` });
    const hostPath = '/system.slice/docker-77.scope';
    const mountOf = (root: string) => `31 23 0:28 ${root} /sys/fs/cgroup ro - cgroup2 cgroup rw\n`;
    for (const [path, root] of [
      ['/', '/'],
      [hostPath, hostPath],
      [hostPath, '/'],
      ['/../../elsewhere', '/'],
      ['/', '/..'],
      [`${hostPath}-not`, hostPath],
    ]) {
      const tree = { ...inVersion2, ...own, 'proc/self/cgroup': `0::${path}\n`, 'proc/self/mountinfo': mountOf(root) };
      t.strictSame(cgroupOf(t, tree), [2 * GiB, GiB, 0], `${path} under a mount of ${root}`);
    }
  });

  t.test('a path that leaves the mount is not followed', async (t) => {
    const tree = {
      ...inVersion2,
      ...group2('', { max: `${2 * GiB}\n`, current: `${GiB}\n` }),
      'proc/self/cgroup': '0::/../../elsewhere\n',
      'sys/elsewhere/memory.max': `${MiB}\n`,
    };
    t.strictSame(cgroupOf(t, tree), [2 * GiB, GiB, 0]);
  });

  t.test('a group below a bind-mounted one', async (t) => {
    const tree = {
      ...inVersion2,
      ...group2('inner', { max: `${GiB}\n`, current: '5\n' }),
      'proc/self/cgroup': '0::/pod/inner\n',
      'proc/self/mountinfo': '31 23 0:28 /pod /sys/fs/cgroup ro - cgroup2 cgroup rw\n',
    };
    t.strictSame(cgroupOf(t, tree), [GiB, 5, 0]);
  });

  t.test('a mount point with a blank in its name', async (t) => {
    const tree = {
      ...inVersion2,
      'proc/self/mountinfo': '31 23 0:28 / /my\\040groups rw - cgroup2 cgroup2 rw\n',
      'my groups/a/b/memory.max': `${GiB}\n`,
      'my groups/a/b/memory.current': '7\n',
    };
    t.strictSame(cgroupOf(t, tree), [GiB, 7, 0]);
  });

  t.test('deeper than any real tree: it ends', async (t) => {
    const path = Array.from({ length: 60 }, (_, i) => `g${i}`).join('/');
    const tree = {
      ...inVersion2,
      ...group2(path, { max: `${GiB}\n`, current: '7\n' }),
      'proc/self/cgroup': `0::/${path}\n`,
    };
    t.strictSame(cgroupOf(t, tree), [GiB, 7, 0]);
  });
});

t.test('version 1', { skip: onlyLinux }, async (t) => {
  t.test('own limit, with file cache of the whole subtree', async (t) => {
    const own = group1('a/b', {
      limit_in_bytes: `${2 * GiB}\n`,
      usage_in_bytes: `${GiB}\n`,
      stat: `inactive_file 1\ntotal_inactive_file ${300 * MiB}\ntotal_active_file ${200 * MiB}\ntotal_dirty ${100 * MiB}\n`,
    });
    t.strictSame(cgroupOf(t, { ...inVersion1, ...own }), [2 * GiB, GiB, 400 * MiB]);
  });

  t.test('the number that means no limit', async (t) => {
    const own = group1('a/b', { limit_in_bytes: version1NoLimit, usage_in_bytes: '5\n' });
    t.strictSame(cgroupOf(t, { ...inVersion1, ...own }), [0, 0, 0]);
  });

  t.test('a limit above', async (t) => {
    const nested = {
      ...group1('a/b', { limit_in_bytes: version1NoLimit, usage_in_bytes: '5\n' }),
      ...group1('', { limit_in_bytes: `${GiB}\n`, usage_in_bytes: '50\n' }),
    };
    t.strictSame(cgroupOf(t, { ...inVersion1, ...nested }), [GiB, 50, 0]);
  });

  t.test('a limit above that a container cannot see, told by its own statistics', async (t) => {
    const own = group1('', {
      limit_in_bytes: version1NoLimit,
      usage_in_bytes: `${MiB}\n`,
      stat: `hierarchical_memory_limit ${GiB}\ntotal_inactive_file 0\n`,
    });
    const tree = { ...inVersion1, ...own, 'proc/self/cgroup': '4:cpuset,memory:/docker/77\n' };
    t.strictSame(cgroupOf(t, tree), [GiB, MiB, 0]);
  });

  t.test('a limit in the version 2 tree beside it is not ours', async (t) => {
    const tree = { ...inVersion1, 'sys/fs/cgroup/unified/a/b/memory.max': `${MiB}\n` };
    t.strictSame(cgroupOf(t, tree), [0, 0, 0]);
  });
});

t.test('pressure', { skip: onlyLinux }, async (t) => {
  const text = (some: string, full: string) =>
    `some avg10=${some} avg60=99.00 avg300=99.00 total=1\nfull avg10=${full} avg60=99.00 avg300=99.00 total=1\n`;
  const level = (tree: Tree) => readTree(t, tree).pressureLevel;
  const system = (some: string, full: string) => level({ ...machine, 'proc/pressure/memory': text(some, full) });
  t.equal(system('0.00', '0.00'), 0);
  t.equal(system('9.99', '9.99'), 0);
  t.equal(system('10.00', '0.00'), 1);
  t.equal(system('39.99', '14.99'), 1);
  t.equal(system('40.00', '0.00'), 2);
  t.equal(system('20.00', '15.00'), 2);
  t.equal(level({ ...machine, 'proc/pressure/memory': 'garbage\nsome avg10=\n' }), 0);
  const group = group2('a/b', { pressure: text('50.00', '0.00') });
  t.equal(level({ ...inVersion2, ...group, 'proc/pressure/memory': text('0.00', '0.00') }), 2, 'our own group counts');
});
