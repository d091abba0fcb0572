import { Agent, type Dispatcher, request } from 'undici';
import { networkReason } from '../models/network-error.js';
import { type ChatFailure, failureOfEvent, failureOfStatus, unreachable } from './chat-failure.js';
import type { ChatMessage } from './prompts.js';
import { sseData } from './sse-events.js';

/** Fields that not every server takes. The first that work are used for the whole run. */
export interface Dialect {
  /** Answers of exactly the length asked for. */
  ignoreEos: boolean;
  /** The server counts tokens itself. */
  includeUsage: boolean;
}

export interface ChatTarget {
  /** Without /v1. */
  url: string;
  apiKey: string | null;
  /** Longest time of one request. */
  timeoutMs: number;
}

export interface ChatAsk {
  model: string;
  messages: readonly ChatMessage[];
  outputTokens: number;
  dialect: Dialect;
  /** When the request should have been sent, performance.now(): in an open loop a client that is late must not flatter the server. */
  dueAtMs: number;
}

/** A whole answer. Times in milliseconds since it was due. */
export interface ChatAnswer {
  /** When each chunk with text came. */
  chunkMs: number[];
  endMs: number;
  text: string;
  /** By the server's own count; null: it gave none. */
  usage: { promptTokens: number; cachedTokens: number; outputTokens: number } | null;
}

export type ChatOutcome =
  | { kind: 'answered'; answer: ChatAnswer }
  | { kind: 'failed'; failure: ChatFailure }
  /** By `stop()`. */
  | { kind: 'stopped' };

interface Chunk {
  choices?: Array<{ delta?: { content?: string | null; reasoning_content?: string | null } }>;
  usage?: {
    prompt_tokens?: number;
    completion_tokens?: number;
    prompt_tokens_details?: { cached_tokens?: number } | null;
  } | null;
  error?: unknown;
}

/** Chunks beyond the tokens that were asked for: a server that does not heed max_tokens is cut off. Chosen. */
const SPARE_CHUNKS = 64;
/** An error's text is read so far. */
const ERROR_BYTES_MAX = 64 * 1024;

/** Streams chats from one server. Close it, or its sockets keep the process. */
export class ChatClient {
  /**
   * One connection a request: some servers drop kept-alive ones while the next request is on its way, which would count as an error. In
   * undici a pipelining of 0 turns keep-alive off.
   */
  private readonly dispatcher: Dispatcher;
  private readonly running = new Set<AbortController>();
  private isStopped = false;

  constructor(private readonly target: ChatTarget) {
    // Time-outs of the parts are off: the one of the whole request covers them.
    this.dispatcher = new Agent({ pipelining: 0, connections: null, headersTimeout: 0, bodyTimeout: 0 });
  }

  /** Never throws: what goes wrong is an outcome. */
  ask(ask: ChatAsk): Promise<ChatOutcome> {
    return this.bounded<ChatOutcome>(async (signal) => {
      const response = await this.send('POST', '/v1/chat/completions', signal, bodyOf(ask));
      if (response.statusCode !== 200)
        return { kind: 'failed', failure: failureOfStatus(response.statusCode, await startOf(response.body)) };
      return read(response.body, ask, signal);
    });
  }

  /** Name of the first model that the server lists. */
  firstModel(): Promise<{ kind: 'named'; name: string } | Exclude<ChatOutcome, { kind: 'answered' }>> {
    return this.bounded(async (signal) => {
      const response = await this.send('GET', '/v1/models', signal);
      const text = await startOf(response.body);
      if (response.statusCode !== 200) return { kind: 'failed', failure: failureOfStatus(response.statusCode, text) };
      const name = parsed<{ data?: Array<{ id?: unknown }> }>(text)?.data?.[0]?.id;
      if (typeof name === 'string') return { kind: 'named', name };
      return {
        kind: 'failed',
        failure: { kind: 'no models', message: 'GET /v1/models lists none: name one with --model' },
      };
    });
  }

  /** Ends what runs; everything after is stopped at once. */
  stop(): void {
    this.isStopped = true;
    for (const abort of this.running) abort.abort();
  }

  async close(): Promise<void> {
    await this.dispatcher.destroy();
  }

  /** Runs `job` within the time-out, and makes its errors outcomes. */
  private async bounded<T>(
    job: (signal: AbortSignal) => Promise<T>,
  ): Promise<T | Exclude<ChatOutcome, { kind: 'answered' }>> {
    if (this.isStopped) return { kind: 'stopped' };
    const abort = new AbortController();
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      abort.abort();
    }, this.target.timeoutMs);
    this.running.add(abort);
    try {
      return await job(abort.signal);
    } catch (error) {
      if (this.isStopped) return { kind: 'stopped' };
      if (isLate) {
        const message = `no whole answer within ${this.target.timeoutMs / 1000} s`;
        return { kind: 'failed', failure: { kind: 'timeout', message } };
      }
      return { kind: 'failed', failure: unreachable(networkReason(error)) };
    } finally {
      clearTimeout(timer);
      this.running.delete(abort);
    }
  }

  private send(
    method: 'GET' | 'POST',
    path: string,
    signal: AbortSignal,
    body?: string,
  ): Promise<Dispatcher.ResponseData> {
    const { url, apiKey } = this.target;
    return request(url + path, {
      dispatcher: this.dispatcher,
      method,
      signal,
      headers: {
        'content-type': 'application/json',
        ...(apiKey === null ? {} : { authorization: `Bearer ${apiKey}` }),
      },
      ...(body === undefined ? {} : { body }),
    });
  }
}

function bodyOf({ model, messages, outputTokens, dialect }: ChatAsk): string {
  return JSON.stringify({
    model,
    messages,
    max_tokens: outputTokens,
    temperature: 0,
    stream: true,
    ...(dialect.includeUsage ? { stream_options: { include_usage: true } } : {}),
    ...(dialect.ignoreEos ? { ignore_eos: true } : {}),
  });
}

async function read(
  body: Dispatcher.ResponseData['body'],
  { dueAtMs, outputTokens }: ChatAsk,
  signal: AbortSignal,
): Promise<ChatOutcome> {
  const answer: ChatAnswer = { chunkMs: [], endMs: 0, text: '', usage: null };
  let isWhole = false;
  try {
    for await (const data of sseData(body)) {
      if (data === '[DONE]') {
        isWhole = true;
        continue;
      }
      const chunk = parsed<Chunk>(data);
      if (chunk === null) return failed('bad stream', 'an event is not JSON');
      if (chunk.error) return { kind: 'failed', failure: failureOfEvent(chunk.error) };
      takeChunk(answer, chunk, performance.now() - dueAtMs);
      if (answer.chunkMs.length > outputTokens + SPARE_CHUNKS)
        return failed('too long', 'the answer goes on beyond max_tokens');
    }
  } catch (error) {
    if (signal.aborted) throw error;
    return failed('broken stream', networkReason(error));
  }
  answer.endMs = performance.now() - dueAtMs;
  return isWhole ? { kind: 'answered', answer } : failed('broken stream', 'it ended before [DONE]');
}

function failed(kind: string, message: string): ChatOutcome {
  return { kind: 'failed', failure: { kind, message } };
}

function takeChunk(answer: ChatAnswer, { choices, usage }: Chunk, nowMs: number): void {
  const delta = choices?.[0]?.delta;
  const text = delta?.content || delta?.reasoning_content;
  if (text) {
    answer.chunkMs.push(nowMs);
    answer.text += delta?.content ?? '';
  }
  if (usage && typeof usage.prompt_tokens === 'number' && typeof usage.completion_tokens === 'number') {
    answer.usage = {
      promptTokens: usage.prompt_tokens,
      cachedTokens: usage.prompt_tokens_details?.cached_tokens ?? 0,
      outputTokens: usage.completion_tokens,
    };
  }
}

/** null for what is no JSON object. */
function parsed<T extends object>(text: string): T | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? (value as T) : null;
  } catch {
    return null;
  }
}

/** The beginning of a body, which is closed then. */
async function startOf(body: Dispatcher.ResponseData['body']): Promise<string> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of body) {
    parts.push(part);
    bytes += part.length;
    if (bytes >= ERROR_BYTES_MAX) break;
  }
  return Buffer.concat(parts).toString('utf8');
}
