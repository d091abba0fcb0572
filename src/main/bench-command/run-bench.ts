/** `plimsoll bench`: measures a server over HTTP and says what was found, also when it is stopped half-way. */
import { constants } from 'node:fs';
import { access, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { CliError, EXIT_CANCELLED, EXIT_FAILED } from '../cli/cli-error.js';
import type { Environment } from '../cli/parse.js';
import type { Output } from '../cli/progress-reporter.js';
import type { CliStreams } from '../cli/run.js';
import type { BenchOptions } from './bench-options.js';
import { calibrate } from './calibrate.js';
import { ChatClient } from './chat-client.js';
import { Load } from './load.js';
import { parseBench } from './parse-bench.js';
import { type BenchResults, resultsOf } from './results.js';
import { resultsPicture } from './results-picture.js';
import { resultsTable } from './results-table.js';
import { Tally } from './tally.js';

/** How often a terminal is told where the run is. Chosen. */
const PROGRESS_EVERY_MS = 500;

export interface BenchSurroundings {
  env: Environment;
  streams: CliStreams;
  /** Ctrl-C. */
  stop: AbortSignal;
}

/**
 * @param words after `plimsoll bench`.
 * @returns the exit code: 0 when there was an answer, 1 when every request failed or the server went away, 130 when it was stopped.
 * @throws CliError: one line.
 */
export async function runBench(words: readonly string[], { env, streams, stop }: BenchSurroundings): Promise<number> {
  const parsed = parseBench(words, env);
  if ('help' in parsed) {
    streams.stdout.write(parsed.help);
    return 0;
  }
  const { options } = parsed;
  await assertWritable('--json', options.jsonFile);
  await assertWritable('--svg', options.svgFile);
  const client = new ChatClient(options);
  const stopClient = () => client.stop();
  stop.addEventListener('abort', stopClient);
  try {
    return await measure(options, client, streams, stop);
  } finally {
    stop.removeEventListener('abort', stopClient);
    await client.close();
  }
}

async function measure(
  options: BenchOptions,
  client: ChatClient,
  streams: CliStreams,
  stop: AbortSignal,
): Promise<number> {
  const calibration = await calibrate(client, options);
  if (calibration === null || stop.aborted) throw new CliError(EXIT_CANCELLED, 'stopped before anything was measured');
  const tally = new Tally(options.goodput);
  const load = new Load(client, options, calibration, tally);
  const stopLoad = () => load.stop();
  stop.addEventListener('abort', stopLoad);
  const hideProgress = showProgress(streams.stderr, tally, options);
  try {
    await load.run();
  } finally {
    hideProgress();
    stop.removeEventListener('abort', stopLoad);
  }
  const ended = stop.aborted ? 'stopped' : load.serverIsGone ? 'server gone' : 'done';
  const results = resultsOf(options, calibration, tally, ended, performance.now());
  streams.stdout.write(resultsTable(results));
  await writeFiles(options, results, tally);
  if (ended === 'stopped') return EXIT_CANCELLED;
  return ended === 'done' && results.requests.answered > 0 ? 0 : EXIT_FAILED;
}

/** Before the run and not after it: what was measured for an hour should not be lost to a folder that is not there. */
async function assertWritable(flag: string, file: string | null): Promise<void> {
  if (file === null) return;
  try {
    await access(path.dirname(path.resolve(file)), constants.W_OK);
    await access(file, constants.W_OK).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error;
    });
  } catch (error) {
    throw cannotWrite(flag, file, error);
  }
}

async function writeFiles(options: BenchOptions, results: BenchResults, tally: Tally): Promise<void> {
  const write = async (flag: string, file: string | null, text: string | null) => {
    if (file === null || text === null) return;
    await writeFile(file, text).catch((error: unknown) => {
      throw cannotWrite(flag, file, error);
    });
  };
  await write('--json', options.jsonFile, `${JSON.stringify(results, null, 2)}\n`);
  await write('--svg', options.svgFile, options.svgFile === null ? null : resultsPicture(results, tally));
}

function cannotWrite(flag: string, file: string, error: unknown): CliError {
  return new CliError(EXIT_FAILED, `${flag} ${file} cannot be written (${(error as NodeJS.ErrnoException).code})`);
}

/** One line on a terminal, written over and over; nothing elsewhere. Returns what removes it. */
function showProgress(output: Output, tally: Tally, { requests }: BenchOptions): () => void {
  if (!output.isTTY) return () => {};
  const clear = '\r\u001b[K';
  const show = () => {
    const seconds = tally.elapsedMs(performance.now()) / 1000;
    const speed = seconds > 0 ? `, ${Math.round(tally.outputTokens / seconds)} output tokens/s` : '';
    const failed = tally.failedCount > 0 ? `, ${tally.failedCount} failed` : '';
    output.write(`${clear}${tally.answeredCount} of ${requests} answered${failed}${speed} (Ctrl-C: results so far)`);
  };
  const timer = setInterval(show, PROGRESS_EVERY_MS);
  return () => {
    clearInterval(timer);
    output.write(clear);
  };
}
