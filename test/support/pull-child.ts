/** `plimsoll pull` as a process of its own: argv is the command line's. */
import { runCli } from '../../src/main/cli/run.js';

process.exitCode = await runCli(process.argv.slice(2), process.env, { serve: async () => 0 });
