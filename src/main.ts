#!/usr/bin/env node
import { fileURLToPath } from 'node:url';
import { serves, supervise, wantsSupervisor } from './main/supervisor/supervise.js';

const argv = process.argv.slice(2);
if (wantsSupervisor(argv, process.env)) {
  process.exitCode = await supervise(fileURLToPath(import.meta.url), argv);
} else {
  // Loaded here: a supervisor that stands beside the server all day needs none of it.
  if (serves(argv)) (await import('./main/forward-thread.js')).startForwardThreadEarly();
  const [{ runCli }, { serve }] = await Promise.all([import('./main/cli/run.js'), import('./main/serve.js')]);
  process.exitCode = await runCli(argv, process.env, { serve });
}
