import fc from 'fast-check';
import t from 'tap';
import { chooseEvictions, evictionOrder, type IdlePrefix } from '../../src/shared/memory/eviction-order.js';

const prefix = (id: number, changes: Partial<IdlePrefix> = {}): IdlePrefix => ({
  id,
  freesCells: 100,
  freesBytes: 0,
  tokens: 100,
  hits: 0,
  lastUsedMs: 0,
  pinned: false,
  ...changes,
});

t.test('the old and unused go before the young and asked for', async (t) => {
  const order = evictionOrder([prefix(1, { lastUsedMs: 90_000 }), prefix(2), prefix(3, { hits: 5 })], 100_000);
  t.same(
    order.map((one) => one.id),
    [2, 1, 3],
  );
});

t.test('a pinned prefix never goes, nor one that frees nothing', async (t) => {
  const choice = chooseEvictions(
    [prefix(1, { pinned: true }), prefix(2, { freesCells: 0 })],
    { cells: 50, bytes: 0 },
    0,
  );
  t.same(choice, { ids: [], freedCells: 0, freedBytes: 0, fits: false });
});

t.test('nothing is lost for nothing', async (t) => {
  const all = [prefix(1), prefix(2)];
  t.same(chooseEvictions(all, { cells: 201, bytes: 0 }, 0).ids, []);
  t.same(chooseEvictions(all, { cells: 201, bytes: 0 }, 0, true).ids, [1, 2]);
});

t.test('small ones are spared when a large one had to go anyway', async (t) => {
  const all = [prefix(1, { freesCells: 10, tokens: 1 }), prefix(2, { freesCells: 500 })];
  t.same(chooseEvictions(all, { cells: 400, bytes: 0 }, 0).ids, [2]);
});

t.test('it stops as soon as it fits: no chosen prefix could be spared', async () => {
  const anyPrefix = fc.record({
    freesCells: fc.nat(500),
    freesBytes: fc.nat(500),
    tokens: fc.integer({ min: 1, max: 5000 }),
    hits: fc.nat(5),
    lastUsedMs: fc.nat(1e6),
    pinned: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.array(anyPrefix, { maxLength: 20 }), fc.nat(2000), fc.nat(2000), (fields, cells, bytes) => {
      const all = fields.map((one, id) => ({ ...one, id }));
      const choice = chooseEvictions(all, { cells, bytes }, 1e6);
      const taken = all.filter((one) => choice.ids.includes(one.id));
      if (taken.some((one) => one.pinned)) return false;
      const free = all.filter((one) => !one.pinned);
      const sum = (list: IdlePrefix[], key: 'freesCells' | 'freesBytes') => list.reduce((n, one) => n + one[key], 0);
      const possible = sum(free, 'freesCells') >= cells && sum(free, 'freesBytes') >= bytes;
      if (choice.fits !== possible) return false;
      if (!choice.fits) return taken.length === 0;
      return (
        choice.freedCells >= cells &&
        choice.freedBytes >= bytes &&
        taken.every((one) => choice.freedCells - one.freesCells < cells || choice.freedBytes - one.freesBytes < bytes)
      );
    }),
    { numRuns: 500 },
  );
});
