import t from 'tap';
import { RestartPolicy } from '../../src/main/supervisor/restart-policy.js';

const MINUTE_MS = 60_000;

t.test('the pause doubles to half a minute, and begins anew after five minutes of service', async (t) => {
  const policy = new RestartPolicy();
  const delays: unknown[] = [];
  // Far enough apart to stay below the number of crashes that is too many.
  for (let i = 0; i < 9; i++) delays.push(policy.crashed(i * 3 * MINUTE_MS, 1000));
  t.strictSame(
    delays,
    [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000].map((delayMs) => ({ restart: true, delayMs })),
  );
  t.strictSame(policy.crashed(60 * MINUTE_MS, 5 * MINUTE_MS), { restart: true, delayMs: 500 });
});

t.test('five crashes in ten minutes are too many', async (t) => {
  const policy = new RestartPolicy();
  for (let i = 0; i < 4; i++) t.match(policy.crashed(i * 2 * MINUTE_MS, 1000), { restart: true });
  t.match(policy.crashed(8 * MINUTE_MS, 1000), { restart: false, reason: /5 times within 10 minutes/ });
});

t.test('five in a row before it was ready are too many, however slow', async (t) => {
  const policy = new RestartPolicy();
  t.match(policy.crashed(0, null), { restart: true });
  t.match(policy.crashed(20 * MINUTE_MS, 1), { restart: true }, 'ready in between');
  for (let i = 2; i < 6; i++) t.match(policy.crashed(i * 20 * MINUTE_MS, null), { restart: true });
  t.match(policy.crashed(120 * MINUTE_MS, null), { restart: false, reason: /5 times in a row before/ });
});
