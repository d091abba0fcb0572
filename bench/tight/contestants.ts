import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { freePort, ServerProcess } from '../peers/server-process.js';
import { llamaServerPath } from '../peers/servers.js';
import type { MemoryGroup } from './memory-group.js';

/** A server and the flags that it runs with. */
export interface Contestant {
  kind: 'plimsoll' | 'llama-server';
  flags: readonly string[];
  /** Plimsoll's main file; that of dist/ when left out. */
  entry?: string;
}

/**
 * Starts it inside the group, or where this process is. Plimsoll gets a model and a port beside its flags; llama-server what makes it comparable.
 * @throws Error with the end of its output when it is not ready in time.
 */
export async function startInside(
  group: MemoryGroup | null,
  { kind, flags, entry }: Contestant,
  modelPath: string,
): Promise<ServerProcess> {
  const port = await freePort();
  const server =
    kind === 'plimsoll'
      ? { command: process.execPath, args: [entry ?? path.join('dist', 'main.js')], readyPath: '/readyz' }
      : { command: llamaServerPath(), args: ['--host', '127.0.0.1', '--no-webui'], readyPath: '/health' };
  const args = [...server.args, '--model', modelPath, '--port', String(port), ...flags];
  const env = { PLIMSOLL_CACHE_DIR: emptyCacheFolder() };
  const wrapped = group?.wrap(server.command, args) ?? { command: server.command, args };
  return ServerProcess.start({ name: kind, ...wrapped, env, port, readyPath: server.readyPath });
}

/**
 * Reads the files that a server will map, outside of any group: file pages are charged to whoever touches them first, and neither side
 * shall pay for them.
 */
export function warmFileCache(kind: Contestant['kind'], modelPath: string): void {
  readFileSync(modelPath);
  const folder = kind === 'plimsoll' ? path.join('addon', 'build', 'Release') : path.dirname(llamaServerPath());
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    if (entry.isFile()) readFileSync(path.join(folder, entry.name));
  }
}

const cacheFolders: string[] = [];
process.on('exit', () => {
  for (const folder of cacheFolders) rmSync(folder, { recursive: true, force: true });
});

/** A line that an earlier run lowered, or that this one does, is nobody else's. */
function emptyCacheFolder(): string {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'plimsoll-bench-'));
  cacheFolders.push(folder);
  return folder;
}
