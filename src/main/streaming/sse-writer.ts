import type { OutgoingHttpHeaders, ServerResponse } from 'node:http';
import type { WriteBatcher } from './write-batcher.js';

export interface SseOptions {
  /** Silence after which a comment is sent, ms. Node's fetch gives up after five silent minutes, proxies much earlier. */
  pingIntervalMs: number;
  /** Bytes that may wait for a client that does not read. */
  bufferLimitBytes: number;
  /** The client is gone, or has let more than the limit pile up. Called at most once, never after `end`. */
  onLost: (reason: 'closed' | 'too-slow') => void;
}

/**
 * Server-sent events on a raw response. Events queued in the same turn of the event loop leave in one write. A client that does not
 * read is dropped when its buffer is over the limit: tokens cannot wait in the device for one reader.
 */
export class SseWriter {
  private pending = '';
  private isOver = false;
  private wroteSincePing = false;
  private pingTimer: NodeJS.Timeout | null = null;

  constructor(
    private readonly raw: ServerResponse,
    private readonly batcher: WriteBatcher,
    private readonly options: SseOptions,
  ) {
    raw.on('close', () => this.lose('closed'));
    raw.on('error', () => this.lose('closed'));
  }

  get isOpen(): boolean {
    return this.raw.headersSent;
  }

  /** Sends the status line and the headers with the first write. */
  open(headers: OutgoingHttpHeaders): void {
    if (this.isOver || this.isOpen) return;
    this.raw.writeHead(200, {
      ...headers,
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache, no-transform',
      'x-accel-buffering': 'no',
    });
    // Two looks an interval, so that the longest silence is one interval.
    this.pingTimer = setInterval(() => this.ping(), Math.max(1, this.options.pingIntervalMs / 2));
  }

  /** `text` is one or more whole events, ready to send. */
  write(text: string): void {
    if (this.isOver) return;
    if (this.pending === '') this.batcher.add(this);
    this.pending += text;
  }

  /** An event whose data is `json`, one line. */
  event(json: string): void {
    this.write(`data: ${json}\n\n`);
  }

  comment(text: string): void {
    this.write(`: ${text}\n\n`);
  }

  /** Writes what is queued, and `last`, and ends the response. */
  end(last = ''): void {
    if (this.isOver) return;
    const rest = this.pending + last;
    this.finish();
    if (!this.raw.destroyed) this.raw.end(rest);
  }

  /** For the batcher. */
  flush(): void {
    if (this.isOver) return;
    const text = this.pending;
    this.pending = '';
    if (text === '') return;
    this.wroteSincePing = true;
    this.raw.write(text);
    if (this.raw.writableLength > this.options.bufferLimitBytes) this.lose('too-slow');
  }

  private ping(): void {
    if (!this.wroteSincePing) this.comment('ping');
    this.wroteSincePing = false;
  }

  private lose(reason: 'closed' | 'too-slow'): void {
    if (this.isOver) return;
    this.finish();
    if (reason === 'too-slow') this.raw.destroy();
    this.options.onLost(reason);
  }

  private finish(): void {
    this.isOver = true;
    this.pending = '';
    if (this.pingTimer !== null) clearInterval(this.pingTimer);
  }
}
