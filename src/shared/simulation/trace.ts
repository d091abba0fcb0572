import { tokensOf, type Workload, type WorkRequest } from './workload.js';

/** One line of a trace. Left out: no shared prefix, priority 0. */
export interface TraceLine {
  /** Seconds from the start. */
  at: number;
  /** Tokens of the prompt, the shared prefix included. */
  prompt: number;
  /** Which shared prefix the prompt begins with, and how long that is. */
  prefix?: number;
  prefixTokens?: number;
  output: number;
  priority?: number;
}

const FIELDS = new Set(['at', 'prompt', 'prefix', 'prefixTokens', 'output', 'priority']);

/**
 * Reads a trace: one JSON object a line, in any order of time; empty lines and lines that begin with # are skipped.
 * @throws RangeError with the line's number for anything else.
 */
export function parseTrace(text: string): TraceLine[] {
  const lines = text.split('\n').flatMap((line, i) => {
    const isComment = line.trim() === '' || line.trimStart().startsWith('#');
    return isComment ? [] : [parseLine(line, i + 1)];
  });
  return lines.sort((a, b) => a.at - b.at);
}

function parseLine(text: string, number: number): TraceLine {
  const wrong = (what: string) => new RangeError(`line ${number} of the trace: ${what}`);
  let line: Record<string, unknown>;
  try {
    line = JSON.parse(text);
  } catch {
    throw wrong('not a JSON object');
  }
  if (line === null || typeof line !== 'object' || Array.isArray(line)) throw wrong('not a JSON object');
  const unknown = Object.keys(line).find((key) => !FIELDS.has(key));
  if (unknown !== undefined) throw wrong(`no field is named ${unknown}`);
  const check = (key: string, least: number, isWhole: boolean, otherwise?: number) => {
    const value = line[key] ?? otherwise;
    const ok = typeof value === 'number' && value >= least && (isWhole ? Number.isSafeInteger(value) : value < 1e9);
    if (!ok) throw wrong(`${key} must be ${isWhole ? 'an integer' : 'a number'} of at least ${least}`);
  };
  check('at', 0, false);
  check('prompt', 1, true);
  check('output', 1, true);
  check('prefix', 0, true, 0);
  check('prefixTokens', 0, true, 0);
  check('priority', -1000, true, 0);
  if ((line.prefix === undefined) !== (line.prefixTokens === undefined))
    throw wrong('prefix and prefixTokens go together');
  return line as unknown as TraceLine;
}

/** Plays a trace. A prompt that does not fit the context is sent all the same: the server must refuse it. */
export class TracePlayer implements Workload {
  private next = 0;
  private readonly seen = new Set<number>();

  constructor(private readonly lines: readonly TraceLine[]) {}

  nextAtMs(): number {
    const line = this.lines[this.next];
    return line === undefined ? Number.POSITIVE_INFINITY : line.at * 1000;
  }

  take(): WorkRequest {
    const line = this.lines[this.next];
    // Odd texts are new ones, even ones are shared: a new prompt never begins like a shared prefix.
    const promptTokens = tokensOf(this.next++ * 2 + 1, line.prompt);
    const isRepeat = line.prefix !== undefined && this.seen.has(line.prefix);
    if (line.prefix !== undefined) {
      this.seen.add(line.prefix);
      promptTokens.set(tokensOf(line.prefix * 2, Math.min(line.prefixTokens ?? 0, line.prompt)));
    }
    return {
      promptTokens,
      maxTokens: line.output,
      answerTokens: line.output,
      priority: line.priority ?? 0,
      isRepeat,
      client: -1,
    };
  }

  over(): void {}
}
