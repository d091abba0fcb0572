/** Where the bytes of a file come from. `read` may return fewer bytes than asked for only at the end of the file. */
export interface ByteSource {
  readonly sizeBytes: number;
  read(offset: number, lengthBytes: number): Uint8Array;
}

export class GgufFormatError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'GgufFormatError';
  }
}

/** Read ahead. Chosen: vocabularies are megabytes of short strings, a system call for each would take seconds. */
const WINDOW_BYTES = 1 << 20;

/** Little-endian reading of a file that may be hostile: every length is checked against the file and a limit before it is used. */
export class GgufCursor {
  private window: Uint8Array = new Uint8Array(0);
  private view: DataView = new DataView(new ArrayBuffer(0));
  private windowAt = 0;
  private at = 0;

  constructor(
    private readonly source: ByteSource,
    /** The header may be this long at most. */
    private readonly limitBytes: number,
  ) {}

  get offset(): number {
    return this.at;
  }

  u8(): number {
    return this.take(1, (view, at) => view.getUint8(at));
  }

  u32(): number {
    return this.take(4, (view, at) => view.getUint32(at, true));
  }

  /** @throws GgufFormatError above 2^53: no real count or length is. */
  u64(): number {
    const value = this.take(8, (view, at) => view.getBigUint64(at, true));
    if (value > BigInt(Number.MAX_SAFE_INTEGER))
      throw new GgufFormatError(`a number of ${value} at byte ${this.at - 8}`);
    return Number(value);
  }

  take<T>(bytes: number, get: (view: DataView, at: number) => T): T {
    this.need(bytes);
    const value = get(this.view, this.at - this.windowAt);
    this.at += bytes;
    return value;
  }

  text(maxBytes: number): string {
    const length = this.u64();
    if (length > maxBytes) throw new GgufFormatError(`a text of ${length} bytes at byte ${this.at}`);
    this.need(length);
    const from = this.at - this.windowAt;
    this.at += length;
    return new TextDecoder().decode(this.window.subarray(from, from + length));
  }

  skip(bytes: number): void {
    this.checkEnd(bytes);
    this.at += bytes;
  }

  private need(bytes: number): void {
    this.checkEnd(bytes);
    const from = this.at - this.windowAt;
    if (from >= 0 && from + bytes <= this.window.length) return;
    const window = this.source.read(this.at, Math.max(bytes, Math.min(WINDOW_BYTES, this.source.sizeBytes - this.at)));
    if (window.length < bytes) throw new GgufFormatError(`the file ends inside its header, at byte ${this.at}`);
    this.window = window;
    this.view = new DataView(window.buffer, window.byteOffset, window.byteLength);
    this.windowAt = this.at;
  }

  private checkEnd(bytes: number): void {
    const end = this.at + bytes;
    if (end > this.source.sizeBytes) throw new GgufFormatError(`the file ends inside its header, at byte ${this.at}`);
    if (end > this.limitBytes) throw new GgufFormatError(`a header of more than ${this.limitBytes} bytes`);
  }
}
