import t from 'tap';
import { RUNG_NONE } from '../../src/shared/context-wire.js';
import { type RungInput, type RungLimits, RungPolicy } from '../../src/shared/memory/rung-policy.js';

/** Three rungs of 1000 bytes a cell; the top takes 400,000 bytes more than the middle one. */
const LIMITS: RungLimits = {
  rungs: [
    { sequences: 4, cells: 200, bytes: 200_000 },
    { sequences: 4, cells: 400, bytes: 400_000 },
    { sequences: 4, cells: 800, bytes: 800_000 },
  ],
  cellBytes: 1000,
  marginBytes: 80_000,
  idleReleaseMs: 0,
  isSharedMemory: true,
};

function input(changes: Partial<RungInput>): RungInput {
  return {
    nowMs: 0,
    rung: 1,
    wantedCells: 800,
    wantedSequences: 0,
    longestCells: 0,
    usedCells: 100,
    activeCells: 0,
    runningRequests: 0,
    isStalled: false,
    hasWork: true,
    headroomBytes: 2_000_000,
    pressureLevel: 0,
    ...changes,
  };
}

t.test('copies on the way up are charged beside the larger context', async (t) => {
  const move = new RungPolicy(LIMITS, 0).decide(input({ headroomBytes: 700_000 }));
  t.equal(move?.rung, 2);
  // 700,000 free, 400,000 of it for the growth, half of the margin stays.
  t.equal(move?.copyBytes, 260_000);
});

t.test('copies on the way down are charged beside the old context', async (t) => {
  const policy = new RungPolicy(LIMITS, 0);
  const pressed = input({ rung: 2, wantedCells: 0, headroomBytes: 30_000 });
  t.equal(policy.decide(pressed), null, 'a spike is not pressure');
  const move = policy.decide({ ...pressed, headroomBytes: 39_000, nowMs: 600 });
  t.equal(move?.rung, 1, 'the highest that gives back enough');
  t.equal(move?.copyBytes, 0, 'a copy would take what the context gives back only later');
});

t.test('where nothing stands, nothing is copied', async (t) => {
  const back = new RungPolicy(LIMITS, 0).decide(input({ rung: RUNG_NONE }));
  t.equal(back?.rung, 2);
  t.equal(back?.copyBytes, 0);
  const away = new RungPolicy({ ...LIMITS, idleReleaseMs: 1000 }, 0).decide(input({ hasWork: false, nowMs: 5000 }));
  t.equal(away?.rung, RUNG_NONE);
  t.equal(away?.copyBytes, 0);
});

t.test('a plan that fills the memory reaches its own top', async (t) => {
  // The top leaves the margin less what the backend has taken since; nothing can be copied beside it.
  const tight = input({ usedCells: 400, headroomBytes: 400_000 + 65_000 });
  const policy = new RungPolicy(LIMITS, 0);
  t.equal(policy.decide(tight)?.rung, 2);
  const busy = { ...tight, activeCells: 10, nowMs: 9_000 };
  t.equal(policy.decide(busy), null, 'not soon after a move: what is left behind costs seconds');
  t.equal(policy.canClimb({ ...busy, activeCells: 0 }), true, 'but where nothing can run without it');
  const cheap = { ...busy, usedCells: 20 };
  t.equal(policy.decide(cheap)?.rung, 2, 'at once where all can be copied');
  const at = (leftBytes: number, activeCells: number) =>
    policy.canClimb({ ...tight, activeCells, headroomBytes: 400_000 + leftBytes, nowMs: 60_000 });
  t.equal(at(53_000, 10), true, 'two thirds of the margin');
  t.equal(at(51_000, 10), false, 'are left while anything runs');
  t.equal(at(41_000, 0), true, 'half where nothing can run without it');
  t.equal(at(39_000, 0), false, 'never into the rest');
});

t.test('a climb takes what is had in no time at once', async (t) => {
  const asked = input({ rung: 0, wantedCells: 300, headroomBytes: 900_000 });
  t.equal(new RungPolicy(LIMITS, 0).decide(asked)?.rung, 2);
  const huge = {
    ...LIMITS,
    rungs: LIMITS.rungs.map((rung) => ({ ...rung, bytes: rung.bytes * 10_000 })),
    cellBytes: 0,
  };
  t.equal(
    new RungPolicy(huge, 0).decide({ ...asked, headroomBytes: 2 ** 40 })?.rung,
    1,
    'what takes seconds only as far as asked',
  );
});

t.test('what running requests have computed is not given up for a climb, unless none of them can go on', async (t) => {
  // 100,000 beside the larger context, half of the margin stays: 60 cells can be carried.
  const tight = input({ usedCells: 300, activeCells: 61, headroomBytes: 500_000, nowMs: 60_000 });
  t.equal(new RungPolicy(LIMITS, 0).canClimb(tight), false);
  t.equal(new RungPolicy(LIMITS, 0).decide(tight), null);
  t.equal(new RungPolicy(LIMITS, 0).decide({ ...tight, activeCells: 60 })?.rung, 2, 'cached prefixes are');
  t.equal(new RungPolicy(LIMITS, 0).decide({ ...tight, isStalled: true })?.rung, 2);
  t.equal(
    new RungPolicy(LIMITS, 0).decide({ ...tight, usedCells: 50, activeCells: 50, headroomBytes: 465_000 })?.rung,
    2,
    'little for much',
  );
});

t.test('what a climb took is charged until the readings must show it', async (t) => {
  const policy = new RungPolicy(LIMITS, 0);
  // The reading is older than the first climb, which took 200,000 bytes.
  const stale = input({ rung: 0, wantedCells: 400, headroomBytes: 635_000 });
  t.equal(policy.decide(stale)?.rung, 1);
  const again = { ...stale, rung: 1, wantedCells: 800, nowMs: 200, headroomBytes: 630_000 };
  t.equal(policy.decide(again), null, '400,000 more would leave 30,000');
  t.equal(policy.decide({ ...again, nowMs: 1_000 })?.rung, 2, 'by then the reading is believed');
});

t.test('a move that is wanted is told before it is made, as often as asked', async (t) => {
  const policy = new RungPolicy(LIMITS, 0);
  const pressed = input({ rung: 2, wantedCells: 0, headroomBytes: 30_000 });
  t.notOk(policy.wantsMove(pressed), 'pressure must last');
  t.ok(policy.wantsMove({ ...pressed, nowMs: 600 }));
  t.ok(policy.wantsMove({ ...pressed, nowMs: 650 }), 'steps in flight have not ended yet');
  t.equal(policy.decide({ ...pressed, nowMs: 700 })?.rung, 1);
  t.notOk(policy.wantsMove({ ...pressed, rung: 1, nowMs: 750 }));
});

t.test('lasting pressure takes a rung even from running requests that fill it', async (t) => {
  const policy = new RungPolicy(LIMITS, 0);
  const pressed = input({ rung: 2, wantedCells: 0, usedCells: 700, headroomBytes: 30_000 });
  t.equal(policy.decide(pressed), null, 'a spike is not pressure');
  t.equal(policy.decide({ ...pressed, nowMs: 600 })?.rung, 1, 'one rung down, not all');
  const lowest = { ...pressed, rung: 0, usedCells: 200 };
  t.equal(policy.decide({ ...lowest, nowMs: 10_000 }), null, 'below the lowest there is nothing');
});

t.test('a steady fall is foreseen, a jump is not', async (t) => {
  const policy = new RungPolicy(LIMITS, 0);
  const at = (nowMs: number, headroomBytes: number) => input({ rung: 2, wantedCells: 0, nowMs, headroomBytes });
  for (let i = 0; i <= 15; i++) t.notOk(policy.wantsMove(at(i * 100, 400_000 - i * 10_000)), 'enough for two seconds');
  t.ok(policy.wantsMove(at(1_700, 230_000)), 'far from half of the margin, and there within two seconds');
  const jumped = new RungPolicy(LIMITS, 0);
  for (let i = 0; i <= 20; i++) t.notOk(jumped.wantsMove(at(i * 100, i < 8 ? 400_000 : 100_000)));
});

t.test('in need nothing is waited for, and enough is given back at once', async (t) => {
  const policy = new RungPolicy(LIMITS, 0);
  const need = input({ rung: 2, wantedCells: 0, headroomBytes: 10_000 });
  t.equal(policy.decide(need)?.rung, 1);
  t.equal(policy.decide({ ...need, rung: 1, nowMs: 100 }), null, 'the reading may be from before');
  t.equal(policy.decide({ ...need, rung: 1, nowMs: 600 })?.rung, 0, 'it was not enough');
  t.equal(policy.decide({ ...need, rung: 0, nowMs: 1_200 })?.rung, RUNG_NONE, 'and the last there is');
});

t.test('what was put away in need comes back when there is memory, and not before', async (t) => {
  const policy = new RungPolicy(LIMITS, 0);
  const away = input({ rung: RUNG_NONE, wantedCells: 0, headroomBytes: 10_000 });
  t.equal(policy.decide(away), null);
  t.equal(policy.decide({ ...away, nowMs: 5_000, headroomBytes: 230_000 }), null, 'the lowest would leave nothing');
  t.equal(policy.decide({ ...away, nowMs: 5_500, headroomBytes: 240_000 })?.rung, 0);
  const wide = new RungPolicy(LIMITS, 0);
  const back = wide.decide({ ...away, wantedCells: 800, headroomBytes: 500_000 });
  t.equal(back?.rung, 1, 'the highest that fits');
});

t.test('a step is given up only where memory will not last until its end', async (t) => {
  const policy = new RungPolicy(LIMITS, 0);
  const at = (nowMs: number, headroomBytes: number) => input({ rung: 2, wantedCells: 0, nowMs, headroomBytes });
  for (let i = 0; i < 10; i++)
    t.equal(policy.rescue(at(i * 100, 500_000 - i * 20_000), 100), null, 'it ends soon: the context moves in order');
  t.equal(policy.rescue(at(1_000, 300_000), 500), null, 'memory lasts');
  t.equal(policy.rescue(at(1_100, 270_000), 2_000)?.rung, 0, 'it does not; and the middle would not hold for long');
  t.equal(policy.rescue(at(1_200, 5_000), 2_000), null, 'once');
});

t.test('a fall that begins with a climb is answered before it is need', async (t) => {
  const falling = new RungPolicy(LIMITS, 0);
  t.equal(falling.decide(input({ headroomBytes: 470_000 }))?.rung, 2);
  const moves = Array.from({ length: 15 }, (_, i) => i + 1)
    .map((i) => ({
      i,
      move: falling.decide(input({ rung: 2, wantedCells: 0, nowMs: i * 100, headroomBytes: 70_000 - i * 2_000 })),
    }))
    .filter(({ move }) => move !== null);
  t.equal(moves[0]?.move?.rung, 1);
  t.ok(moves[0].i < 10, 'long before the three seconds between moves');
});

t.test('no climb into memory that others are taking', async (t) => {
  const policy = new RungPolicy(LIMITS, 0);
  const asked = (ms: number, leftBytes: number) => input({ nowMs: ms, headroomBytes: 400_000 + leftBytes });
  const idle = { wantedCells: 0 };
  for (let i = 0; i <= 8; i++) policy.decide({ ...asked(i * 100, 160_000 - i * 6_000), ...idle });
  t.equal(policy.decide(asked(900, 106_000)), null, 'in two seconds nothing of it is left');
  t.equal(new RungPolicy(LIMITS, 0).decide(asked(900, 106_000))?.rung, 2);
});

t.test('files may be written until memory is short in earnest', async (t) => {
  const pressed = input({ rung: 2, wantedCells: 0, headroomBytes: 30_000 });
  const flat = new RungPolicy(LIMITS, 0);
  flat.decide(pressed);
  t.equal(flat.decide({ ...pressed, nowMs: 600 })?.spillMs, 2_000, 'it does not fall: as long as anybody should wait');
  const need = new RungPolicy(LIMITS, 0).decide({ ...pressed, headroomBytes: 10_000 });
  t.equal(need?.rung, 1);
  t.equal(need?.spillMs, 0, 'less than a quarter of the margin: at once');
  const falling = new RungPolicy(LIMITS, 0);
  const at = (i: number) => ({ ...pressed, nowMs: i * 100, headroomBytes: 400_000 - i * 10_000 });
  for (let i = 0; i <= 15; i++) falling.decide(at(i));
  const move = falling.decide(at(17));
  // 100 bytes a ms; 230,000 less a quarter of the margin and what goes in 300 ms are left.
  t.equal(move?.spillMs, 1_800);
  t.equal(move?.copyBytes, 0, 'a copy would take what is gone in two seconds');
  t.equal(move?.cacheBytes, 140_000, 'of files stays what leaves a quarter of the margin when the old context goes');
  t.equal(falling.rescue({ ...pressed, nowMs: 10_000, headroomBytes: 5_000 }, 2_000)?.spillMs, 0, 'not in a rescue');
});

t.test('a climb that cannot copy everything may use files beside the larger context', async (t) => {
  const tight = input({ usedCells: 400, activeCells: 400, isStalled: true, headroomBytes: 400_000 + 65_000 });
  const climb = new RungPolicy(LIMITS, 0).decide(tight);
  t.equal(climb?.spillMs, 2_000);
  t.equal(climb?.cacheBytes, 45_000, 'beside the larger one');
  const away = new RungPolicy(LIMITS, 0).decide(input({ rung: RUNG_NONE }));
  t.equal(away?.spillMs, 0, 'nothing stands');
});

/** Streams from 1000 cells of 1000 bytes: half of it first, then five short ones, two longer, one with all. */
const SHAPES: RungLimits = {
  ...LIMITS,
  rungs: [
    { sequences: 2, cells: 200, bytes: 400_000 },
    { sequences: 5, cells: 200, bytes: 1_000_000 },
    { sequences: 2, cells: 500, bytes: 1_000_000 },
    { sequences: 1, cells: 1000, bytes: 1_000_000 },
  ],
};
const calm = { wantedCells: 0, nowMs: 60_000, usedCells: 0, headroomBytes: 1_000_000 };

t.test('more requests than streams: as many streams as memory gives, of the length that runs', async (t) => {
  const move = (changes: Partial<RungInput>) => new RungPolicy(SHAPES, 0).decide(input({ ...calm, ...changes }));
  t.equal(move({ rung: 0, wantedSequences: 3 })?.rung, 1);
  t.match(move({ rung: 0, wantedSequences: 3 })?.reason ?? '', /ask for 3 streams/);
  t.equal(move({ rung: 0, wantedSequences: 3, headroomBytes: 500_000 }), null, 'there is no memory for them');
  t.equal(move({ rung: 0, wantedSequences: 2 }), null, 'those there are will do');
  t.equal(move({ rung: 2, wantedSequences: 3 })?.rung, 1, 'back to shorter ones costs nothing');
  t.equal(move({ rung: 2, wantedSequences: 3, longestCells: 201 }), null, 'but not while a longer one is needed');
});

t.test('more streams than were asked for only where they are had in no time', async (t) => {
  const GIB = 2 ** 30;
  const rungs = [1, 2, 4, 8].map((sequences) => ({ sequences, cells: 4096, bytes: sequences * GIB }));
  const wish = input({ ...calm, rung: 0, wantedSequences: 2, headroomBytes: 20 * GIB });
  const policy = new RungPolicy({ ...SHAPES, rungs }, 0);
  t.equal(policy.decide(wish)?.rung, 1, 'a gigabyte more is; three are not');
  const four = new RungPolicy({ ...SHAPES, rungs }, 0).decide({ ...wish, wantedSequences: 3 });
  t.equal(four?.rung, 2, 'what is asked for is had in any time');
  const small = [1, 2, 4, 8].map((sequences) => ({ sequences, cells: 512, bytes: (sequences * GIB) / 8 }));
  t.equal(new RungPolicy({ ...SHAPES, rungs: small }, 0).decide(wish)?.rung, 2, 'half a gigabyte before any was made');
  const quick = new RungPolicy({ ...SHAPES, rungs: small }, 0);
  quick.noteMade(0, 50);
  t.equal(quick.decide(wish)?.rung, 3);
  const slow = new RungPolicy({ ...SHAPES, rungs: small }, 0);
  slow.noteMade(0, 500);
  t.equal(slow.decide(wish)?.rung, 1, 'not where making the last context took long');
});

t.test('a longer request: the shortest streams that hold it, whatever else they are', async (t) => {
  const move = (changes: Partial<RungInput>) => new RungPolicy(SHAPES, 0).decide(input({ ...calm, ...changes }));
  t.equal(move({ wantedCells: 300 })?.rung, 2);
  t.equal(move({ wantedCells: 501 })?.rung, 3);
  t.equal(
    move({ wantedCells: 300, usedCells: 400, activeCells: 400, headroomBytes: 60_000 }),
    null,
    'not while it would cost what runs',
  );
  const stalled = { wantedCells: 300, usedCells: 400, activeCells: 400, headroomBytes: 60_000, isStalled: true };
  t.equal(move(stalled)?.rung, 2, 'but when nothing goes on without it');
});

t.test('who runs is not sent away for longer streams', async (t) => {
  const wish = input({ ...calm, rung: 1, wantedCells: 300, activeCells: 90, usedCells: 90, runningRequests: 3 });
  const policy = () => new RungPolicy(SHAPES, 0);
  t.equal(policy().canClimb(wish), false, 'two long ones are no place for three');
  t.equal(policy().decide(wish), null);
  t.equal(policy().decide({ ...wish, runningRequests: 2 })?.rung, 2);
  t.equal(policy().decide({ ...wish, isStalled: true })?.rung, 2, 'but when nothing goes on without it');
});

t.test('longer streams are never a lower rung', async (t) => {
  // What rounding makes of a ladder: the few streams that lower pools hold are a little longer than those of the top.
  const rungs = [
    { sequences: 1, cells: 260, bytes: 300_000 },
    { sequences: 5, cells: 200, bytes: 1_000_000 },
    { sequences: 1, cells: 1000, bytes: 1_000_000 },
  ];
  const wish = input({ ...calm, rung: 1, wantedCells: 201, headroomBytes: 1_000_000 });
  t.equal(new RungPolicy({ ...SHAPES, rungs }, 0).decide(wish)?.rung, 2);
});

t.test('longer streams are not given up at once', async (t) => {
  const policy = new RungPolicy(SHAPES, 0);
  t.equal(policy.decide(input({ ...calm, wantedCells: 300 }))?.rung, 2);
  const after = { ...calm, rung: 2, wantedSequences: 4 };
  t.equal(policy.decide(input({ ...after, nowMs: 65_000 })), null);
  t.equal(policy.decide(input({ ...after, nowMs: 71_000 }))?.rung, 1);
});

t.test('what may be asked for is told before it is', async (t) => {
  const policy = new RungPolicy(SHAPES, 0);
  const at = (rung: number, changes: Partial<RungInput> = {}) => input({ ...calm, rung, ...changes });
  t.equal(policy.canSpread(at(0)), true);
  t.equal(policy.canSpread(at(1)), false, 'there are no more anywhere');
  t.equal(policy.canSpread(at(0, { headroomBytes: 100_000 })), false);
  t.equal(policy.canClimb(at(1, { headroomBytes: 70_000 })), true, 'longer ones take no more memory');
  t.equal(policy.canClimb(at(3)), false, 'there are no longer ones');
  t.equal(new RungPolicy(LIMITS, 0).canSpread(input({ rung: 0 })), false, 'a pool has no streams');
});

t.test('pressure takes streams before it takes their length', async (t) => {
  const policy = new RungPolicy(SHAPES, 0);
  const pressed = input({ ...calm, rung: 2, headroomBytes: 30_000 });
  t.equal(policy.decide(pressed), null);
  t.equal(policy.decide({ ...pressed, nowMs: calm.nowMs + 600 })?.rung, 0);
});
