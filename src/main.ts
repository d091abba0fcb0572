#!/usr/bin/env node
import { runCli } from './main/cli/run.js';
import { serve } from './main/serve.js';

process.exitCode = await runCli(process.argv.slice(2), process.env, { serve });
