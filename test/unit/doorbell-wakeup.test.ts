import { fileURLToPath } from 'node:url';
import { isMainThread, Worker, workerData } from 'node:worker_threads';
import t from 'tap';
import { DOORBELL_BYTES, Doorbell } from '../../src/shared/doorbell.js';

/** Longer than any wait of a test that passes: a lost wake-up is then a time-out, not a delay. */
const PATIENCE_MS = 10_000;
const TURNS = 20_000;

interface PingPongData {
  ping: SharedArrayBuffer;
  pong: SharedArrayBuffer;
  /** One word a side: the turn that it has published. */
  turns: SharedArrayBuffer;
}

/** Waits until word `index` has reached `turn`. Returns false when it was never woken. */
function awaitTurn(bell: Doorbell, turns: Int32Array, index: number, turn: number): boolean {
  for (;;) {
    const seen = bell.read();
    if (Atomics.load(turns, index) >= turn) return true;
    if (!bell.wait(seen, PATIENCE_MS)) return false;
  }
}

if (isMainThread) {
  t.test('a ring between the look and the sleep is not lost', async (t) => {
    const bell = new Doorbell(new SharedArrayBuffer(DOORBELL_BYTES));
    const seen = bell.read();
    bell.ring();
    t.ok(bell.wait(seen, PATIENCE_MS), 'wait returns at once');
    const again = bell.read();
    bell.ring();
    await bell.waitAsync(again);
    t.pass('waitAsync returns at once');
  });

  t.test('nobody rings: the wait ends with false, and the bell still works', async (t) => {
    const bell = new Doorbell(new SharedArrayBuffer(DOORBELL_BYTES));
    t.notOk(bell.wait(bell.read(), 1));
    const wait = bell.waitAsync(bell.read());
    bell.ring();
    await wait;
    t.pass('waitAsync ends with the ring');
  });

  t.test('a ring of long ago does not keep a consumer awake', async (t) => {
    const bell = new Doorbell(new SharedArrayBuffer(DOORBELL_BYTES));
    bell.ring();
    t.notOk(bell.wait(bell.read(), 1));
  });

  t.test('two bells in one buffer are two bells', async (t) => {
    const buffer = new SharedArrayBuffer(2 * DOORBELL_BYTES);
    const first = new Doorbell(buffer, 0);
    const second = new Doorbell(buffer, DOORBELL_BYTES);
    first.ring();
    t.same([first.read(), second.read()], [1, 0]);
  });

  t.test('two threads take turns, each asleep while the other works', async (t) => {
    const data: PingPongData = {
      ping: new SharedArrayBuffer(DOORBELL_BYTES),
      pong: new SharedArrayBuffer(DOORBELL_BYTES),
      turns: new SharedArrayBuffer(8),
    };
    const worker = new Worker(fileURLToPath(import.meta.url), { workerData: data });
    const ended = new Promise<number>((resolve, reject) => {
      worker.once('error', reject);
      worker.once('exit', resolve);
    });
    const ping = new Doorbell(data.ping);
    const pong = new Doorbell(data.pong);
    const turns = new Int32Array(data.turns);
    let turn = 0;
    while (turn < TURNS) {
      turn++;
      Atomics.store(turns, 0, turn);
      ping.ring();
      if (!awaitTurn(pong, turns, 1, turn)) break;
    }
    t.equal(Atomics.load(turns, 1), TURNS, 'no wake-up was lost');
    t.equal(await ended, 0);
  });
} else {
  const data = workerData as PingPongData;
  const ping = new Doorbell(data.ping);
  const pong = new Doorbell(data.pong);
  const turns = new Int32Array(data.turns);
  for (let turn = 1; turn <= TURNS; turn++) {
    if (!awaitTurn(ping, turns, 0, turn)) break;
    Atomics.store(turns, 1, turn);
    pong.ring();
  }
}
