// `npm ci`, when the lock file or the platform changed since the last time; otherwise nothing.

import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { contentHash, isUpToDate, writeStamp } from './build-stamp.mjs';
import { requirePrerequisites } from './prerequisites.mjs';
import { run, runSteps, StepError, say } from './steps.mjs';

process.chdir(join(dirname(fileURLToPath(import.meta.url)), '..'));

// Chosen: npm itself retries each file; this covers a registry that was away for a moment.
const attempts = 3;
const pauseMs = 5_000;

await runSteps(async () => {
  requirePrerequisites({});
  const nodeMajor = process.versions.node.split('.')[0];
  const hash = contentHash(['package-lock.json', '.npmrc'], [process.platform, process.arch, nodeMajor]);
  // Inside node_modules, so that it goes when they go.
  const stamp = 'node_modules/.plimsoll-stamp';
  if (isUpToDate(stamp, hash, ['node_modules/.package-lock.json'])) return say('packages: up to date');
  for (let attempt = 1; attempt <= attempts; attempt++) {
    say(`packages: npm ci${attempt > 1 ? ` (attempt ${attempt} of ${attempts})` : ''}`);
    if ((await run('npm', ['ci', '--no-audit', '--no-fund'])) === 0) return writeStamp(stamp, hash);
    if (attempt < attempts) await sleep(pauseMs);
  }
  throw new StepError(
    'npm ci failed',
    'its own message is above; check the network and `npm config get registry`, then run it again',
  );
});
