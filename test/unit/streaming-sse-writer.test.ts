import { EventEmitter } from 'node:events';
import type { ServerResponse } from 'node:http';
import t from 'tap';
import { SseWriter } from '../../src/main/streaming/sse-writer.js';
import { WriteBatcher } from '../../src/main/streaming/write-batcher.js';

/** As much of a response as the writer uses. */
class FakeResponse extends EventEmitter {
  headersSent = false;
  destroyed = false;
  writableLength = 0;
  readonly writes: string[] = [];
  ended: string | null = null;
  writeHead(): void {
    this.headersSent = true;
  }
  write(text: string): void {
    this.writes.push(text);
  }
  end(text: string): void {
    this.ended = text;
  }
  destroy(): void {
    this.destroyed = true;
  }
}

function setUp(bufferLimitBytes = 100) {
  const raw = new FakeResponse();
  const lost: string[] = [];
  const options = { pingIntervalMs: 60_000, bufferLimitBytes, onLost: (reason: string) => void lost.push(reason) };
  const batcher = new WriteBatcher();
  const writer = new SseWriter(raw as unknown as ServerResponse, batcher, options);
  writer.open({});
  return { raw, lost, writer };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

t.test('events of one turn leave in one write', async (t) => {
  const { raw, writer } = setUp();
  writer.event('1');
  writer.event('2');
  t.same(raw.writes, []);
  await turn();
  t.same(raw.writes, ['data: 1\n\ndata: 2\n\n']);
  writer.event('3');
  await turn();
  t.equal(raw.writes.length, 2);
  writer.end();
});

t.test('what is queued at the end goes out with it, once', async (t) => {
  const { raw, writer, lost } = setUp();
  writer.event('1');
  writer.end('data: [DONE]\n\n');
  await turn();
  t.equal(raw.ended, 'data: 1\n\ndata: [DONE]\n\n');
  t.same(raw.writes, []);
  raw.emit('close');
  t.same(lost, [], 'a close after the end loses nobody');
});

t.test('a client that does not read is dropped at the limit', async (t) => {
  const { raw, writer, lost } = setUp(100);
  raw.writableLength = 100;
  writer.event('1');
  await turn();
  t.same(lost, []);
  raw.writableLength = 101;
  writer.event('2');
  await turn();
  t.same(lost, ['too-slow']);
  t.equal(raw.destroyed, true);
  writer.event('3');
  await turn();
  t.equal(raw.writes.length, 2, 'nothing more is written');
});

t.test('a closed connection is reported once', async (t) => {
  const { raw, writer, lost } = setUp();
  raw.emit('error', new Error('reset'));
  raw.emit('close');
  writer.event('1');
  await turn();
  t.same(lost, ['closed']);
  t.same(raw.writes, []);
});
