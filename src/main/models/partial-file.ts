/**
 * A download that is not complete: `NAME.partial` with the bytes so far and `NAME.partial.json` with what they belong to. The
 * bytes are resumed only when the server's file is still the same one.
 */
import { createHash, type Hash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { type FileHandle, open, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { z } from 'zod';

const partialState = z.strictObject({
  /** Strong ETag of the answer that the bytes came from; null: it had none. */
  etag: z.string().nullable(),
  /** Size of the whole file; null: not known. */
  totalBytes: z.number().int().nullable(),
  /** Checksum that the whole file must have; null: not known. */
  sha256: z.string().nullable(),
});
export type PartialState = z.output<typeof partialState>;

export class PartialFile {
  readonly path: string;
  private readonly statePath: string;
  private hash: Hash = createHash('sha256');
  private file: FileHandle | null = null;
  private sizeBytes = 0;
  private current: PartialState | null = null;

  constructor(private readonly finalPath: string) {
    this.path = `${finalPath}.partial`;
    this.statePath = `${this.path}.json`;
  }

  get receivedBytes(): number {
    return this.sizeBytes;
  }

  get state(): PartialState | null {
    return this.current;
  }

  /** Takes up what an earlier try left, when it belongs to the same content. Its bytes are read once, for the checksum. */
  async load(sha256: string | null): Promise<void> {
    this.current = await this.readState();
    if (this.current === null || this.current.sha256 !== sha256) {
      await this.discard();
      return;
    }
    this.sizeBytes = await sizeOf(this.path);
    this.hash = createHash('sha256');
    if (this.sizeBytes > 0) for await (const chunk of createReadStream(this.path)) this.hash.update(chunk as Buffer);
  }

  /** Begins anew with a file of this state. */
  async begin(state: PartialState): Promise<void> {
    await this.discard();
    await writeFile(this.statePath, JSON.stringify(state));
    this.current = state;
    this.file = await open(this.path, 'w');
  }

  /** Goes on behind the bytes that are there. */
  async resume(): Promise<void> {
    await this.close();
    this.file = await open(this.path, 'a');
  }

  async append(chunk: Uint8Array): Promise<void> {
    if (this.file === null) throw new Error('the partial file is not open');
    await this.file.appendFile(chunk);
    this.hash.update(chunk);
    this.sizeBytes += chunk.length;
  }

  /** Ends this try; the bytes stay. */
  async close(): Promise<void> {
    await this.file?.close();
    this.file = null;
  }

  /** Forgets all of it. */
  async discard(): Promise<void> {
    await this.close();
    await rm(this.path, { force: true });
    await rm(this.statePath, { force: true });
    this.hash = createHash('sha256');
    this.sizeBytes = 0;
    this.current = null;
  }

  /** SHA-256 of the bytes so far, hex. */
  digest(): string {
    return this.hash.copy().digest('hex');
  }

  /** Puts the complete file in its place, all at once and safely on disk. */
  async finish(): Promise<void> {
    this.file ??= await open(this.path, 'a');
    await this.file.sync();
    await this.close();
    await rename(this.path, this.finalPath);
    await rm(this.statePath, { force: true });
  }

  private async readState(): Promise<PartialState | null> {
    try {
      return partialState.parse(JSON.parse(await readFile(this.statePath, 'utf8')));
    } catch {
      // Missing or half-written: without it nobody knows what the bytes belong to.
      return null;
    }
  }
}

async function sizeOf(path: string): Promise<number> {
  try {
    return (await stat(path)).size;
  } catch {
    return 0;
  }
}
