import t from 'tap';
import { CHUNK_BYTES, DIRECTION, DiskLink, LINK_BYTES, LINK_STATE, WINDOW_CHUNKS } from '../../src/shared/disk-link.js';
import { DOORBELL_BYTES, Doorbell } from '../../src/shared/doorbell.js';
import { DiskPump } from '../../src/workers/disk-pump.js';

const SLOT = 7;
/** More than the window holds, and no whole number of chunks. */
const TOTAL_BYTES = (WINDOW_CHUNKS + 3) * CHUNK_BYTES + 5;
const WHOLE = Uint8Array.from({ length: TOTAL_BYTES }, (_, i) => (i * 31 + (i >> 12)) & 255);

/** Both ends in one thread. */
function ends() {
  const buffer = new SharedArrayBuffer(LINK_BYTES);
  const states = new Map<number, Uint8Array>();
  const released: Uint8Array[] = [];
  const pump = new DiskPump(buffer, new Doorbell(new SharedArrayBuffer(DOORBELL_BYTES)), {
    stateOf: (slot) => states.get(slot),
    adopt: (slot, state) => states.set(slot, state),
    release: (state) => released.push(state),
  });
  const pumpDry = () => {
    while (pump.turn(1e6));
  };
  return { link: new DiskLink(buffer), states, released, pump, pumpDry };
}
type Ends = ReturnType<typeof ends>;

function drain({ link }: Ends): Uint8Array[] {
  const parts: Uint8Array[] = [];
  for (let chunk = link.chunkToDrain(); chunk; chunk = link.chunkToDrain()) {
    parts.push(chunk.slice());
    link.chunkDrained();
  }
  return parts;
}

function fill({ link }: Ends, state: Uint8Array): void {
  for (let chunk = link.chunkToFill(); chunk; chunk = link.chunkToFill()) {
    const at = link.byteAt(link.filled);
    chunk.set(state.subarray(at, at + chunk.length));
    link.chunkFilled();
  }
}

t.test('out: a state larger than the window arrives whole', async (t) => {
  const both = ends();
  const { link, states, pumpDry } = both;
  states.set(SLOT, WHOLE);
  link.offer(DIRECTION.out, SLOT, 0);
  const parts: Uint8Array[] = [];
  do {
    pumpDry();
    parts.push(...drain(both));
  } while (link.drained < link.chunkCount);
  t.ok(Buffer.concat(parts).equals(WHOLE));
  link.move(LINK_STATE.accepted, LINK_STATE.idle);
  pumpDry();
  link.offer(DIRECTION.out, 8, 0);
  pumpDry();
  t.equal(link.state, LINK_STATE.refused, 'a slot that is not there');
});

t.test('in: a state larger than the window arrives whole, and is there only when it is right', async (t) => {
  for (const end of [LINK_STATE.committed, LINK_STATE.aborted]) {
    const both = ends();
    const { link, states, released, pump, pumpDry } = both;
    link.offer(DIRECTION.in, SLOT, TOTAL_BYTES);
    pumpDry();
    t.equal(pump.incomingBytes, TOTAL_BYTES);
    while (link.drained < link.chunkCount) {
      fill(both, WHOLE);
      pumpDry();
    }
    t.equal(states.size, 0, 'not yet');
    link.move(LINK_STATE.accepted, end);
    pump.settle();
    pumpDry();
    t.equal(link.state, LINK_STATE.idle);
    t.equal(pump.incomingBytes, 0);
    const isRight = end === LINK_STATE.committed;
    t.equal(states.size, isRight ? 1 : 0);
    t.equal(released.length, isRight ? 0 : 1);
    if (isRight) t.ok(Buffer.from(states.get(SLOT) ?? []).equals(WHOLE));
  }
});

t.test('memory that is given back in the middle ends the transfer, in both directions', async (t) => {
  for (const direction of [DIRECTION.out, DIRECTION.in]) {
    const both = ends();
    const { link, states, released, pump, pumpDry } = both;
    states.set(SLOT, WHOLE);
    link.offer(direction, SLOT, TOTAL_BYTES);
    pumpDry();
    if (direction === DIRECTION.in) fill(both, WHOLE);
    pumpDry();
    pump.drop(8);
    t.equal(link.state, LINK_STATE.accepted, 'another slot is none of its business');
    pump.drop(SLOT);
    t.equal(link.state, LINK_STATE.refused);
    t.equal(pump.incomingBytes, 0);
    t.equal(released.length, direction === DIRECTION.in ? 1 : 0);
    const { filled } = link;
    pumpDry();
    t.equal(link.filled, filled, 'nothing is copied any more');
  }
});

t.test('a transfer that the disk worker gives up is let go of', async (t) => {
  const { link, released, pump, pumpDry } = ends();
  link.offer(DIRECTION.in, SLOT, TOTAL_BYTES);
  pumpDry();
  link.move(LINK_STATE.accepted, LINK_STATE.idle);
  pumpDry();
  t.equal(pump.incomingBytes, 0);
  t.equal(released.length, 1);
});

t.test('a state that no memory is there for is refused', async (t) => {
  const { link, pumpDry } = ends();
  link.offer(DIRECTION.in, SLOT, 2 ** 52);
  pumpDry();
  t.equal(link.state, LINK_STATE.refused);
});
