import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { type Check, checksOf, NODE_MIN } from '../../src/main/cli/doctor-checks.js';
import { cpuQuotaCores } from '../../src/main/cli/doctor-cpu-quota.js';
import { engineFacts } from '../../src/main/cli/doctor-engine-facts.js';
import type { DoctorFacts, EngineFacts } from '../../src/main/cli/doctor-facts.js';
import { serverFacts, storageFacts, systemFacts } from '../../src/main/cli/doctor-system-facts.js';
import { canServe, doctorJson, doctorText } from '../../src/main/cli/doctor-text.js';
import { parseCli } from '../../src/main/cli/parse.js';
import { packageRoot } from '../../src/main/package-root.js';
import type { DeviceInfo } from '../../src/shared/engine.js';

const GIB = 2 ** 30;
type LoadedEngine = Extract<EngineFacts, { problem: null }>;

function cpu(name = 'CPU'): DeviceInfo {
  return { name, description: 'a processor', kind: 'cpu', totalBytes: 16 * GIB, freeBytes: 16 * GIB };
}

const ENGINE: LoadedEngine = {
  problem: null,
  folder: '/opt/engine',
  version: '0.4.0',
  devices: [cpu()],
  readings: {
    deviceTotalBytes: 0,
    deviceFreeBytes: 0,
    systemTotalBytes: 16 * GIB,
    systemAvailableBytes: 12 * GIB,
    cgroupLimitBytes: 0,
    cgroupUsedBytes: 0,
    cgroupReclaimableBytes: 0,
    processFootprintBytes: 0,
    pressureLevel: 0,
  },
  gpuWiredLimitBytes: 0,
};

/** A machine with nothing wrong. */
function healthy(): DoctorFacts {
  return {
    system: {
      nodeVersion: '22.1.0',
      platform: 'linux-x64',
      release: 'Linux 6.1',
      cpuModel: 'a processor',
      cores: 4,
      cpuQuotaCores: null,
      openFilesMax: 20_000,
      hugePages: 'madvise',
      hasNvidiaDriver: false,
    },
    engine: ENGINE,
    devices: [],
    storage: { cacheFolder: '/c', problem: null, freeBytes: 50e9 },
    model: {
      name: 'm',
      path: '/c/m.gguf',
      weightsBytes: GIB,
      downloadBytes: null,
      isOffline: false,
      problem: null,
      fit: { fits: true, sentence: 'room for 8 requests' },
      loweredLine: null,
    },
    server: { place: '127.0.0.1:30000', problem: null },
  };
}

function found(facts: DoctorFacts, name: string): Check | undefined {
  return checksOf(facts).find((check) => check.name === name);
}

t.test('a healthy machine: nothing to say, and it can serve', async (t) => {
  const checks = checksOf(healthy());
  t.strictSame(
    checks.filter(({ status }) => status !== 'ok'),
    [],
  );
  t.ok(checks.every(({ advice }) => advice === null));
  t.match(doctorText(checks), /^System\n {2}✓ Node\.js +22\.1\.0\n[\s\S]*\n\nThis machine can serve\.\n$/);
});

/** What is changed, the check that finds it, how bad it is, and its words. */
const WRONGS: Array<[change: (facts: DoctorFacts) => void, name: string, status: string, words: RegExp]> = [
  [({ system }) => (system.nodeVersion = '20.18.3'), 'Node.js', 'problem', /install 20\.19 or newer/],
  [({ system }) => (system.platform = 'win32-x64'), 'platform', 'problem', /WSL/],
  [({ system }) => (system.cpuQuotaCores = 1.5), 'CPU quota', 'warning', /1\.5 of 4 processors.*--threads 1:/],
  [({ system }) => (system.openFilesMax = 256), 'open files', 'warning', /256.*ulimit -n 4096/],
  [({ system }) => (system.hasNvidiaDriver = true), 'NVIDIA GPU', 'warning', /make engine-cuda/],
  [({ system }) => (system.platform = 'darwin-arm64'), 'Metal', 'warning', /cannot use it/],
  [(facts) => (facts.engine = { problem: 'no libllama' }), 'llama.cpp', 'problem', /no libllama.*make build/],
  [(facts) => (facts.devices = ['CUDA7']), 'device CUDA7', 'problem', /is not there.*takes CPU/],
  [
    (facts) => (facts.engine = { ...ENGINE, readings: { ...ENGINE.readings, pressureLevel: 2 } }),
    'pressure',
    'warning',
    /critical/,
  ],
  [({ storage }) => (storage.problem = '/c cannot be written (EROFS)'), 'cache folder', 'warning', /no model/],
  [({ storage }) => (storage.freeBytes = 1e8), 'disk', 'warning', /100\.0 MB free.*PLIMSOLL_CACHE_DIR/],
  [({ model }) => (model.problem = 'there is no model file x'), 'model', 'problem', /no model file x/],
  [
    ({ model }) => (model.fit = { fits: false, sentence: 'the weights do not fit' }),
    'fits',
    'problem',
    /do not fit.*plimsoll plan/,
  ],
  [({ model }) => (model.loweredLine = 'the line is lowered: 90 %'), 'load line', 'warning', /90 %/],
  [({ server }) => (server.problem = '127.0.0.1:30000 is in use'), 'port', 'problem', /in use/],
];

t.test('each thing that is wrong is found, with advice, and only problems keep it from serving', async (t) => {
  for (const [change, name, status, words] of WRONGS) {
    const facts = healthy();
    change(facts);
    const check = found(facts, name);
    t.equal(check?.status, status, name);
    t.match(`${check?.value} ${check?.advice}`, words);
    t.equal(canServe(checksOf(facts)), status !== 'problem', name);
  }
});

t.test('a model that is not downloaded is no problem, unless nothing can bring it', async (t) => {
  const missing = (change: (facts: DoctorFacts) => void) => {
    const facts = healthy();
    Object.assign(facts.model, { path: null, weightsBytes: null, fit: null, downloadBytes: 98e6 });
    change(facts);
    return checksOf(facts);
  };
  t.equal(canServe(missing(() => {})), true);
  t.match(doctorText(missing(() => {})), /the first start downloads it \(98\.0 MB\)/);
  t.equal(canServe(missing(({ model }) => (model.isOffline = true))), false);
  t.equal(canServe(missing(({ storage }) => (storage.freeBytes = 9e7))), false);
  t.equal(canServe(missing(({ storage }) => (storage.problem = 'read-only'))), false);
});

t.test('readings carry their sources; GPUs and control groups have rows of their own', async (t) => {
  const facts = healthy();
  const gpu: DeviceInfo = {
    name: 'CUDA0',
    description: 'a card',
    kind: 'gpu',
    totalBytes: 8 * GIB,
    freeBytes: 7 * GIB,
  };
  const readings = { ...ENGINE.readings, deviceTotalBytes: 8 * GIB, deviceFreeBytes: 7 * GIB, cgroupLimitBytes: GIB };
  facts.engine = { ...ENGINE, devices: [cpu(), gpu], readings };
  t.match(found(facts, 'device CUDA0')?.value, /a card, 7\.00 GiB of 8\.00 GiB free/);
  t.match(found(facts, 'system')?.value, /12\.00 GiB of 16\.00 GiB available \(MemAvailable\)/);
  t.match(found(facts, 'cgroup')?.value, /limit 1\.00 GiB/);
  t.match(found(facts, 'room now')?.value, /7\.00 GiB, bound by device limit/);
  facts.devices = ['cpu'];
  t.match(found(facts, 'room now')?.value, /1\.00 GiB, bound by cgroup limit/, 'what --device names decides');
  facts.system.platform = 'darwin-arm64';
  t.equal(found(facts, 'cgroup'), undefined);
  t.match(found(facts, 'iogpu.wired_limit_mb')?.value, /the system decides/);
});

t.test('the verdict counts, and JSON has the findings and the numbers behind them', async (t) => {
  const facts = healthy();
  facts.server.problem = 'taken';
  facts.system.openFilesMax = 10;
  const checks = checksOf(facts);
  t.match(doctorText(checks), /✗ port +taken\n/);
  t.match(doctorText(checks), /! open files +10\n +→ ulimit/);
  t.match(doctorText(checks), /\nThis machine cannot serve: 1 problem, with 1 warning\.\n$/);
  const json = JSON.parse(doctorJson(checks, facts));
  t.match(json, { canServe: false, facts: { engine: { readings: { systemAvailableBytes: 12 * GIB } } } });
  t.strictSame(json.checks, checks);
});

t.test('the smallest Node.js version is the one of package.json', async (t) => {
  const { engines } = JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8'));
  t.equal(engines.node, `>=${NODE_MIN.join('.')}.0`);
});

t.test('flags', async (t) => {
  t.match(parseCli(['doctor', '--json', '--port', '1'], {}), { command: 'doctor', json: true, config: { port: 1 } });
  t.throws(() => parseCli(['doctor', '--context-length', '1k'], {}), { message: /^unknown flag --context-length/ });
});

t.test('the CPU quota of control groups, version 2 and 1: the strictest of this group and those above', async (t) => {
  const v2 = t.testdir({
    proc: { self: { cgroup: '0::/a/b\n' } },
    sys: {
      fs: { cgroup: { 'cpu.max': 'max 100000', a: { 'cpu.max': '150000 100000', b: { 'cpu.max': '400000 100000' } } } },
    },
  });
  t.equal(cpuQuotaCores(v2), 1.5);
  const v1 = t.testdir({
    proc: { self: { cgroup: '5:memory:/x\n4:cpu,cpuacct:/docker/1\n' } },
    sys: { fs: { cgroup: { cpu: { 'cpu.cfs_quota_us': '50000\n', 'cpu.cfs_period_us': '100000\n' } } } },
  });
  t.equal(cpuQuotaCores(v1), 0.5, 'inside a container the named group is hidden');
  const none = t.testdir({
    proc: { self: { cgroup: '4:cpu:/\n' } },
    sys: { fs: { cgroup: { cpu: { 'cpu.cfs_quota_us': '-1', 'cpu.cfs_period_us': '100000' } } } },
  });
  t.equal(cpuQuotaCores(none), null);
  t.equal(cpuQuotaCores(t.testdir({})), null);
});

t.test('the facts of this machine', async (t) => {
  const facts = systemFacts();
  t.equal(facts.nodeVersion, process.versions.node);
  t.ok(facts.cores >= 1);
  t.ok(facts.openFilesMax === null || facts.openFilesMax > 0);
  const folder = t.testdir({ file: '' });
  t.match(await storageFacts({ PLIMSOLL_CACHE_DIR: join(folder, 'not', 'yet') }), { problem: null });
  t.match(await storageFacts({ PLIMSOLL_CACHE_DIR: join(folder, 'file', 'x') }), { problem: /file is no folder/ });
});

t.test('a port that is taken', async (t) => {
  const { createServer } = await import('node:net');
  const taken = createServer();
  const port = await new Promise<number>((resolve) =>
    taken.listen(0, '127.0.0.1', () => resolve((taken.address() as { port: number }).port)),
  );
  t.match(await serverFacts('127.0.0.1', port), { problem: /is in use by another program/ });
  await new Promise((resolve) => taken.close(resolve));
  t.match(await serverFacts('127.0.0.1', port), { place: `127.0.0.1:${port}`, problem: null });
});

t.test('an engine that ends the process that looks at it is a finding', async (t) => {
  const crash = join(t.testdir({ 'crash.cjs': 'process.kill(process.pid, "SIGKILL")' }), 'crash.cjs');
  t.match(await engineFacts({ ...process.env, NODE_OPTIONS: `--require ${crash}` }), {
    problem: /loading the engine ended the process with SIGKILL/,
  });
  t.match(await engineFacts({ ...process.env, PLIMSOLL_ENGINE_DIR: '/nowhere' }), {
    problem: /no folder \/nowhere|addon is missing|addon is not built/,
  });
});
