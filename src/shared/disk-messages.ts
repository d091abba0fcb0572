/** What the overlap worker, which has the books, and the disk worker, which has the files, tell each other. */

/** A prefix in a file. */
export interface DiskPrefix {
  /** Number in the file's name; in one run never used again. */
  id: number;
  tokens: Int32Array;
  cacheSalt: number;
  /** Of the whole file. */
  fileBytes: number;
  /** Of the state in it: what it takes in host memory. */
  stateBytes: number;
  hits: number;
  /** How long ago it was used when this was said, ms. */
  ageMs: number;
}

export type DiskCommand =
  /** Ask the forward worker for `slot` and write it, unless the file would have more than `fileBytesMax`. */
  | {
      type: 'write';
      id: number;
      slot: number;
      tokens: Int32Array;
      cacheSalt: number;
      hits: number;
      ageMs: number;
      fileBytesMax: number;
    }
  /** Give the forward worker the state of `id` under `slot`. */
  | { type: 'read'; id: number; slot: number }
  /** The read into `slot` is not wanted any more. */
  | { type: 'cancel'; slot: number }
  | { type: 'remove'; id: number };

export type DiskEvent =
  /** Once, at the start. `boundBytes`: of all files together. */
  | { type: 'opened'; boundBytes: number; prefixes: DiskPrefix[]; removed: number }
  /** `fileBytes` 0: it was not written; `isError`: because of the disk, and not because the slot is gone. */
  | { type: 'written'; id: number; slot: number; fileBytes: number; stateBytes: number; isError: boolean }
  /** `isLoaded`: the slot is there. `isBad`: its file was not what it should be, and is removed. */
  | { type: 'read'; id: number; slot: number; isLoaded: boolean; isBad: boolean; stateBytes: number; micros: number };

/** Prefixes at most: each is looked at for each request that is admitted. Chosen: as in host memory, twice. */
export const DISK_PREFIXES_MAX = 512;
/** What a file has beside its tokens and its state, at most. Derived: prefix-file.ts keeps to it. */
export const FILE_NOTES_BYTES_MAX = 4096;
