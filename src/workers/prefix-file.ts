/**
 * A saved prefix in a file. Little-endian.
 *
 * ```
 * | magic 8 B | notesBytes u32 | tokenCount u32 | stateBytes f64 | notes JSON | tokens i32 … | headSum u32 | state | wholeSum u32 |
 * ```
 * `headSum` is the CRC-32 of everything before it, `wholeSum` of everything before that: heads are checked at a start, states when they are read.
 */
import { closeSync, fstatSync, openSync, readSync, renameSync, rmSync, writeSync } from 'node:fs';
import { crc32 } from 'node:zlib';
import { FILE_NOTES_BYTES_MAX } from '../shared/disk-messages.js';

/** The last byte is the version of the format. */
const MAGIC = Buffer.from('PLIMPFX\x01', 'latin1');
const FIXED_BYTES = 24;
const SUM_BYTES = 4;
/** Chosen: the longest context of any model, with room; more is no number of tokens. */
const TOKENS_MAX = 2 ** 26;

export interface PrefixNotes {
  /** What made it (prefix-identity.ts). */
  identity: string;
  cacheSalt: number;
  hits: number;
}

export interface PrefixHead extends PrefixNotes {
  tokens: Int32Array;
  stateBytes: number;
  fileBytes: number;
  /** Where the state begins, and the CRC-32 of what is before. */
  stateAt: number;
  sum: number;
}

/** The file is not what it should be: removed, and computed instead. */
export class BadFile extends Error {}

/** Bytes of the file of such a prefix. */
export function prefixFileBytes(head: Buffer, stateBytes: number): number {
  return head.length + stateBytes + SUM_BYTES;
}

export function encodeHead(notes: PrefixNotes, tokens: Int32Array, stateBytes: number): Buffer {
  const text = Buffer.from(JSON.stringify({ ...notes }));
  if (FIXED_BYTES + text.length + 2 * SUM_BYTES > FILE_NOTES_BYTES_MAX)
    throw new Error('notes of a prefix are too long');
  const tokensAt = FIXED_BYTES + text.length;
  const head = Buffer.alloc(tokensAt + tokens.length * 4 + SUM_BYTES);
  MAGIC.copy(head);
  head.writeUInt32LE(text.length, 8);
  head.writeUInt32LE(tokens.length, 12);
  head.writeDoubleLE(stateBytes, 16);
  text.copy(head, FIXED_BYTES);
  for (let i = 0; i < tokens.length; i++) head.writeInt32LE(tokens[i], tokensAt + i * 4);
  head.writeUInt32LE(crc32(head.subarray(0, -SUM_BYTES)), head.length - SUM_BYTES);
  return head;
}

/** @throws BadFile; Error of the file system. */
export function readHead(file: number): PrefixHead {
  const fixed = readAt(file, 0, FIXED_BYTES);
  if (!fixed.subarray(0, MAGIC.length).equals(MAGIC)) throw new BadFile('it is of another format');
  const notesBytes = fixed.readUInt32LE(8);
  const tokenCount = fixed.readUInt32LE(12);
  const stateBytes = fixed.readDoubleLE(16);
  if (notesBytes > FILE_NOTES_BYTES_MAX || tokenCount > TOKENS_MAX) throw new BadFile('its head is damaged');
  const stateAt = FIXED_BYTES + notesBytes + tokenCount * 4 + SUM_BYTES;
  const fileBytes = stateAt + stateBytes + SUM_BYTES;
  if (fstatSync(file).size !== fileBytes) throw new BadFile('it is not as long as it should be');
  const head = readAt(file, 0, stateAt);
  const sum = head.readUInt32LE(stateAt - SUM_BYTES);
  if (sum !== crc32(head.subarray(0, -SUM_BYTES))) throw new BadFile('the checksum of its head is wrong');
  const notes = JSON.parse(head.toString('utf8', FIXED_BYTES, FIXED_BYTES + notesBytes)) as PrefixNotes;
  const tokensAt = FIXED_BYTES + notesBytes;
  const tokens = Int32Array.from({ length: tokenCount }, (_, i) => head.readInt32LE(tokensAt + i * 4));
  return { ...notes, tokens, stateBytes, fileBytes, stateAt, sum: crc32(head) };
}

function readAt(file: number, at: number, bytes: number): Buffer {
  const buffer = Buffer.alloc(bytes);
  if (readSync(file, buffer, 0, bytes, at) !== bytes) throw new BadFile('it is not as long as it should be');
  return buffer;
}

/** A file that grows under a name of its own and takes its final one when it is whole. */
export class PrefixFileWriter {
  private readonly file: number;
  private readonly partial: string;
  private sum: number;
  private isClosed = false;

  /** Readable by this user alone: tokens are somebody's words. @throws Error of the file system. */
  constructor(
    private readonly path: string,
    head: Buffer,
  ) {
    this.partial = `${path}.partial`;
    this.file = openSync(this.partial, 'w', 0o600);
    this.sum = crc32(head);
    this.writeAll(head);
  }

  /** @throws Error of the file system. */
  append(state: Uint8Array): void {
    this.sum = crc32(state, this.sum);
    this.writeAll(state);
  }

  /** @throws Error of the file system. */
  finish(): void {
    const sum = Buffer.alloc(SUM_BYTES);
    sum.writeUInt32LE(this.sum);
    this.writeAll(sum);
    this.close();
    renameSync(this.partial, this.path);
  }

  /** Nothing stays. */
  abort(): void {
    try {
      this.close();
      rmSync(this.partial, { force: true });
    } catch {
      // The disk is gone. What is left of the file is removed at the next start.
    }
  }

  /** Once: its number may be another file's by the second time. */
  private close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    closeSync(this.file);
  }

  private writeAll(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length; ) at += writeSync(this.file, bytes, at, bytes.length - at);
  }
}

/** The state of a file, chunk by chunk, with its checksum on the way. */
export class PrefixFileReader {
  readonly head: PrefixHead;
  private readonly file: number;
  private at: number;
  private sum: number;

  /** @throws BadFile; Error of the file system. */
  constructor(path: string) {
    this.file = openSync(path, 'r');
    try {
      this.head = readHead(this.file);
    } catch (error) {
      closeSync(this.file);
      throw error;
    }
    this.at = this.head.stateAt;
    this.sum = this.head.sum;
  }

  /** Fills `chunk` with what comes next. @throws BadFile; Error of the file system. */
  read(chunk: Uint8Array): void {
    if (readSync(this.file, chunk, 0, chunk.length, this.at) !== chunk.length) throw new BadFile('it was cut off');
    this.at += chunk.length;
    this.sum = crc32(chunk, this.sum);
  }

  /** Everything was read. @throws BadFile. */
  check(): void {
    if (readAt(this.file, this.at, SUM_BYTES).readUInt32LE(0) !== this.sum) throw new BadFile('its checksum is wrong');
  }

  close(): void {
    closeSync(this.file);
  }
}
