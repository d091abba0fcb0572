/** The batch records that a pipeline's overlap worker has written, read out of the ring when the work is done. */
import { WorkerSet } from '../../src/main/worker-set.js';
import { BATCH_HEADER, BATCH_RECORD_TYPE } from '../../src/shared/batch-wire.js';
import type { RingBuffers } from '../../src/shared/pipeline-buffers.js';
import { RingConsumer } from '../../src/shared/ring.js';
import { RING_DATA_BYTE, RING_HEAD_BYTE, RING_TAIL_BYTE } from '../../src/shared/ring-layout.js';

/** Runs `start`, which starts one pipeline, and keeps hold of its rings: nothing else hands them out. */
export async function withRings<T>(start: () => Promise<T>): Promise<{ started: T; rings: RingBuffers }> {
  const original = WorkerSet.prototype.start;
  let rings: RingBuffers | null = null;
  WorkerSet.prototype.start = function (this: WorkerSet, ...[buffers, options]: Parameters<typeof original>) {
    rings = buffers;
    original.call(this, buffers, options);
  };
  try {
    const started = await start();
    if (!rings) throw new Error('no pipeline was started');
    return { started, rings };
  } finally {
    WorkerSet.prototype.start = original;
  }
}

/**
 * Every batch record since the start, oldest first. A ring keeps what was read from it until it comes round again.
 * @throws when it has: a test that lost its beginning proves nothing.
 */
export function batchRecords({ batch }: RingBuffers): Int32Array[] {
  const copy = new SharedArrayBuffer(batch.byteLength);
  const words = new Int32Array(copy);
  words.set(new Int32Array(batch));
  const writtenBytes = words[RING_TAIL_BYTE >> 2];
  if (writtenBytes < 0 || writtenBytes > batch.byteLength - RING_DATA_BYTE)
    throw new Error('the batch ring has come round: its first records are gone');
  words[RING_HEAD_BYTE >> 2] = 0;
  const ring = new RingConsumer(copy);
  const records: Int32Array[] = [];
  for (let record = ring.peek(); record; record = ring.peek()) {
    if (record.type !== BATCH_RECORD_TYPE) throw new Error('the context has moved between these records');
    records.push(ring.payloadWords.slice(record.at, record.at + record.lengthWords));
    ring.release();
  }
  return records.filter((record) => record[BATCH_HEADER.opCount] + record[BATCH_HEADER.segmentCount] > 0);
}
