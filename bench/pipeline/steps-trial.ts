/**
 * Steps a second of a full running set: the real threads and rings, over the fake engine without delays. Prints one result.
 * Arguments: sequences, seconds, `overlap` or `lockstep`, a model file instead of the fake engine.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { WorkerPipeline } from '../../src/main/pipeline.js';
import { startPipeline } from '../../src/main/start-pipeline.js';
import { parseConfig } from '../../src/shared/config.js';
import { GREEDY_SAMPLING, type SamplingParams } from '../../src/shared/sampling.js';
import { busiestThreadsMs, threadTimesMs } from '../measure/thread-times.js';
import { report } from '../measure/trial.js';

/** Compilers need some thousand steps to settle. */
const WARM_UP_MS = 1500;
/** Room for long answers, so that the running set is full nearly all the time. */
const CONTEXT_TOKENS = 32_768;
/** With a model a long context would be mostly empty. */
const MODEL_CONTEXT_TOKENS = 4096;
const PROMPT_TOKENS = 16;

export interface StepsResult {
  stepsPerSecond: number;
  tokensPerSecond: number;
  /** Decodes in a step, on average: the running set is full when it is near the number of sequences. */
  tokensPerStep: number;
  cpuMicrosPerStep: number;
  /** CPU share of the busiest threads: main, overlap and forward worker in some order. */
  threadShares: number[];
}

let tokens = 0;
let isOver = false;

function keepRunning(pipeline: WorkerPipeline, n: number): void {
  pipeline.submit(
    { promptTokens: Int32Array.from({ length: PROMPT_TOKENS }, (_, i) => (n * 31 + i) % 256), sampling },
    {
      token: () => {
        tokens++;
      },
      finished: () => {
        if (!isOver) keepRunning(pipeline, n + 1);
      },
      failed: (error) => {
        throw error;
      },
    },
  );
}

const [sequences, seconds, mode, modelPath] = process.argv.slice(2);
const contextTokens = modelPath ? MODEL_CONTEXT_TOKENS : CONTEXT_TOKENS;
const sampling: SamplingParams = { ...GREEDY_SAMPLING, maxTokens: contextTokens - 2 * PROMPT_TOKENS, ignoreEos: true };
const pipeline = await startPipeline({
  config: parseConfig({
    contextTokens,
    maxTotalTokens: contextTokens * Number(sequences),
    maxRunningRequests: Number(sequences),
    overlapSchedule: mode !== 'lockstep',
    // Threads that follow the load of the machine would make two trials differ.
    threads: 2,
  }),
  modelPath: modelPath ?? 'fake.gguf',
  fixedContext: true,
  ...(modelPath ? {} : { fake: {} }),
});
for (let i = 0; i < Number(sequences); i++) keepRunning(pipeline, i * 1000);
await sleep(WARM_UP_MS);

const look = () => {
  const { steps, decodedTokens } = pipeline.deviceGauges();
  return { atMs: performance.now(), steps, decodedTokens, tokens, cpu: process.cpuUsage(), threads: threadTimesMs() };
};
const before = look();
await sleep(Number(seconds) * 1000);
const after = look();
isOver = true;

const steps = after.steps - before.steps;
const elapsedMs = after.atMs - before.atMs;
const cpuMicros = after.cpu.user + after.cpu.system - before.cpu.user - before.cpu.system;
report({
  stepsPerSecond: (steps / elapsedMs) * 1000,
  tokensPerSecond: ((after.tokens - before.tokens) / elapsedMs) * 1000,
  tokensPerStep: (after.decodedTokens - before.decodedTokens) / steps,
  cpuMicrosPerStep: cpuMicros / steps,
  threadShares: busiestThreadsMs(before.threads, after.threads, 3).map((ms) => ms / elapsedMs),
} satisfies StepsResult);
await pipeline.close(0);
