import type { AddressInfo } from 'node:net';
import OpenAI from 'openai';
import { pino } from 'pino';
import { type HttpConfig, httpConfig } from '../../src/main/http/http-config.js';
import { createServer } from '../../src/main/http/server.js';
import type { ChatPrompt, PrepareJob, PreparePool, PrepareResult } from '../../src/main/prepare-types.js';
import { PlimsollError } from '../../src/shared/errors.js';
import { runPrepareJob } from '../../src/workers/prepare-job.js';
import { ScriptedPipeline, vocabulary } from './scripted-pipeline.js';

/** The prepare pool's work, on this thread. `gate` holds every job until it resolves. */
export class LocalPreparePool implements PreparePool {
  gate: Promise<void> = Promise.resolve();
  readonly signals: AbortSignal[] = [];

  async chat(inputsJson: string, signal: AbortSignal): Promise<ChatPrompt> {
    const { tokens, boundaries = [] } = await this.run(
      { kind: 'chat', inputsJson, findsBoundaries: true },
      'messages',
      signal,
    );
    return { tokens, boundaries };
  }

  async text(
    text: string,
    options: { addSpecial: boolean; parseSpecial: boolean },
    signal: AbortSignal,
  ): Promise<Int32Array> {
    return (await this.run({ kind: 'text', text, ...options }, 'prompt', signal)).tokens;
  }

  async render(inputsJson: string, signal: AbortSignal): Promise<string> {
    return (await this.run({ kind: 'render', inputsJson }, 'messages', signal)).text;
  }

  async checkGrammar(grammar: string, signal: AbortSignal): Promise<void> {
    await this.run({ kind: 'grammar', grammar }, 'grammar', signal);
  }

  async close(): Promise<void> {}

  private async run(job: PrepareJob, param: string, signal: AbortSignal): Promise<PrepareResult & { ok: true }> {
    this.signals.push(signal);
    await this.gate;
    signal.throwIfAborted();
    const result = runPrepareJob(vocabulary, job);
    if (!result.ok) throw new PlimsollError('invalid_request', result.message, { param });
    return result;
  }
}

export interface TestServer {
  pipeline: ScriptedPipeline;
  prepare: LocalPreparePool;
  app: ReturnType<typeof createServer>;
  port: number;
  url: string;
  openai: OpenAI;
  /** Log lines so far. */
  logs: string[];
  post(path: string, body: unknown, headers?: Record<string, string>): Promise<Response>;
}

/** A listening server over a scripted pipeline; closed when the test ends. */
export async function startServer(
  test: { teardown(fn: () => unknown): void },
  settings: Partial<HttpConfig> = {},
  options: { loaded?: boolean } = {},
): Promise<TestServer> {
  const pipeline = new ScriptedPipeline();
  const prepare = new LocalPreparePool();
  const logs: string[] = [];
  const logger = pino({ level: 'debug' }, { write: (line: string) => void logs.push(line) });
  const config = httpConfig({ modelName: 'fake-model', ...settings });
  const loaded = options.loaded ?? true;
  const app = createServer({ pipeline: loaded ? pipeline : null, prepare: loaded ? prepare : null, config, logger });
  await app.listen({ host: '127.0.0.1', port: 0 });
  test.teardown(async () => {
    app.server.closeAllConnections();
    await app.close();
  });
  const { port } = app.server.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}`;
  const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: settings.apiKeys?.[0] ?? 'none', maxRetries: 0 });
  const post = (path: string, body: unknown, headers: Record<string, string> = {}) =>
    fetch(url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    });
  return { pipeline, prepare, app, port, url, openai, logs, post };
}

/** Events of a stream that has ended: the data lines, in order. */
export function eventsOf(text: string): string[] {
  return text
    .split('\n\n')
    .filter((event) => event.startsWith('data: '))
    .map((event) => event.slice('data: '.length));
}

export const HELLO = [{ role: 'user' as const, content: 'hello' }];
