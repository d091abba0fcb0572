/**
 * Streaming clients that cost as little as a client can: bare sockets that count the events of chat completions. A full client library
 * would take more of the two cores than the server that is to be measured. Arguments: port, clients, seconds.
 */
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

export type ClientsMessage =
  | { kind: 'begin' }
  | { kind: 'end'; tokens: number; elapsedMs: number; finishedRequests: number };

const WARM_UP_MS = 2000;
const OUTPUT_TOKENS = 1000;
/** The chunk with finish_reason, and [DONE]. */
const EVENTS_BESIDE_TOKENS = 2;
const LINE_FEED = 10;

let events = 0;
let finishedRequests = 0;
let isOver = false;

function requestText(port: string, n: number): string {
  const body = JSON.stringify({
    model: 'fake',
    messages: [{ role: 'user', content: `Tell me story number ${n}.` }],
    max_tokens: OUTPUT_TOKENS,
    temperature: 0,
    ignore_eos: true,
    stream: true,
  });
  return (
    `POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nContent-Type: application/json\r\n` +
    `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`
  );
}

/** One answer. Resolves with its number of events, which are counted as they come. */
function stream(port: string, n: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), '127.0.0.1', () => socket.write(requestText(port, n)));
    let own = 0;
    let lastByte = 0;
    let head = '';
    socket.on('data', (bytes) => {
      if (head.length < 12) head += bytes.toString('latin1', 0, 12);
      for (const byte of bytes) {
        // An event ends with an empty line; HTTP's own lines end with a carriage return before the line feed.
        if (byte === LINE_FEED && lastByte === LINE_FEED) {
          own++;
          events++;
        }
        lastByte = byte;
      }
    });
    socket.once('error', reject);
    socket.once('close', () => {
      if (head.startsWith('HTTP/1.1 200')) resolve(own);
      else reject(new Error(`the server answered ${head}`));
    });
  });
}

async function client(port: string, index: number): Promise<void> {
  for (let n = index; !isOver; n += 1000) {
    const count = await stream(port, n);
    if (isOver) return;
    // One more where the last token is the first half of a character, which is then flushed by itself.
    const expected = OUTPUT_TOKENS + EVENTS_BESIDE_TOKENS;
    if (count !== expected && count !== expected + 1) throw new Error(`an answer of ${count} events`);
    finishedRequests++;
  }
}

const [port, clients, seconds] = process.argv.slice(2);
const running = Array.from({ length: Number(clients) }, (_, i) => client(port, i));
Promise.all(running).catch((error: Error) => {
  process.stderr.write(`${error.message}\n`);
  process.exit(1);
});
await sleep(WARM_UP_MS);
process.send?.({ kind: 'begin' } satisfies ClientsMessage);
const before = { events, finishedRequests, atMs: performance.now() };
await sleep(Number(seconds) * 1000);
const finished = finishedRequests - before.finishedRequests;
isOver = true;
process.send?.({
  kind: 'end',
  tokens: events - before.events - finished * EVENTS_BESIDE_TOKENS,
  elapsedMs: performance.now() - before.atMs,
  finishedRequests: finished,
} satisfies ClientsMessage);
