/** What `hf:owner/repo:quant` meant when it was last looked up, so that a start needs no network once the model is here. */
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import type { HubFile } from './hub-choice.js';

const record = z.record(
  z.string(),
  z.array(z.strictObject({ path: z.string(), sizeBytes: z.number(), sha256: z.string().nullable() })).min(1),
);

/** The files of a wish, or null when it was never looked up. */
export async function readHubRecord(folder: string, quant: string | null): Promise<HubFile[] | null> {
  return (await readAll(folder))[keyOf(quant)] ?? null;
}

export async function writeHubRecord(folder: string, quant: string | null, files: readonly HubFile[]): Promise<void> {
  const path = recordPath(folder);
  await mkdir(dirname(path), { recursive: true });
  const all = { ...(await readAll(folder)), [keyOf(quant)]: files };
  const draft = `${path}.${process.pid}`;
  await writeFile(draft, `${JSON.stringify(all, null, 2)}\n`);
  await rename(draft, path);
}

async function readAll(folder: string): Promise<z.output<typeof record>> {
  try {
    return record.parse(JSON.parse(await readFile(recordPath(folder), 'utf8')));
  } catch {
    // Missing or damaged: it is looked up again.
    return {};
  }
}

function recordPath(folder: string): string {
  return join(folder, '.files.json');
}

function keyOf(quant: string | null): string {
  return quant?.toUpperCase() ?? 'default';
}
