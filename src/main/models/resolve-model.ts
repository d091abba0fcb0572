/** From what `--model` names to a file on this machine. */
import { basename, dirname, join, resolve } from 'node:path';
import { cacheFolder } from './cache-folder.js';
import { DEFAULT_LIMITS, type DownloadLimits, downloadFile } from './download.js';
import { checkGgufFile } from './gguf-file.js';
import type { HttpTimeouts } from './http-client.js';
import { Hub } from './hub.js';
import { chooseHubFiles, type HubFile } from './hub-choice.js';
import { readHubRecord, writeHubRecord } from './hub-record.js';
import { ModelError } from './model-error.js';
import type { OnModelProgress } from './model-progress.js';
import { fetchBuiltIn, type SourceContext } from './model-source.js';
import { parseModelSpec } from './model-spec.js';
import { asModelError } from './network-error.js';
import type { ModelEntry } from './registry.js';
import { isStored, storeFile } from './stored-file.js';

type Environment = Readonly<Record<string, string | undefined>>;

export interface ResolveOptions {
  /** Default: the user's cache folder (cache-folder.ts). Models lie in `models/` of it. */
  cacheDir?: string;
  /** Default: process.env. Read: PLIMSOLL_OFFLINE, PLIMSOLL_CACHE_DIR, XDG_CACHE_HOME, HF_ENDPOINT, HF_TOKEN. */
  env?: Environment;
  onProgress?: OnModelProgress | undefined;
  /** Cancels; a download then keeps what it has for the next time. */
  signal?: AbortSignal | undefined;
  /** Ask the Hub again what hf:… means, although it is here. */
  refresh?: boolean;
  limits?: DownloadLimits;
  timeouts?: HttpTimeouts;
}

/** The revision that `hf:owner/repo` means. The checksum of the file list pins what is downloaded. */
const HUB_REVISION = 'main';

/**
 * The path of a model's GGUF file (the first, when it is split), downloaded if needed.
 * @throws ModelError.
 */
export async function resolveModel(text: string, options: ResolveOptions = {}): Promise<string> {
  const spec = parseModelSpec(text);
  if (spec.kind === 'path') {
    const path = resolve(spec.path);
    await checkGgufFile(path);
    return path;
  }
  const env = options.env ?? process.env;
  const models = join(options.cacheDir ?? cacheFolder(env), 'models');
  const path =
    spec.kind === 'built-in'
      ? await resolveBuiltIn(spec.entry, models, env, options)
      : await resolveHub(spec.repo, spec.quant, models, env, options);
  await checkGgufFile(path);
  return path;
}

/** Fetches one built-in model (or a test model of the same form) into `folder`, and returns its path. */
export async function resolveBuiltIn(
  entry: ModelEntry,
  folder: string,
  env: Environment,
  options: ResolveOptions,
): Promise<string> {
  const file = { path: join(folder, entry.file), sha256: entry.sha256, sizeBytes: entry.sizeBytes };
  if (await isStored(file)) return file.path;
  refuseOffline(env, entry.name, file.path);
  const fetch = () => withNetwork(env, options, (context) => fetchBuiltIn(entry, file.path, context));
  await storeFile(file, fetch, options);
  return file.path;
}

async function resolveHub(
  repo: string,
  quant: string | null,
  models: string,
  env: Environment,
  options: ResolveOptions,
): Promise<string> {
  const folder = join(models, 'hub', repo);
  const pathOf = (file: HubFile) => join(folder, file.path);
  const known = await readHubRecord(folder, quant);
  const isHere =
    known !== null &&
    (await Promise.all(known.map((file) => isStored({ ...file, path: pathOf(file) })))).every(Boolean);
  if (isHere && (isOffline(env) || !options.refresh)) return pathOf(known[0]);
  refuseOffline(env, `hf:${repo}${quant ? `:${quant}` : ''}`, folder);

  return withNetwork(env, options, async (context) => {
    const { hub, signal, onProgress } = context;
    const files = chooseHubFiles(await hub.listFiles(repo, HUB_REVISION, signal), repo, quant);
    onProgress?.({
      kind: 'note',
      text: `${repo}: ${files.map((file) => basename(file.path)).join(', ')} from ${hub.endpoint}`,
    });
    for (const file of files) {
      const stored = { ...file, path: pathOf(file) };
      const download = { ...context, ...stored, url: hub.fileUrl(repo, HUB_REVISION, file.path), headers: hub.headers };
      await storeFile(
        stored,
        () => downloadFile({ ...download, refusal: (status) => hub.refusal(repo, status) }),
        options,
      );
    }
    await writeHubRecord(folder, quant, files);
    return pathOf(files[0]);
  });
}

function isOffline(env: Environment): boolean {
  return !['', '0', 'false', 'no', 'off'].includes(env.PLIMSOLL_OFFLINE?.toLowerCase() ?? '');
}

function refuseOffline(env: Environment, name: string, place: string): void {
  if (!isOffline(env)) return;
  throw new ModelError('offline', `${name} is not in ${dirname(place)}, and PLIMSOLL_OFFLINE forbids to download it`);
}

async function withNetwork<T>(
  env: Environment,
  options: ResolveOptions,
  work: (context: SourceContext) => Promise<T>,
): Promise<T> {
  // Loaded here: most starts find their model on disk, and the HTTP client takes longer to load than all else of this folder.
  const { HttpClient } = await import('./http-client.js');
  const client = new HttpClient(options.timeouts);
  const { onProgress, signal } = options;
  try {
    return await work({
      client,
      hub: new Hub(client, env),
      limits: options.limits ?? DEFAULT_LIMITS,
      onProgress,
      signal,
    });
  } catch (error) {
    throw asModelError(error, signal);
  } finally {
    await client.close();
  }
}
