// The prebuilt CUDA engine, only when asked for: 180 MB that a machine without an NVIDIA GPU has no use for.
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { run, runSteps, StepError, say } from './steps.mjs';

process.chdir(join(dirname(fileURLToPath(import.meta.url)), '..'));

await runSteps(async () => {
  if (process.platform !== 'linux' || process.arch !== 'x64') {
    throw new StepError('the prebuilt CUDA engine is for Linux on x64', 'elsewhere build it with: make engine');
  }
  const { optionalDependencies } = JSON.parse(readFileSync('package.json', 'utf8'));
  const name = `@node-llama-cpp/linux-x64-cuda@${optionalDependencies['@node-llama-cpp/linux-x64']}`;
  if ((await run('npm', ['install', '--no-save', '--no-audit', '--no-fund', name])) !== 0) {
    throw new StepError(`${name} could not be installed`, 'npm’s own message is above');
  }
  say('CUDA engine: installed; `make serve` uses it. On a Hopper GPU build one instead: make engine');
});
