import { spawn, spawnSync } from 'node:child_process';

/** A failure the user can act on: `message` says what is wrong, `remedy` what to do. Printed as one line, without a stack. */
export class StepError extends Error {
  constructor(message, remedy) {
    super(remedy ? `${message}; ${remedy}` : message);
    this.name = 'StepError';
  }
}

/** Progress goes to stderr, so that a script's stdout stays free for its answer. */
export function say(line) {
  process.stderr.write(`${line}\n`);
}

/**
 * Runs a script's main function: an error the user can act on becomes one line and exit 1, anything else keeps its stack.
 *
 * @param {() => unknown} main
 */
export async function runSteps(main) {
  try {
    await main();
  } catch (error) {
    if (!(error instanceof StepError)) throw error;
    say(`error: ${error.message}`);
    process.exitCode = 1;
  }
}

/**
 * Runs a program with its output on our own stderr and resolves with its exit code. Ctrl-C reaches the child through the
 * terminal's process group, so nothing is forwarded here.
 *
 * @param {string} program
 * @param {string[]} args
 * @param {import('node:child_process').SpawnOptions} [options]
 * @returns {Promise<number>} the exit code; 128 + signal number when a signal ended it
 */
export function run(program, args, options = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio: ['ignore', 2, 2], ...options });
    child.on('error', (error) => {
      reject(error.code === 'ENOENT' ? new StepError(`${program} is not installed`) : error);
    });
    child.on('close', (code, signal) => resolve(signal ? 128 : (code ?? 1)));
  });
}

/**
 * First line of what a program prints, or `undefined` when it is missing or fails.
 *
 * @param {string} program
 * @param {string[]} args
 */
export function firstLine(program, args) {
  const result = spawnSync(program, args, { encoding: 'utf8', timeout: 20_000 });
  if (result.error || result.status !== 0) return undefined;
  return `${result.stdout}${result.stderr}`.trim().split('\n')[0];
}
