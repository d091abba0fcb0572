import { DIRECTION, type DiskLink, LINK_STATE } from '../shared/disk-link.js';
import type { DiskCommand, DiskEvent } from '../shared/disk-messages.js';
import { BadFile, encodeHead, PrefixFileReader, PrefixFileWriter, prefixFileBytes } from './prefix-file.js';
import type { PrefixFolder } from './prefix-folder.js';

export type WriteCommand = Extract<DiskCommand, { type: 'write' }>;
export type ReadCommand = Extract<DiskCommand, { type: 'read' }>;

/** What a look at a job came to: it did something, it waits for the forward worker, or it is over and this is to be told. */
export type Advance = 'worked' | 'waits' | DiskEvent;

export interface DiskJob {
  /** Does one chunk's worth of work, if it can. Never throws for the file system. */
  advance(): Advance;
  /** Gives up what was begun. */
  abort(): void;
}

/** Asks the forward worker for a slot and writes it. */
export class WriteJob implements DiskJob {
  private writer: PrefixFileWriter | null = null;
  private fileBytes = 0;

  constructor(
    private readonly command: WriteCommand,
    private readonly identity: string,
    private readonly folder: PrefixFolder,
    private readonly link: DiskLink,
    private readonly report: (problem: string) => void,
  ) {
    link.offer(DIRECTION.out, command.slot, 0);
  }

  advance(): Advance {
    const { link } = this;
    try {
      if (link.state === LINK_STATE.offered) return 'waits';
      if (this.writer !== null && link.drained === link.chunkCount) return this.finish(this.writer);
      if (link.state === LINK_STATE.refused) return this.giveUp(false);
      this.writer ??= this.begin();
      if (this.writer === null) return this.giveUp(false);
      const chunk = link.chunkToDrain();
      if (chunk === null) return 'waits';
      this.writer.append(chunk);
      link.chunkDrained();
      return 'worked';
    } catch (error) {
      this.report(`a prefix could not be written: ${(error as Error).message}`);
      return this.giveUp(true);
    }
  }

  abort(): void {
    this.writer?.abort();
    endTransfer(this.link);
  }

  /** null: it is larger than what was expected, and there is no room for that. */
  private begin(): PrefixFileWriter | null {
    const { id, tokens, cacheSalt, hits, fileBytesMax } = this.command;
    const { totalBytes } = this.link;
    const head = encodeHead({ identity: this.identity, cacheSalt, hits }, tokens, totalBytes);
    this.fileBytes = prefixFileBytes(head, totalBytes);
    if (this.fileBytes > fileBytesMax || !this.folder.hasRoom(this.fileBytes)) return null;
    return new PrefixFileWriter(this.folder.pathOf(id), head);
  }

  private finish(writer: PrefixFileWriter): DiskEvent {
    const { id, ageMs } = this.command;
    writer.finish();
    this.folder.add(id, this.fileBytes);
    this.folder.touch(id, ageMs);
    const stateBytes = this.link.totalBytes;
    endTransfer(this.link);
    return this.event(this.fileBytes, stateBytes, false);
  }

  private giveUp(isError: boolean): DiskEvent {
    this.abort();
    return this.event(0, 0, isError);
  }

  private event(fileBytes: number, stateBytes: number, isError: boolean): DiskEvent {
    const { id, slot } = this.command;
    return { type: 'written', id, slot, fileBytes, stateBytes, isError };
  }
}

/** Gives the forward worker the state of a file. */
export class ReadJob implements DiskJob {
  private readonly startMs = performance.now();
  private reader: PrefixFileReader | null = null;

  constructor(
    private readonly command: ReadCommand,
    private readonly identity: string,
    private readonly folder: PrefixFolder,
    private readonly link: DiskLink,
    private readonly report: (problem: string) => void,
  ) {}

  advance(): Advance {
    const { link } = this;
    try {
      if (this.reader === null) return this.begin();
      if (link.state === LINK_STATE.offered) return 'waits';
      if (link.state === LINK_STATE.refused) return this.end(false, false);
      const chunk = link.chunkToFill();
      if (chunk !== null) {
        this.reader.read(chunk);
        link.chunkFilled();
        return 'worked';
      }
      if (link.drained < link.chunkCount) return 'waits';
      this.reader.check();
      return this.end(link.move(LINK_STATE.accepted, LINK_STATE.committed), false);
    } catch (error) {
      this.report(`file ${this.command.id} of saved prefixes is removed: ${(error as Error).message}`);
      return this.end(false, true);
    }
  }

  abort(): void {
    this.reader?.close();
    if (this.reader === null) return;
    if (!this.link.move(LINK_STATE.accepted, LINK_STATE.aborted)) endTransfer(this.link);
  }

  private begin(): Advance {
    this.reader = new PrefixFileReader(this.folder.pathOf(this.command.id));
    const { identity, stateBytes } = this.reader.head;
    this.link.offer(DIRECTION.in, this.command.slot, stateBytes);
    if (identity !== this.identity) throw new BadFile('another model, engine or setting made it');
    return 'worked';
  }

  /** On a file system that takes no changes any more it stays, and is bad again next time. */
  private removeBad(id: number): void {
    try {
      this.folder.remove(id);
    } catch (error) {
      this.report(`a bad file could not be removed: ${String(error)}`);
    }
  }

  private end(isLoaded: boolean, isBad: boolean): DiskEvent {
    const { id, slot } = this.command;
    if (isLoaded) this.reader?.close();
    else this.abort();
    if (isBad) this.removeBad(id);
    else this.folder.touch(id);
    const stateBytes = this.reader?.head.stateBytes ?? 0;
    const micros = (performance.now() - this.startMs) * 1000;
    return { type: 'read', id, slot, isLoaded, isBad, stateBytes, micros };
  }
}

/** Whatever the forward worker has done or will do: it lets go of a transfer that is idle. */
function endTransfer(link: DiskLink): void {
  for (const state of [LINK_STATE.offered, LINK_STATE.accepted, LINK_STATE.refused])
    if (link.move(state, LINK_STATE.idle)) return;
}
