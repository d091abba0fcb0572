/** From facts to findings: what is there, what is wrong, and one line of advice for each thing that is. Pure. */
import type { DeviceInfo, Readings } from '../../shared/engine.js';
import { type Headroom, headroomOf } from '../../shared/memory/headroom.js';
import { bytesText } from '../../shared/memory/plan-text.js';
import { asNamed } from '../../workers/device-names.js';
import { memoryOf } from '../../workers/start-forward.js';
import { formatBytes } from '../models/disk-space.js';
import type { DoctorFacts, EngineFacts, ModelFacts, ServerFacts, StorageFacts, SystemFacts } from './doctor-facts.js';

/** *warning*: it serves, but not as well as it could; *problem*: it does not serve. */
export type CheckStatus = 'ok' | 'warning' | 'problem';

export interface Check {
  group: 'System' | 'Memory' | 'Engine' | 'Model' | 'Server';
  name: string;
  status: CheckStatus;
  value: string;
  /** What to do, where something can be done. */
  advice: string | null;
}

/** As package.json's `engines` says. */
export const NODE_MIN: readonly [major: number, minor: number] = [20, 19];
/** A socket a client: all that may run and wait with the usual flags are below it. Chosen. */
const OPEN_FILES_MIN = 1024;
/** Chosen: logs and one small model. */
const DISK_FREE_MIN_BYTES = 1e9;

export function checksOf(facts: DoctorFacts): Check[] {
  return [
    ...systemChecks(facts.system),
    ...engineChecks(facts.engine, facts.devices, facts.system),
    ...memoryChecks(facts.engine, facts.devices, facts.system),
    ...storageChecks(facts.storage, facts.model),
    ...modelChecks(facts.model),
    serverCheck(facts.server),
  ];
}

function check(group: Check['group'], name: string, value: string): Check {
  return { group, name, status: 'ok', value, advice: null };
}

function bad(
  group: Check['group'],
  name: string,
  status: Exclude<CheckStatus, 'ok'>,
  value: string,
  advice: string | null,
): Check {
  return { group, name, status, value, advice };
}

function systemChecks(system: SystemFacts): Check[] {
  const { platform, release, cpuModel, cores, cpuQuotaCores, openFilesMax, hugePages } = system;
  const isUnix = /^(linux|darwin)-/.test(platform);
  const place = `${platform}, ${release}`;
  const checks = [
    nodeCheck(system.nodeVersion),
    isUnix
      ? check('System', 'platform', place)
      : bad('System', 'platform', 'problem', place, 'Linux and macOS are supported; on Windows use WSL 2'),
    check('System', 'processor', `${cpuModel}, ${cores} to run on`),
  ];
  if (cpuQuotaCores !== null) {
    const value = `${rounded(cpuQuotaCores)} of ${cores} processors by the cgroup's quota`;
    const threads = Math.max(1, Math.floor(cpuQuotaCores));
    checks.push(
      cpuQuotaCores >= cores
        ? check('System', 'CPU quota', value)
        : bad('System', 'CPU quota', 'warning', value, `--threads ${threads}: more threads than that stop each other`),
    );
  }
  const files = openFilesMax === null ? 'no limit' : `${openFilesMax}`;
  checks.push(
    openFilesMax === null || openFilesMax >= OPEN_FILES_MIN
      ? check('System', 'open files', files)
      : bad('System', 'open files', 'warning', files, `ulimit -n ${OPEN_FILES_MIN * 4}: each client takes one`),
  );
  if (hugePages !== null) checks.push(check('System', 'huge pages', `transparent: ${hugePages}`));
  return checks;
}

function nodeCheck(version: string): Check {
  const [major, minor] = version.split('.').map(Number);
  const [leastMajor, leastMinor] = NODE_MIN;
  const isEnough = major > leastMajor || (major === leastMajor && minor >= leastMinor);
  if (isEnough) return check('System', 'Node.js', version);
  return bad('System', 'Node.js', 'problem', version, `install ${leastMajor}.${leastMinor} or newer`);
}

function engineChecks(engine: EngineFacts, chosen: readonly string[], system: SystemFacts): Check[] {
  if (engine.problem !== null) {
    const advice =
      'make build brings the usual engine (unset PLIMSOLL_ENGINE_DIR), make engine builds one for this machine';
    return [bad('Engine', 'llama.cpp', 'problem', engine.problem, advice)];
  }
  const checks = [
    check('Engine', 'llama.cpp', `${engine.version} in ${engine.folder}`),
    check('Engine', 'addon', 'loads'),
    ...engine.devices.map((device) => check('Engine', `device ${device.name}`, deviceText(device))),
  ];
  const names = engine.devices.map(({ name }) => name.toLowerCase());
  for (const name of chosen.filter((one) => !names.includes(one.toLowerCase()))) {
    const known = engine.devices.map((device) => device.name).join(', ');
    checks.push(bad('Engine', `device ${name}`, 'problem', 'is not there', `--device takes ${known}`));
  }
  if (!engine.devices.some(isGpu)) checks.push(...unusedGpu(system));
  return checks;
}

function unusedGpu({ platform, hasNvidiaDriver }: SystemFacts): Check[] {
  const what = 'there is one, but this engine cannot use it';
  if (hasNvidiaDriver) {
    return [
      bad(
        'Engine',
        'NVIDIA GPU',
        'warning',
        what,
        'make engine-cuda installs an engine for it, make engine builds one',
      ),
    ];
  }
  if (platform === 'darwin-arm64') {
    return [bad('Engine', 'Metal', 'warning', what, 'npm ci installs an engine with Metal; unset PLIMSOLL_ENGINE_DIR')];
  }
  return [];
}

function isGpu({ kind }: DeviceInfo): boolean {
  return kind === 'gpu' || kind === 'integrated-gpu';
}

function deviceText(device: DeviceInfo): string {
  // A CPU reports all RAM as free, which says nothing.
  if (!isGpu(device)) return device.description;
  return `${device.description}, ${bytesText(device.freeBytes)} of ${bytesText(device.totalBytes)} free`;
}

/** Each reading with where it comes from. */
function memoryChecks(engine: EngineFacts, chosen: readonly string[], { platform }: SystemFacts): Check[] {
  if (engine.problem !== null) return [];
  const { readings, gpuWiredLimitBytes } = engine;
  const isMac = platform.startsWith('darwin');
  const from = isMac ? 'free, inactive and purgeable pages' : 'MemAvailable';
  const headroom = headroomOf(readings, memoryOf(engine.devices, asNamed(chosen, engine.devices)));
  const checks = [
    check(
      'Memory',
      'system',
      `${bytesText(readings.systemAvailableBytes)} of ${bytesText(readings.systemTotalBytes)} available (${from})`,
    ),
  ];
  if (!isMac) checks.push(check('Memory', 'cgroup', cgroupText(readings)));
  if (readings.deviceTotalBytes > 0) {
    const { deviceFreeBytes, deviceTotalBytes } = readings;
    checks.push(check('Memory', 'device', `${bytesText(deviceFreeBytes)} of ${bytesText(deviceTotalBytes)} free`));
  }
  if (isMac) {
    const limit = gpuWiredLimitBytes > 0 ? bytesText(gpuWiredLimitBytes) : 'not set: the system decides';
    checks.push(check('Memory', 'iogpu.wired_limit_mb', limit));
  }
  checks.push(pressureCheck(readings.pressureLevel, isMac), check('Memory', 'room now', headroomText(headroom)));
  return checks;
}

function cgroupText({ cgroupLimitBytes, cgroupUsedBytes, cgroupReclaimableBytes }: Readings): string {
  if (cgroupLimitBytes === 0) return 'no limit';
  return (
    `limit ${bytesText(cgroupLimitBytes)}, ${bytesText(cgroupUsedBytes)} used, ` +
    `${bytesText(cgroupReclaimableBytes)} of it file cache that is given back`
  );
}

function pressureCheck(level: number, isMac: boolean): Check {
  const from = isMac ? 'kern.memorystatus_vm_pressure_level' : '/proc/pressure/memory and the cgroup';
  if (level === 0) return check('Memory', 'pressure', `none (${from})`);
  const value = `${level === 1 ? 'warning' : 'critical'} (${from})`;
  return bad('Memory', 'pressure', 'warning', value, 'other programs fight for memory: end some, or serve less');
}

function headroomText({ bytes, binds, terms }: Headroom): string {
  const term = terms.find(({ source }) => source === binds);
  return `${bytesText(bytes)}${term ? `, bound by ${term.from}` : ''}`;
}

function storageChecks({ cacheFolder, problem, freeBytes }: StorageFacts, model: ModelFacts): Check[] {
  const isNeeded = model.path === null && model.problem === null;
  const elsewhere = 'PLIMSOLL_CACHE_DIR names another folder';
  const loss = isNeeded ? '' : '; without it no model is downloaded and no lowered line remembered';
  const checks = [
    problem === null
      ? check('Model', 'cache folder', cacheFolder)
      : bad('Model', 'cache folder', isNeeded ? 'problem' : 'warning', problem, elsewhere + loss),
  ];
  if (freeBytes === null) return checks;
  const neededBytes = isNeeded ? (model.downloadBytes ?? 0) : 0;
  const value = `${formatBytes(freeBytes)} free`;
  if (freeBytes < neededBytes) {
    const advice = `${formatBytes(neededBytes)} are needed for ${model.name}: make room, or ${elsewhere}`;
    checks.push(bad('Model', 'disk', 'problem', value, advice));
  } else if (freeBytes < DISK_FREE_MIN_BYTES) {
    checks.push(bad('Model', 'disk', 'warning', value, `make room, or ${elsewhere}`));
  } else checks.push(check('Model', 'disk', value));
  return checks;
}

function modelChecks(model: ModelFacts): Check[] {
  const { name, path, weightsBytes, problem, fit, loweredLine } = model;
  if (problem !== null) return [bad('Model', 'model', 'problem', problem, null)];
  if (path === null) return [notDownloaded(model)];
  const checks = [check('Model', 'model', `${name}: ${path}, ${bytesText(weightsBytes ?? 0)} of weights`)];
  if (fit?.fits) checks.push(check('Model', 'fits', fit.sentence));
  if (fit?.fits === false) {
    checks.push(bad('Model', 'fits', 'problem', fit.sentence, 'plimsoll plan shows the arithmetic and what would do'));
  }
  if (loweredLine !== null) {
    checks.push(bad('Model', 'load line', 'warning', loweredLine, 'it rises again by itself while the server works'));
  }
  return checks;
}

function notDownloaded({ name, downloadBytes, isOffline }: ModelFacts): Check {
  if (isOffline) {
    const advice = 'unset PLIMSOLL_OFFLINE, or name a file with --model';
    return bad('Model', 'model', 'problem', `${name} is not here, and PLIMSOLL_OFFLINE forbids to download it`, advice);
  }
  const size = downloadBytes === null ? '' : ` (${formatBytes(downloadBytes)})`;
  return check('Model', 'model', `${name} is not here yet: the first start downloads it${size}`);
}

function serverCheck({ place, problem }: ServerFacts): Check {
  return problem === null
    ? check('Server', 'port', `${place} is free`)
    : bad('Server', 'port', 'problem', problem, null);
}

function rounded(value: number): number {
  return Math.round(value * 100) / 100;
}
