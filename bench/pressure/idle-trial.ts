import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { promptTokens } from '../load/prompts.js';
import { streamCompletion } from '../load/streaming-client.js';
import { median } from '../measure/statistics.js';
import { startInside } from '../tight/contestants.js';
import { gaugesUntil, readGauges } from './load-line.js';

const IDLE_SECONDS = 3;
const PROMPT = { promptTokens: 64, sharedTokens: 0, outputTokens: 8 };
/** More than a chunk: what no step has touched is not resident, and cannot come back. */
const FULL_PROMPT = { ...PROMPT, promptTokens: 600 };
/** Requests for the usual time to a first token. */
const WARM_REQUESTS = 5;
/** Asked for by the project: memory is back within this. */
const RETURN_WITHIN_MS = 1_000;
const RELEASE_TIMEOUT_MS = 30_000;

export interface IdleTrial {
  /** KV and compute by the ledger, before. */
  contextBytes: number;
  /** Resident memory that the server had less, a second after its gauges said that the context is gone. */
  returnedBytes: number;
  warmFirstTokenMs: number;
  /** Of the request that found no context. */
  coldFirstTokenMs: number;
}

export async function runIdleTrial(modelPath: string, seed: number): Promise<IdleTrial> {
  const flags = ['--idle-release', String(IDLE_SECONDS)];
  const server = await startInside(null, { kind: 'plimsoll', flags }, modelPath);
  try {
    const firstTokenMs = async (n: number, shape = PROMPT): Promise<number> => {
      const prompt = promptTokens(shape, seed, n);
      const answer = await streamCompletion(server.url, { prompt, outputTokens: PROMPT.outputTokens });
      return answer.tokenAtMs[0] - answer.sentAtMs;
    };
    const warm: number[] = [];
    await firstTokenMs(WARM_REQUESTS + 1, FULL_PROMPT);
    for (let n = 0; n < WARM_REQUESTS; n++) warm.push(await firstTokenMs(n));
    const { kvBytes, computeBytes } = await readGauges(server.url);
    const before = residentBytes(server.pids);
    await gaugesUntil(server.url, (gauges) => gauges.kvBytes === 0, RELEASE_TIMEOUT_MS);
    await sleep(RETURN_WITHIN_MS);
    const returnedBytes = before - residentBytes(server.pids);
    const coldFirstTokenMs = await firstTokenMs(WARM_REQUESTS);
    return { contextBytes: kvBytes + computeBytes, returnedBytes, warmFirstTokenMs: median(warm), coldFirstTokenMs };
  } finally {
    await server.stop();
  }
}

/** Memory of all processes of the server that is no file's. */
function residentBytes(pids: readonly number[]): number {
  return pids.reduce((total, pid) => {
    const line = /RssAnon:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
    return total + Number(line?.[1] ?? 0) * 1024;
  }, 0);
}
