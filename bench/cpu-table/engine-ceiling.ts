import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';
import { llamaServerPath } from '../peers/servers.js';

export interface CeilingShape {
  modelPath: string;
  threads: number;
  sequences: number;
  promptTokens: number;
  outputTokens: number;
  timeoutMs: number;
}

interface BatchedBenchLine {
  /** Seconds of the prompts, of the answers, and of both. */
  t_pp: number;
  t_tg: number;
  t: number;
}

/** What the engine alone does with such a batch, prompts and answers one after the other: output tokens a second of the whole. @throws Error */
export async function engineCeiling(shape: CeilingShape): Promise<number> {
  const { sequences, promptTokens, outputTokens } = shape;
  const contextTokens = sequences * Math.ceil((promptTokens + outputTokens) / 256) * 256;
  const program = path.join(path.dirname(llamaServerPath()), 'llama-batched-bench');
  const args = [
    ...['-m', shape.modelPath],
    ...['-t', String(shape.threads), '-tb', String(shape.threads)],
    ...['-c', String(contextTokens), '-npp', String(promptTokens), '-ntg', String(outputTokens)],
    ...['-npl', String(sequences), '--output-format', 'jsonl'],
  ];
  const { stdout } = await promisify(execFile)(program, args, { timeout: shape.timeoutMs, killSignal: 'SIGKILL' });
  const line = stdout.split('\n').find((text) => text.startsWith('{'));
  if (line === undefined) throw new Error(`llama-batched-bench wrote no result: ${stdout.slice(-500)}`);
  return (sequences * outputTokens) / (JSON.parse(line) as BatchedBenchLine).t;
}
