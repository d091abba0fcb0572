import t from 'tap';
import { Ledger, usedBytesOf } from '../../src/shared/memory/ledger.js';
import { MIB } from './memory-machines.js';

t.test('the ledger adds up, and what nobody owns is unexplained', async (t) => {
  const ledger = new Ledger();
  ledger.set('weights', 100 * MIB);
  ledger.set('kvActive', 30 * MIB);
  ledger.set('kvActive', 40 * MIB);
  ledger.set('compute', 10 * MIB);
  t.equal(ledger.total(), 150 * MIB);
  t.equal(ledger.unexplainedBytes(160 * MIB), 10 * MIB);
  t.equal(ledger.unexplainedBytes(140 * MIB), -10 * MIB, 'pages that were not touched yet');
  t.equal(ledger.alarms(160 * MIB), false);
  t.equal(ledger.alarms(150 * MIB + 129 * MIB), true);
  t.same(
    ledger.lines().reduce((sum, line) => sum + line.bytes, 0),
    150 * MIB,
  );
});

t.test('a wrong number is refused where it is written', async (t) => {
  const ledger = new Ledger();
  t.throws(() => ledger.set('weights', -1), RangeError);
  t.throws(() => ledger.set('weights', Number.NaN), RangeError);
  t.throws(() => ledger.set('weights', 1.5), RangeError);
});

t.test('use is the larger of device and process', async (t) => {
  t.equal(usedBytesOf(5, 3), 5);
  t.equal(usedBytesOf(2, 3), 3);
});
