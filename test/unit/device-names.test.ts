import t from 'tap';
import { asNamed } from '../../src/workers/device-names.js';
import { memoryOf } from '../../src/workers/start-forward.js';

const DEVICES = [
  { name: 'CUDA0', description: '', kind: 'gpu', totalBytes: 1, freeBytes: 1 },
  { name: 'CPU', description: '', kind: 'cpu', totalBytes: 1, freeBytes: 1 },
] as const;

t.test('a device is the same in any case, for the engine and for the plan', async (t) => {
  t.same(asNamed(['cuda0', 'nope'], DEVICES), ['CUDA0', 'nope']);
  t.equal(memoryOf([...DEVICES], asNamed(['cuda0'], DEVICES)), 'discrete');
  t.equal(memoryOf([...DEVICES], asNamed(['cpu'], DEVICES)), 'host');
});
