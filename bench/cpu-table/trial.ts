import os from 'node:os';
import { startInside } from '../tight/contestants.js';
import { engineCeiling } from './engine-ceiling.js';
import type { Figures, FlagSet, Line, TableRow } from './table-row.js';

/** Longest time of one trial after its server is ready. Chosen: some three times what the longest takes on an idle machine. */
const TRIAL_TIMEOUT_MS = 240_000;

export interface TrialSettings {
  row: TableRow;
  line: Line;
  round: number;
  modelPath: string;
  threads: number;
}

export interface Trial {
  row: string;
  line: Line;
  round: number;
  flags: readonly string[];
  /** null: it failed. */
  figures: Figures | null;
  failure: string | null;
  /** Of the load, without the start. */
  tookMs: number;
  loadAverage: number;
}

/** What the row compares, in the order of the columns. */
export function linesOf({ peers, ceiling }: TableRow): Line[] {
  return [
    'plimsoll',
    'default',
    'best',
    ...(peers['best-2'] ? ['best-2' as const] : []),
    ...(ceiling ? ['ceiling' as const] : []),
  ];
}

export function flagsOf(row: TableRow, line: Line): FlagSet {
  if (line === 'plimsoll') return row.plimsoll;
  if (line === 'ceiling') return { flags: [], reason: 'llama-batched-bench' };
  const set = row.peers[line];
  if (set === undefined) throw new RangeError(`${row.id} has no line ${line}`);
  return set;
}

/** A fresh server, the row's load, and the server's end. Never throws: a trial that fails is one of the results. */
export async function runTrial(settings: TrialSettings): Promise<Trial> {
  const { row, line, round } = settings;
  const startedMs = performance.now();
  const outcome = await figuresOf(settings).then(
    (figures) => ({ figures, failure: null }),
    (error: unknown) => ({ figures: null, failure: (error as Error).message }),
  );
  return {
    row: row.id,
    line,
    round,
    flags: flagsOf(row, line).flags,
    ...outcome,
    tookMs: performance.now() - startedMs,
    loadAverage: os.loadavg()[0],
  };
}

async function figuresOf({ row, line, round, modelPath, threads }: TrialSettings): Promise<Figures> {
  if (line === 'ceiling') {
    if (!row.ceiling) throw new RangeError(`${row.id} has no ceiling`);
    const rate = await engineCeiling({ ...row.ceiling, modelPath, threads, timeoutMs: TRIAL_TIMEOUT_MS });
    return { outputTokensPerSecond: rate };
  }
  const { flags } = flagsOf(row, line);
  const contestant =
    line === 'plimsoll'
      ? ({ kind: 'plimsoll', flags: ['--log-level', 'warn', ...flags] } as const)
      : ({ kind: 'llama-server', flags: [...threadFlags(threads), ...flags] } as const);
  const server = await startInside(null, contestant, modelPath);
  const signal = AbortSignal.timeout(TRIAL_TIMEOUT_MS);
  try {
    return await row.measure({ url: server.url, seed: seedOf(round), signal });
  } catch (error) {
    if (signal.aborted) throw new Error(`not done within ${TRIAL_TIMEOUT_MS / 1000} s`);
    throw server.ended === null
      ? error
      : new Error(`the server ended: ${server.logTail.trim().split('\n').slice(-3).join(' / ')}`);
  } finally {
    await server.stop();
  }
}

/** A flag set that names threads itself comes later and wins. */
function threadFlags(threads: number): string[] {
  return ['--threads', String(threads), '--threads-batch', String(threads)];
}

/** Seeds of neighbouring rounds are further apart than any load counts up. */
function seedOf(round: number): number {
  return 20_250_603 + round * 100_000;
}
