/** One file over HTTP: resumed where it stopped, checked while it streams, in place all at once or not at all. */
import { basename, dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { requireDiskSpace } from './disk-space.js';
import type { HttpAnswer, HttpClient } from './http-client.js';
import { ModelError, throwIfCancelled } from './model-error.js';
import type { OnModelProgress } from './model-progress.js';
import { networkReason } from './network-error.js';
import { PartialFile } from './partial-file.js';
import { StallWatch } from './stall-watch.js';

export interface DownloadLimits {
  /** Tries in a row that bring less than `progressBytes`. */
  attempts: number;
  /** What a try must bring to count as progress. */
  progressBytes: number;
  /** First wait between tries; doubled each time, up to `backoffMaxMs`. A Retry-After is honoured up to `retryAfterMaxMs`. */
  backoffMs: number;
  backoffMaxMs: number;
  retryAfterMaxMs: number;
  /** A transfer of less than `stallFloorBytes` in `stallWindowMs` is given up. */
  stallWindowMs: number;
  stallFloorBytes: number;
}

/** Chosen: half a minute of patience with a stumbling server, and slower than a 1990s modem counts as standing still. */
export const DEFAULT_LIMITS: DownloadLimits = {
  attempts: 6,
  progressBytes: 1024 * 1024,
  backoffMs: 500,
  backoffMaxMs: 15_000,
  retryAfterMaxMs: 120_000,
  stallWindowMs: 30_000,
  stallFloorBytes: 16 * 1024,
};

export interface Download {
  url: string;
  headers: Record<string, string>;
  /** Where the file goes; its folder exists. */
  path: string;
  /** Null: not known. */
  sha256: string | null;
  sizeBytes: number | null;
  client: HttpClient;
  limits: DownloadLimits;
  /** Words for an answer that no further try will change, or null. */
  refusal(status: number): ModelError | null;
  onProgress?: OnModelProgress | undefined;
  signal?: AbortSignal | undefined;
}

/** How one try ended: with all bytes, or with a reason and a wish of the server for the next one. */
type Attempt = { done: true } | { done: false; reason: string; retryAfterMs: number | null };

/**
 * Downloads to `path`. What was received stays beside it when it fails or is cancelled, and the next call goes on from there.
 * @throws ModelError unreachable, unauthorized, not_found, checksum, no_space, cancelled.
 */
export async function downloadFile(download: Download): Promise<void> {
  const { limits, signal } = download;
  const partial = new PartialFile(download.path);
  await partial.load(download.sha256);
  if (download.sizeBytes !== null)
    await requireDiskSpace(dirname(download.path), download.sizeBytes - partial.receivedBytes);
  let fruitless = 0;
  let checksumFailed = false;
  for (;;) {
    const before = partial.receivedBytes;
    const attempt = await tryOnce(download, partial);
    if (attempt.done) {
      if (download.sha256 === null || partial.digest() === download.sha256) return partial.finish();
      await partial.discard();
      // Once more from the first byte: a resumed file may be spoilt by bytes that a crash left behind.
      if (checksumFailed) throw checksumError(download);
      checksumFailed = true;
      continue;
    }
    fruitless = partial.receivedBytes - before >= limits.progressBytes ? 0 : fruitless + 1;
    if (fruitless >= limits.attempts) {
      throw new ModelError('unreachable', `${basename(download.path)} could not be downloaded: ${attempt.reason}`);
    }
    const backoffMs = Math.min(limits.backoffMs * 2 ** fruitless, limits.backoffMaxMs);
    await sleep(Math.max(attempt.retryAfterMs ?? 0, backoffMs), undefined, signal ? { signal } : {}).catch(() => {});
    throwIfCancelled(signal);
  }
}

async function tryOnce(download: Download, partial: PartialFile): Promise<Attempt> {
  const { limits, signal } = download;
  throwIfCancelled(signal);
  const total = partial.state?.totalBytes ?? download.sizeBytes;
  if (total !== null && partial.receivedBytes === total) return { done: true };
  const watch = new StallWatch(limits.stallWindowMs, limits.stallFloorBytes);
  const either = signal ? AbortSignal.any([signal, watch.signal]) : watch.signal;
  try {
    const headers = { ...download.headers, ...rangeHeaders(partial), 'accept-encoding': 'identity' };
    const answer = await download.client.get(download.url, headers, either);
    return await takeAnswer(download, partial, answer, watch);
  } catch (error) {
    throwIfCancelled(signal);
    if (isDiskFull(error)) {
      throw new ModelError(
        'no_space',
        `the disk is full: ${dirname(download.path)} (PLIMSOLL_CACHE_DIR moves the cache)`,
      );
    }
    if (watch.hasStalled) return { done: false, reason: 'the transfer stood still', retryAfterMs: null };
    if (error instanceof ModelError && error.code === 'unreachable') {
      return { done: false, reason: error.message, retryAfterMs: null };
    }
    if (error instanceof ModelError || !isNetworkError(error)) throw error;
    return { done: false, reason: `the connection broke (${networkReason(error)})`, retryAfterMs: null };
  } finally {
    watch.stop();
    await partial.close();
  }
}

function rangeHeaders(partial: PartialFile): Record<string, string> {
  if (partial.receivedBytes === 0) return {};
  const range = { range: `bytes=${partial.receivedBytes}-` };
  const etag = partial.state?.etag;
  return etag ? { ...range, 'if-range': etag } : range;
}

async function takeAnswer(
  download: Download,
  partial: PartialFile,
  answer: HttpAnswer,
  watch: StallWatch,
): Promise<Attempt> {
  const { status, body } = answer;
  if (status !== 200 && status !== 206) {
    await body.dump();
    const refusal = download.refusal(status);
    if (refusal) throw refusal;
    // The file is shorter than what is here: it is another one.
    if (status === 416) await partial.discard();
    return { done: false, reason: `the server answers ${status}`, retryAfterMs: retryAfterMs(answer, download.limits) };
  }
  if (status === 206) {
    if (!continues(answer, partial)) {
      await body.dump();
      await partial.discard();
      return { done: false, reason: 'the server sent another part of the file than was asked for', retryAfterMs: null };
    }
    await partial.resume();
  } else {
    // A whole file: nothing was here, the file has changed, or the server knows no ranges.
    const totalBytes = download.sizeBytes ?? wholeNumber(answer.headers['content-length']);
    await partial.begin({ etag: strongEtag(answer), totalBytes, sha256: download.sha256 });
  }
  return takeBody(download, partial, body, watch);
}

async function takeBody(
  download: Download,
  partial: PartialFile,
  body: AsyncIterable<Buffer>,
  watch: StallWatch,
): Promise<Attempt> {
  const totalBytes = partial.state?.totalBytes ?? download.sizeBytes;
  const report = () =>
    download.onProgress?.({
      kind: 'bytes',
      file: basename(download.path),
      receivedBytes: partial.receivedBytes,
      totalBytes,
    });
  report();
  for await (const chunk of body) {
    watch.received(chunk.length);
    if (totalBytes !== null && partial.receivedBytes + chunk.length > totalBytes) {
      await partial.discard();
      return { done: false, reason: 'the server sent more bytes than the file has', retryAfterMs: null };
    }
    await partial.append(chunk);
    report();
  }
  if (totalBytes === null || partial.receivedBytes === totalBytes) return { done: true };
  return { done: false, reason: 'the server ended the file too early', retryAfterMs: null };
}

/** Whether a 206 answer goes on exactly where the partial file ends, and is of a file of the same size. */
function continues(answer: HttpAnswer, partial: PartialFile): boolean {
  const match = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(String(answer.headers['content-range'] ?? ''));
  if (!match || Number(match[1]) !== partial.receivedBytes) return false;
  const known = partial.state?.totalBytes;
  return match[2] === '*' || known == null || Number(match[2]) === known;
}

/** A weak ETag does not promise the same bytes, so it cannot guard a resume. */
function strongEtag(answer: HttpAnswer): string | null {
  const { etag } = answer.headers;
  return typeof etag === 'string' && !etag.startsWith('W/') ? etag : null;
}

/** Seconds or a date, as HTTP has it; bounded. */
function retryAfterMs(answer: HttpAnswer, limits: DownloadLimits): number | null {
  const header = answer.headers['retry-after'];
  if (typeof header !== 'string') return null;
  const waitMs = /^\d+$/.test(header) ? Number(header) * 1000 : Date.parse(header) - Date.now();
  return Number.isFinite(waitMs) ? Math.min(Math.max(waitMs, 0), limits.retryAfterMaxMs) : null;
}

function wholeNumber(header: string | string[] | undefined): number | null {
  return typeof header === 'string' && /^\d+$/.test(header) ? Number(header) : null;
}

function isDiskFull(error: unknown): boolean {
  return ['ENOSPC', 'EDQUOT'].includes((error as NodeJS.ErrnoException).code ?? '');
}

function isNetworkError(error: unknown): boolean {
  const { code, name } = error as { code?: string; name?: string };
  return (
    name === 'AbortError' || name === 'SocketError' || /^(UND_ERR_|E(CONN|PIPE|TIMEDOUT|NET|HOST|AI_))/.test(code ?? '')
  );
}

function checksumError(download: Download): ModelError {
  const name = basename(download.path);
  return new ModelError(
    'checksum',
    `${name} has the wrong checksum, twice: ${new URL(download.url).host} serves a damaged or another file`,
  );
}
