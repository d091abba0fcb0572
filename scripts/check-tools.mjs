// Names all that is missing on this machine before minutes go into installing and compiling.
//
//   node scripts/check-tools.mjs build
//   node scripts/check-tools.mjs test
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { cacheFolder } from './cache-folder.mjs';
import { engineSourceFolder, isEngineSource } from './engine-headers.mjs';
import { requirePrerequisites } from './prerequisites.mjs';
import { runSteps } from './steps.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');

await runSteps(() => {
  const isTest = process.argv[2] === 'test';
  // What was built or fetched once needs no tools any more.
  const isBuilt = existsSync(join(root, 'addon/build/plimsoll-stamp'));
  const hasModels = existsSync(join(cacheFolder(), 'test-models'));
  const hasSource = isEngineSource(engineSourceFolder());
  requirePrerequisites({
    compiler: !isBuilt,
    python: !isBuilt,
    git: !isBuilt && !hasSource && !process.env.PLIMSOLL_ENGINE_SOURCE,
    pip: isTest && !hasModels,
  });
});
