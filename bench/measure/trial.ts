import { spawn } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';

/** Longest time of one trial. Chosen: far above the longest that makes sense. */
const TRIAL_TIMEOUT_MS = 120_000;

export interface TrialOptions {
  args: string[];
  nodeArgs?: string[];
  /** Cores it may use, on Linux; the machine's when left out. */
  cores?: number;
}

/** Runs a script in a fresh process and returns what it reported with `report`. @throws Error with its exit code. */
export async function runTrial<Result>(script: URL, { args, nodeArgs = [], cores }: TrialOptions): Promise<Result> {
  const command = [process.execPath, ...nodeArgs, fileURLToPath(script), ...args];
  if (cores !== undefined && process.platform === 'linux' && cores < availableParallelism()) {
    command.unshift('taskset', '-c', `0-${cores - 1}`);
  }
  const child = spawn(command[0], command.slice(1), { stdio: ['ignore', 'pipe', 'inherit'] });
  const timer = setTimeout(() => child.kill('SIGKILL'), TRIAL_TIMEOUT_MS);
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  const code = await new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (exitCode, signal) => resolve(exitCode ?? signal));
  });
  clearTimeout(timer);
  if (code !== 0) throw new Error(`${fileURLToPath(script)} ended with ${code}`);
  return JSON.parse(output.slice(output.lastIndexOf(MARK) + MARK.length)) as Result;
}

const MARK = 'trial-result ';

/** Called once by a trial's script. */
export function report(result: unknown): void {
  process.stdout.write(`${MARK}${JSON.stringify(result)}\n`);
}
