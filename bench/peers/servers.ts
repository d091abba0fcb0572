import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import { freePort, ServerProcess } from './server-process.js';

const ENGINE_VERSION = 'v0.4.0';

export interface ServerSettings {
  modelPath: string;
  /** Engine threads. */
  threads: number;
  /** Requests that run at once, each with a context of `contextTokens`. */
  parallel: number;
  contextTokens: number;
}

export interface PlimsollOptions {
  /** Another engine than the npm package's. */
  engineDir?: string | undefined;
}

export function cacheFolder(): string {
  return process.env.PLIMSOLL_CACHE_DIR ?? path.join(homedir(), '.cache', 'plimsoll');
}

/** A model that the tests fetched or made. @throws Error that says how to get it. */
export function testModel(name: string): string {
  const file = path.join(cacheFolder(), 'test-models', `${name}.gguf`);
  if (!existsSync(file)) throw new Error(`${file} is missing; get it with: make test-models`);
  return file;
}

/** Plimsoll as it is built in dist/. What `settings` leaves out stays as a user gets it. Runs in the repository's root. */
export async function startPlimsoll(
  settings: Pick<ServerSettings, 'modelPath'> & Partial<ServerSettings>,
  { engineDir }: PlimsollOptions = {},
): Promise<ServerProcess> {
  const port = await freePort();
  const flag = (name: string, value: number | undefined) => (value === undefined ? [] : [name, String(value)]);
  const args = [
    path.join('dist', 'main.js'),
    ...['--model', settings.modelPath],
    ...flag('--port', port),
    ...flag('--threads', settings.threads),
    ...flag('--max-running-requests', settings.parallel),
    ...flag('--context-length', settings.contextTokens),
    ...['--log-level', 'warn'],
  ];
  const env: Record<string, string> = engineDir ? { PLIMSOLL_ENGINE_DIR: engineDir } : {};
  return ServerProcess.start({ name: 'plimsoll', command: process.execPath, args, env, port, readyPath: '/readyz' });
}

/** llama-server with a slot for each client, so that no request waits for one. @throws Error that says how to get it. */
export async function startLlamaServer(settings: ServerSettings): Promise<ServerProcess> {
  const port = await freePort();
  const args = [
    ...['--model', settings.modelPath],
    ...['--host', '127.0.0.1'],
    ...['--port', String(port)],
    ...['--threads', String(settings.threads)],
    ...['--threads-batch', String(settings.threads)],
    ...['--parallel', String(settings.parallel)],
    ...['--ctx-size', String(settings.parallel * settings.contextTokens)],
    '--no-webui',
  ];
  return ServerProcess.start({ name: 'llama-server', command: llamaServerPath(), args, port, readyPath: '/health' });
}

/** @throws Error that says how to get it. */
export function llamaServerPath(): string {
  const folders = [process.env.PLIMSOLL_PEER_DIR, path.join(cacheFolder(), `peer-${ENGINE_VERSION}`)];
  for (const folder of folders) {
    if (folder === undefined) continue;
    const file = path.join(folder, 'llama-server');
    if (existsSync(file)) return file;
  }
  throw new Error('llama-server is missing; build it with: make peer, or name its folder in PLIMSOLL_PEER_DIR');
}
