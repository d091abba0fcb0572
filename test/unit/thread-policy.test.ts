import t from 'tap';
import { ThreadPolicy } from '../../src/shared/scheduler/thread-policy.js';

/** Steps of 10 ms on a machine that leaves the threads `freeCores`. */
function run(policy: ThreadPolicy, freeCores: number, steps: number, fromMs: number): number {
  let nowMs = fromMs;
  for (let i = 0; i < steps; i++) {
    nowMs += 10;
    policy.stepRan(policy.threads, 10_000, 9_500 * Math.min(policy.threads, freeCores), nowMs);
  }
  return nowMs;
}

t.test('threads that wait for a core are taken away, and come back when cores lie idle', async (t) => {
  const policy = new ThreadPolicy({ max: 2 });
  let nowMs = run(policy, 2, 20, 0);
  t.equal(policy.threads, 2, 'alone on the machine');
  nowMs = run(policy, 1.33, 20, nowMs);
  t.equal(policy.threads, 1, 'beside a busy process');
  nowMs += 2_000;
  policy.coresIdle(0.3, nowMs);
  t.equal(policy.threads, 1, 'the neighbour is still there');
  policy.coresIdle(0.9, nowMs);
  t.equal(policy.threads, 2, 'it has left');
});

t.test('one late step changes nothing, and changes do not swing', async (t) => {
  const policy = new ThreadPolicy({ max: 8 });
  let nowMs = run(policy, 8, 5, 1_000);
  nowMs = run(policy, 5, 1, nowMs);
  t.equal(policy.threads, 8);
  nowMs = run(policy, 4, 40, nowMs);
  t.equal(policy.threads, 4, 'what the machine leaves');
  const before = policy.threads;
  policy.coresIdle(4, nowMs);
  t.equal(policy.threads, before, 'not up again at once');
});

t.test('a start on a busy machine begins with what is idle, and with one thread at least', async (t) => {
  const policy = new ThreadPolicy({ max: 4 });
  policy.begin(1.2, 0);
  t.equal(policy.threads, 1);
  policy.begin(0, 0);
  t.equal(policy.threads, 1);
  policy.begin(9, 0);
  t.equal(policy.threads, 4);
});

t.test('steps too short to be told apart say nothing', async (t) => {
  const policy = new ThreadPolicy({ max: 2 });
  for (let i = 0; i < 100; i++) policy.stepRan(2, 500, 0, 1_000 + i);
  t.equal(policy.threads, 2);
});
