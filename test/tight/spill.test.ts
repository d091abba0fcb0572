import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { findMemoryGroups, MemoryGroup } from '../../bench/tight/memory-group.js';

const MIB = 2 ** 20;
const LIMIT_BYTES = 300 * MIB;
const LEFT_BYTES = 16 * MIB;
/** JavaScript of the child itself, and what a kernel counts late. Chosen: a small part of the 184 MiB that are written. */
const GROWTH_MAX_BYTES = 8 * MIB;
const child = fileURLToPath(new URL('../support/spilling-child.js', import.meta.url));
const place = findMemoryGroups();
const skip = 'reason' in place ? place.reason : false;

t.test('184 MiB go to files beside 16 MiB that are left: no kill, and the working set stays', { skip }, async (t) => {
  const group = MemoryGroup.create('spill', LIMIT_BYTES);
  // Beside the tests, which lie on a disk.
  const folder = path.join(path.dirname(child), 'spill-test');
  mkdirSync(folder, { recursive: true });
  t.teardown(async () => {
    rmSync(folder, { recursive: true });
    await group.remove();
  });
  const args = [child, group.folder, String(LIMIT_BYTES), String(LEFT_BYTES), folder];
  const wrapped = group.wrap(process.execPath, args);
  const { stdout, stderr } = spawnSync(wrapped.command, wrapped.args, { encoding: 'utf8', timeout: 60_000 });
  t.equal(group.kills, 0, stderr);
  const { spilled, grownBytes, warnings } = JSON.parse(stdout);
  t.equal(spilled, 4);
  t.same(warnings, []);
  t.ok(grownBytes <= GROWTH_MAX_BYTES, `${(grownBytes / MIB).toFixed(1)} MiB more at most`);
  t.same(readdirSync(folder), []);
});
