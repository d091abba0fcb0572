import type { DiskOptions } from '../workers/disk-loop.js';
import type { ForwardReady } from '../workers/worker-messages.js';
import type { FileLock } from './models/file-lock.js';
import { lockPrefixDir, prefixDirBytes } from './prefix-dir.js';
import { prefixIdentity } from './prefix-identity.js';
import type { PipelineOptions } from './start-pipeline.js';

/** The folder of `--prefix-dir`, which this process has for itself. */
export interface OpenedDisk {
  options: DiskOptions;
  lock: FileLock;
}

/** null: there is no disk tier, and the log says why where one was asked for. */
export async function openDisk(options: PipelineOptions, ready: ForwardReady): Promise<OpenedDisk | null> {
  const { config, modelPath, log, fake } = options;
  const folder = config.prefixDir;
  if (folder === null) return null;
  if (!ready.model.canTrim) {
    log?.(
      'warn',
      "--prefix-dir has no effect: the ends of this model's sequences cannot be removed, so what is saved is seldom of use",
    );
    return null;
  }
  let lock: FileLock | null = null;
  try {
    lock = await lockPrefixDir(folder);
    if (lock === null) {
      log?.('warn', `--prefix-dir ${folder} has no effect: another server uses it; give each its own folder`);
      return null;
    }
    const boundBytes = await prefixDirBytes(folder, config.prefixDirBytes);
    const identity = await prefixIdentity({ config, modelPath, ready, isFake: fake !== undefined });
    return { options: { folder, boundBytes, identity }, lock };
  } catch (error) {
    await lock?.release();
    log?.('warn', `--prefix-dir ${folder} has no effect: ${(error as Error).message}`);
    return null;
  }
}
