/** Fills its memory group up to some MiB and spills sequences then, as an engine that streams does. Arguments: limit, bytes left, folder. */
import { closeSync, openSync, writeSync } from 'node:fs';
import { readUse, workingSetBytes } from '../../bench/tight/memory-files.js';
import { findMemoryGroups } from '../../bench/tight/memory-group.js';
import type { Engine } from '../../src/shared/engine.js';
import { SequenceSpill } from '../../src/workers/sequence-spill.js';
import { inPlace } from './in-place.js';

const MIB = 2 ** 20;
const [groupFolder, limit, left, folder] = process.argv.slice(2);
const place = findMemoryGroups();
if ('reason' in place) throw new Error(place.reason);
const { version } = place;
const usedBytes = () => workingSetBytes(readUse(groupFolder, version));

const ballast: Buffer[] = [];
while (usedBytes() < Number(limit) - Number(left)) ballast.push(Buffer.alloc(MIB, 1));

const SEQUENCE_PIECES = 46;
const piece = Buffer.alloc(MIB, 2);
let highestBytes = 0;
const engine: Pick<Engine, 'writeSequence'> = {
  writeSequence(_sequence, path) {
    const file = openSync(path, 'w');
    for (let i = 0; i < SEQUENCE_PIECES; i++) {
      writeSync(file, piece);
      highestBytes = Math.max(highestBytes, usedBytes());
    }
    closeSync(file);
    return SEQUENCE_PIECES * MIB;
  },
};
const before = usedBytes();
const warnings: string[] = [];
const spill = new SequenceSpill(engine as Engine, folder, (message) => warnings.push(message));
const spilled = spill.write(inPlace(0, 1, 2, 3), {
  spillMs: 60_000,
  spillBytes: 4 * SEQUENCE_PIECES * MIB,
  cacheBytes: 0,
});
process.stdout.write(JSON.stringify({ spilled: spilled.length, grownBytes: highestBytes - before, warnings }));
