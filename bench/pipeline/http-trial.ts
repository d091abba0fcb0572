/**
 * Streamed tokens a second out of HTTP: the real server, threads and rings over the fake engine without delays, with clients in a
 * process of their own. Prints one result. Arguments: clients, seconds.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { pino } from 'pino';
import { httpConfig } from '../../src/main/http/http-config.js';
import { createServer } from '../../src/main/http/server.js';
import type { ChatPrompt, PreparePool } from '../../src/main/prepare-types.js';
import { startPipeline } from '../../src/main/start-pipeline.js';
import { parseConfig } from '../../src/shared/config.js';
import { FakeVocabulary } from '../../src/workers/fake-vocabulary.js';
import { busiestThreadsMs, threadTimesMs } from '../measure/thread-times.js';
import { report } from '../measure/trial.js';
import type { ClientsMessage } from './http-clients.js';

export interface HttpResult {
  tokensPerSecond: number;
  steps: number;
  /** CPU of the server's process for one token, all threads. */
  cpuMicrosPerToken: number;
  threadShares: number[];
  finishedRequests: number;
}

/** The prepare pool's work without its threads: the bench streams, it does not tokenize. */
class InlinePreparePool implements PreparePool {
  private readonly vocabulary = new FakeVocabulary();

  async chat(inputsJson: string): Promise<ChatPrompt> {
    const tokens = this.vocabulary.tokenize(this.vocabulary.applyTemplate(inputsJson), true, true);
    return { tokens, boundaries: [] };
  }

  async text(text: string): Promise<Int32Array> {
    return this.vocabulary.tokenize(text, true, false);
  }

  async render(inputsJson: string): Promise<string> {
    return this.vocabulary.applyTemplate(inputsJson);
  }

  async checkGrammar(): Promise<void> {}

  async close(): Promise<void> {}
}

/** Resolves with the next message of `kind`. @throws Error when the clients end or fail first. */
async function next<Kind extends ClientsMessage['kind']>(
  clients: ChildProcess,
  kind: Kind,
): Promise<ClientsMessage & { kind: Kind }> {
  for (;;) {
    const [message] = (await Promise.race([
      once(clients, 'message'),
      once(clients, 'exit').then(([code]) => {
        throw new Error(`the clients ended with ${code}`);
      }),
    ])) as [ClientsMessage];
    if (message.kind === kind) return message as ClientsMessage & { kind: Kind };
  }
}

const [clientCount, seconds] = process.argv.slice(2);
const pipeline = await startPipeline({
  config: parseConfig({ contextTokens: 4096, maxRunningRequests: Number(clientCount), maxTotalTokens: 4096 * 64 }),
  modelPath: 'fake.gguf',
  fake: {},
});
const server = createServer({
  pipeline,
  prepare: new InlinePreparePool(),
  config: httpConfig({ modelName: 'fake' }),
  logger: pino({ level: 'silent' }),
});
await server.listen({ host: '127.0.0.1', port: 0 });
const { port } = server.server.address() as AddressInfo;

const script = fileURLToPath(new URL('./http-clients.js', import.meta.url));
const clients = fork(script, [String(port), clientCount, seconds], { execArgv: [] });
await next(clients, 'begin');
const cpuBefore = process.cpuUsage();
const threadsBefore = threadTimesMs();
const stepsBefore = pipeline.deviceGauges().steps;
const { tokens, elapsedMs, finishedRequests } = await next(clients, 'end');
const cpu = process.cpuUsage(cpuBefore);
report({
  tokensPerSecond: (tokens / elapsedMs) * 1000,
  steps: pipeline.deviceGauges().steps - stepsBefore,
  cpuMicrosPerToken: (cpu.user + cpu.system) / tokens,
  threadShares: busiestThreadsMs(threadsBefore, threadTimesMs(), 3).map((ms) => ms / elapsedMs),
  finishedRequests,
} satisfies HttpResult);
clients.kill();
server.server.closeAllConnections();
await server.close();
await pipeline.close(0);
