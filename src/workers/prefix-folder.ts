import { closeSync, openSync, readdirSync, rmSync, statSync, utimesSync } from 'node:fs';
import path from 'node:path';
import { DISK_PREFIXES_MAX, type DiskPrefix } from '../shared/disk-messages.js';
import { chooseEvictions, type IdlePrefix } from '../shared/memory/eviction-order.js';
import { BadFile, readHead } from './prefix-file.js';

/** Names of ours; nothing else in the folder is looked at. */
const NAME = /^(\d{1,15})\.plimsoll-prefix(\.partial)?$/;

export interface FolderProblem {
  name: string;
  reason: string;
}

/** The files of `--prefix-dir`, of one server at a time. */
export class PrefixFolder {
  private readonly sizes = new Map<number, number>();
  /** Files that could not be used at the start, and are removed. */
  readonly problems: FolderProblem[] = [];

  constructor(
    private readonly folder: string,
    private readonly identity: string,
    readonly boundBytes: number,
  ) {}

  /** Bytes of all files. */
  get bytes(): number {
    let sum = 0;
    for (const bytes of this.sizes.values()) sum += bytes;
    return sum;
  }

  pathOf(id: number): string {
    return path.join(this.folder, `${id}.plimsoll-prefix`);
  }

  /** What is there, after everything that cannot be used, or is more than the bound allows, was removed. @throws Error of the file system. */
  open(): DiskPrefix[] {
    const nowMs = Date.now();
    const found: DiskPrefix[] = [];
    for (const name of readdirSync(this.folder)) {
      const match = NAME.exec(name);
      if (!match) continue;
      const prefix = match[2] ? null : this.look(name, Number(match[1]), nowMs);
      if (prefix) found.push(prefix);
      else rmSync(path.join(this.folder, name), { force: true });
    }
    for (const { id, fileBytes } of found) this.sizes.set(id, fileBytes);
    return this.withinBounds(found);
  }

  private look(name: string, id: number, nowMs: number): DiskPrefix | null {
    const file = path.join(this.folder, name);
    try {
      const head = readHeadOf(file);
      if (head.identity !== this.identity) throw new BadFile('another model, engine or setting made it');
      const { tokens, cacheSalt, fileBytes, stateBytes, hits } = head;
      const ageMs = Math.max(0, nowMs - statSync(file).mtimeMs);
      return { id, tokens, cacheSalt, fileBytes, stateBytes, hits, ageMs };
    } catch (error) {
      this.problems.push({ name, reason: (error as Error).message });
      return null;
    }
  }

  private withinBounds(found: DiskPrefix[]): DiskPrefix[] {
    const newest = [...found].sort((a, b) => a.ageMs - b.ageMs);
    const tooMany = newest.slice(DISK_PREFIXES_MAX).map(({ id }) => id);
    const need = { cells: 0, bytes: this.bytes - this.boundBytes };
    const tooLarge = need.bytes > 0 ? chooseEvictions(found.map(asIdle), need, 0, true).ids : [];
    const gone = new Set([...tooMany, ...tooLarge]);
    for (const id of gone) this.remove(id);
    return found.filter(({ id }) => !gone.has(id));
  }

  /** Whether a file of so many bytes more keeps the bound. */
  hasRoom(fileBytes: number): boolean {
    return this.bytes + fileBytes <= this.boundBytes;
  }

  add(id: number, fileBytes: number): void {
    this.sizes.set(id, fileBytes);
  }

  remove(id: number): void {
    this.sizes.delete(id);
    rmSync(this.pathOf(id), { force: true });
  }

  /** It was used: the file's time is its age after a restart. */
  touch(id: number, ageMs = 0): void {
    const seconds = (Date.now() - ageMs) / 1000;
    try {
      utimesSync(this.pathOf(id), seconds, seconds);
    } catch {
      // Its age is a hint.
    }
  }
}

function readHeadOf(file: string) {
  const opened = openSync(file, 'r');
  try {
    return readHead(opened);
  } finally {
    closeSync(opened);
  }
}

function asIdle({ id, tokens, fileBytes, hits, ageMs }: DiskPrefix): IdlePrefix {
  const { length } = tokens;
  return { id, freesCells: length, freesBytes: fileBytes, tokens: length, hits, lastUsedMs: -ageMs, pinned: false };
}
