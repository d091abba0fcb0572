import { Agent, request } from 'undici';
import { sseData } from '../../src/main/bench-command/sse-events.js';

/**
 * One connection a request: llama-server drops kept-alive ones, and both sides of a comparison get the same treatment. In undici a
 * pipelining of 0 turns keep-alive off.
 */
const dispatcher = new Agent({ pipelining: 0, connections: null, headersTimeout: 300_000, bodyTimeout: 300_000 });

export interface StreamedAnswer {
  /** When the request was sent, performance.now(). */
  sentAtMs: number;
  /** When each chunk with a token came. */
  tokenAtMs: number[];
  endedAtMs: number;
  /** By the server's own count. */
  promptTokens: number;
  outputTokens: number;
}

interface Chunk {
  choices?: Array<{ text?: string; delta?: { content?: string | null }; finish_reason?: string | null }>;
  usage?: { prompt_tokens: number; completion_tokens: number } | null;
  error?: { message: string };
}

export interface CompletionRequest {
  prompt: number[] | string;
  outputTokens: number;
  /** Ends the request; what it was about is not told apart from other failures. */
  signal?: AbortSignal;
  /** Called for each chunk with a token as it comes. */
  onToken?(atMs: number): void;
}

/** Streams one greedy completion of exactly `outputTokens` tokens. @throws Error for any answer but a whole one. */
export async function streamCompletion(
  url: string,
  { prompt, outputTokens, signal, onToken }: CompletionRequest,
): Promise<StreamedAnswer> {
  const sentAtMs = performance.now();
  const response = await request(`${url}/v1/completions`, {
    dispatcher,
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    ...(signal ? { signal } : {}),
    body: JSON.stringify({
      prompt,
      max_tokens: outputTokens,
      temperature: 0,
      ignore_eos: true,
      stream: true,
      stream_options: { include_usage: true },
    }),
  });
  if (response.statusCode !== 200) throw new Error(`status ${response.statusCode}: ${await response.body.text()}`);
  const answer: StreamedAnswer = { sentAtMs, tokenAtMs: [], endedAtMs: 0, promptTokens: 0, outputTokens: 0 };
  let isWhole = false;
  for await (const data of sseData(response.body)) {
    if (data === '[DONE]') isWhole = true;
    else takeChunk(answer, JSON.parse(data) as Chunk, onToken);
  }
  answer.endedAtMs = performance.now();
  if (!isWhole) throw new Error('the stream ended before [DONE]');
  if (answer.outputTokens !== outputTokens) throw new Error(`${answer.outputTokens} tokens, asked for ${outputTokens}`);
  return answer;
}

function takeChunk(answer: StreamedAnswer, chunk: Chunk, onToken?: (atMs: number) => void): void {
  if (chunk.error) throw new Error(chunk.error.message);
  if (chunk.usage) {
    answer.promptTokens = chunk.usage.prompt_tokens;
    answer.outputTokens = chunk.usage.completion_tokens;
  }
  const choice = chunk.choices?.[0];
  if (!choice || choice.finish_reason) return;
  const atMs = performance.now();
  answer.tokenAtMs.push(atMs);
  onToken?.(atMs);
}
