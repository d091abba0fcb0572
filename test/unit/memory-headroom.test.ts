import fc from 'fast-check';
import t from 'tap';
import { deviceMemoryOf, headroom, headroomOf, hostHeadroomOf, limitOf } from '../../src/shared/memory/headroom.js';
import { GIB, readings } from './memory-machines.js';

t.test('headroom is the smallest term and never negative', async () => {
  const term = fc.oneof(fc.constant(null), fc.integer({ min: -1e12, max: 1e12 }));
  fc.assert(
    fc.property(term, fc.nat(1e12), term, term, (deviceLimitBytes, deviceUsedBytes, system, cgroup) => {
      const result = headroom({
        deviceLimitBytes,
        deviceUsedBytes,
        systemAvailableBytes: system,
        cgroupHeadroomBytes: cgroup,
      });
      const present = result.terms.map((one) => one.bytes);
      if (present.length === 0) return result.bytes === 0;
      const least = Math.min(...present);
      const binding = result.terms.find((one) => one.source === result.binds);
      return result.bytes === Math.max(least, 0) && binding?.bytes === least;
    }),
  );
});

t.test('each kind of memory has its own terms', async (t) => {
  const all = readings({
    deviceTotalBytes: 16 * GIB,
    deviceFreeBytes: 10 * GIB,
    systemTotalBytes: 24 * GIB,
    systemAvailableBytes: 8 * GIB,
    cgroupLimitBytes: 6 * GIB,
    cgroupUsedBytes: 3 * GIB,
    cgroupReclaimableBytes: 1 * GIB,
  });
  t.match(headroomOf(all, 'unified'), { bytes: 4 * GIB, binds: 'cgroup' });
  t.match(headroomOf({ ...all, cgroupLimitBytes: 0 }, 'unified'), { bytes: 8 * GIB, binds: 'system' });
  t.match(headroomOf(all, 'discrete'), { bytes: 10 * GIB, binds: 'device' }, 'RAM says nothing of a card');
  t.match(hostHeadroomOf(all), { bytes: 4 * GIB, binds: 'cgroup' });
  t.match(
    headroomOf(all, 'host').terms.map((one) => one.source),
    ['system', 'cgroup'],
    'a CPU calls all RAM free',
  );
});

t.test('the limit is the device, else the smaller of RAM and cgroup', async (t) => {
  const host = readings({ systemTotalBytes: 8 * GIB, systemAvailableBytes: 5 * GIB });
  t.same(limitOf(host, 'host'), { limitBytes: 8 * GIB, usedBytes: 3 * GIB, source: 'system' });
  const group = { ...host, cgroupLimitBytes: 2 * GIB, cgroupUsedBytes: GIB, cgroupReclaimableBytes: GIB / 2 };
  t.same(limitOf(group, 'host'), { limitBytes: 2 * GIB, usedBytes: GIB / 2, source: 'cgroup' });
  t.same(limitOf({ ...group, cgroupLimitBytes: 64 * GIB }, 'host').source, 'system', 'a limit above RAM is none');
});

t.test('Metal is unified although its backend says gpu', async (t) => {
  t.equal(deviceMemoryOf({ kind: 'gpu', name: 'MTL0' }), 'unified');
  t.equal(deviceMemoryOf({ kind: 'gpu', name: 'Metal' }), 'unified');
  t.equal(deviceMemoryOf({ kind: 'integrated-gpu', name: 'Vulkan0' }), 'unified');
  t.equal(deviceMemoryOf({ kind: 'gpu', name: 'CUDA0' }), 'discrete');
  t.equal(deviceMemoryOf({ kind: 'cpu', name: 'CPU' }), 'host');
});
