import { existsSync, readFileSync } from 'node:fs';
import { access, constants, stat, statfs } from 'node:fs/promises';
import { createServer } from 'node:net';
import os from 'node:os';
import { dirname } from 'node:path';
import { cacheFolder } from '../models/cache-folder.js';
import { cpuQuotaCores } from './doctor-cpu-quota.js';
import type { ServerFacts, StorageFacts, SystemFacts } from './doctor-facts.js';
import { exitMessage } from './exit-messages.js';
import type { Environment } from './parse.js';

export function systemFacts(): SystemFacts {
  return {
    nodeVersion: process.versions.node,
    platform: `${process.platform}-${process.arch}`,
    release: `${os.type()} ${os.release()}`,
    cpuModel: os.cpus()[0]?.model.trim() ?? 'unknown',
    cores: os.availableParallelism(),
    cpuQuotaCores: cpuQuotaCores(),
    openFilesMax: openFilesMax(),
    hugePages: hugePages(),
    hasNvidiaDriver: existsSync('/proc/driver/nvidia/version'),
  };
}

/** The limit that holds: Node.js has raised it as far as the system allows. */
function openFilesMax(): number | null {
  // Otherwise the report looks up the name of every network peer.
  Object.assign(process.report, { excludeNetwork: true });
  const report = process.report.getReport() as { userLimits?: { open_files?: { soft?: unknown } } };
  const soft = report.userLimits?.open_files?.soft;
  return typeof soft === 'number' ? soft : null;
}

/** "always [madvise] never": the one in brackets holds. */
function hugePages(): string | null {
  try {
    return /\[(\w+)\]/.exec(readFileSync('/sys/kernel/mm/transparent_hugepage/enabled', 'utf8'))?.[1] ?? null;
  } catch {
    return null;
  }
}

export async function storageFacts(env: Environment): Promise<StorageFacts> {
  const folder = cacheFolder(env);
  const nearest = await nearestExisting(folder);
  return { cacheFolder: folder, problem: await whyNotWritable(nearest), freeBytes: await freeBytes(nearest) };
}

/** The cache folder is made when it is first needed: until then the folder that it would be made in decides. */
async function nearestExisting(folder: string): Promise<string> {
  for (let path = folder; ; path = dirname(path)) {
    if (existsSync(path) || path === dirname(path)) return path;
  }
}

async function whyNotWritable(path: string): Promise<string | null> {
  try {
    if (!(await stat(path)).isDirectory()) return `${path} is no folder`;
    await access(path, constants.W_OK | constants.X_OK);
    return null;
  } catch (error) {
    return `${path} cannot be written (${(error as NodeJS.ErrnoException).code})`;
  }
}

async function freeBytes(path: string): Promise<number | null> {
  try {
    const { bavail, bsize } = await statfs(path);
    return bavail * bsize;
  } catch {
    return null;
  }
}

/** Listens for a moment where serving would. */
export async function serverFacts(host: string, port: number): Promise<ServerFacts> {
  const place = `${host}:${port}`;
  const server = createServer();
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen({ host, port, exclusive: true }, resolve);
    });
    return { place, problem: null };
  } catch (error) {
    return { place, problem: exitMessage(error, { host, port }).text };
  } finally {
    server.close();
  }
}
