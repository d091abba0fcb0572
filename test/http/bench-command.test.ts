import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { BenchResults } from '../../src/main/bench-command/results.js';
import { runBench } from '../../src/main/bench-command/run-bench.js';
import { CliError } from '../../src/main/cli/cli-error.js';
import { PlimsollError } from '../../src/shared/errors.js';
import type { ScriptedRequest } from './scripted-pipeline.js';
import { startServer, type TestServer } from './test-server.js';

/** Requests that find out how the server counts, before the measured ones. */
const CALIBRATION_REQUESTS = 2;

interface Run {
  exitCode: number;
  stdout: string;
  results: BenchResults;
}

/** Runs the command with its results in a file. */
async function bench(
  test: { testdir(): string },
  url: string,
  words: string,
  stop = new AbortController().signal,
): Promise<Run> {
  const folder = test.testdir();
  const json = join(folder, 'results.json');
  let stdout = '';
  const streams = { stdout: { write: (text: string) => (stdout += text) }, stderr: { write: () => {} } };
  const exitCode = await runBench(['--url', url, '--json', json, ...words.split(' ')], { env: {}, streams, stop });
  return { exitCode, stdout, results: JSON.parse(readFileSync(json, 'utf8')) as BenchResults };
}

/** Says as many tokens as were asked for. */
function answer(request: ScriptedRequest): void {
  request.start(5);
  request.say('x'.repeat(request.request.sampling.maxTokens));
  request.finish('length');
}

function promptOf({ request }: ScriptedRequest): string {
  return String.fromCharCode(...request.promptTokens);
}

/** Prompts of the measured requests, in the order in which they came. */
function prompts({ pipeline }: TestServer): string[] {
  return pipeline.requests.slice(CALIBRATION_REQUESTS).map(promptOf);
}

t.test('a closed loop: every request is answered, counted and drawn', async (t) => {
  const server = await startServer(t);
  server.pipeline.onSubmit = answer;
  const svg = join(t.testdir({}), 'picture.svg');
  const { exitCode, stdout, results } = await bench(
    t,
    server.url,
    `--clients 3 --requests 10 --prompt-tokens 200 --output-tokens 6 --goodput ttft=60000,itl=60000 --svg ${svg}`,
  );
  t.equal(exitCode, 0);
  t.match(results, {
    model: 'fake-model',
    ended: 'done',
    requests: { sent: 10, answered: 10, failed: 0, notSent: 0, unfinished: 0 },
    failures: [],
    tokens: { cachedPrompt: 5, output: 6, countedBy: 'server', perChunk: 1 },
    goodput: { share: 1 },
    notes: [],
  });
  t.equal(results.latencyMs.interToken.count, 50, 'five gaps in an answer of six tokens');
  t.ok(Math.abs((results.tokens.prompt ?? 0) - 200) < 20, `${results.tokens.prompt} prompt tokens, asked for 200`);
  t.equal(new Set(prompts(server).map((prompt) => prompt.slice(0, 60))).size, 10, 'no two prompts begin alike');
  t.match(stdout, /time to first token +[\d.]+/);
  t.match(stdout, /10 answered, 0 failed/);
  t.match(stdout, /100\.0 % within ttft ≤ 60000 ms, itl ≤ 60000 ms/);
  t.match(readFileSync(svg, 'utf8'), /^<svg .*inter-token latency/s);
});

t.test('a closed loop has no more requests at once than clients', async (t) => {
  const { pipeline, url } = await startServer(t);
  const held: ScriptedRequest[] = [];
  let most = 0;
  pipeline.onSubmit = (request) => {
    if (request.id <= CALIBRATION_REQUESTS) return answer(request);
    held.push(request);
    most = Math.max(most, pipeline.activeCount);
    // The two clients both wait: nobody else may come.
    if (held.length === 2) for (const one of held.splice(0)) answer(one);
  };
  const { results } = await bench(t, url, '--clients 2 --requests 8 --prompt-tokens 50 --output-tokens 2');
  t.equal(results.requests.answered, 8);
  t.equal(most, 2);
});

t.test('an open loop does not wait for answers', async (t) => {
  const { pipeline, url } = await startServer(t);
  const held: ScriptedRequest[] = [];
  pipeline.onSubmit = (request) => {
    if (request.id <= CALIBRATION_REQUESTS) return answer(request);
    held.push(request);
    // All have come before any was answered.
    if (held.length === 12) for (const one of held) answer(one);
  };
  const { results } = await bench(t, url, '--rate 500 --requests 12 --prompt-tokens 50 --output-tokens 2');
  t.match(results.requests, { answered: 12, failed: 0 });
  t.match(results.load, { rate: 500, clients: null });
});

t.test('a shared prefix is shared, and chats send what was said', async (t) => {
  const server = await startServer(t);
  server.pipeline.onSubmit = (request) => {
    request.say(`answer${request.id}`);
    request.finish('stop');
  };
  const { results, stdout } = await bench(
    t,
    server.url,
    '--clients 1 --requests 6 --turns 3 --prompt-tokens 60 --shared-prefix-tokens 100 --output-tokens 30',
  );
  const texts = prompts(server);
  t.equal(texts.length, 6);
  t.equal(texts[0].slice(0, 60), texts[3].slice(0, 60), 'both chats begin with the prefix');
  t.not(texts[0].slice(0, 160), texts[3].slice(0, 160), 'and go on differently');
  for (const turn of [1, 2]) {
    t.ok(texts[turn].startsWith(texts[turn - 1]), `turn ${turn + 1} begins with all of the one before`);
    t.match(texts[turn], `answer${CALIBRATION_REQUESTS + turn}`);
  }
  t.equal(results.latencyMs.firstTokenOfFirstTurn.count, 2);
  t.equal(results.latencyMs.firstTokenOfLaterTurns.count, 4);
  t.match(results.notes, [/shorter than --output-tokens/]);
  t.match(stdout, /later turns/);
});

t.test('refusals are counted by status, and do not end the run', async (t) => {
  const { pipeline, url } = await startServer(t);
  pipeline.onSubmit = (request) => {
    answer(request);
    if (request.id === CALIBRATION_REQUESTS + 3) pipeline.refusal = new PlimsollError('queue_full', 'no room');
  };
  const { exitCode, stdout, results } = await bench(
    t,
    url,
    '--clients 1 --requests 7 --prompt-tokens 50 --output-tokens 2 --goodput e2e=60000',
  );
  t.equal(exitCode, 0);
  t.match(results.requests, { sent: 7, answered: 3, failed: 4 });
  t.strictSame(results.failures, [{ kind: '429 queue_full', count: 4, message: 'no room' }]);
  t.ok(Math.abs((results.goodput?.share ?? 0) - 3 / 7) < 1e-9, 'what failed was not good');
  t.match(stdout, /errors +4 × 429 queue_full: no room/);
});

t.test('when nothing was answered: exit code 1, and no latencies', async (t) => {
  const { pipeline, url } = await startServer(t);
  pipeline.onSubmit = (request) => {
    answer(request);
    if (request.id === CALIBRATION_REQUESTS) pipeline.refusal = new PlimsollError('insufficient_memory', 'full');
  };
  const { exitCode, stdout } = await bench(t, url, '--requests 5 --prompt-tokens 50 --output-tokens 2');
  t.equal(exitCode, 1);
  t.match(stdout, /5 × 503 insufficient_memory/);
  t.notMatch(stdout, /time to first token/);
});

t.test('Ctrl-C: what there is so far, exit code 130', async (t) => {
  const { pipeline, url } = await startServer(t);
  const stop = new AbortController();
  pipeline.onSubmit = (request) => {
    if (request.id <= CALIBRATION_REQUESTS + 2) return answer(request);
    request.say('x');
    stop.abort();
  };
  const { exitCode, stdout, results } = await bench(
    t,
    url,
    '--clients 1 --requests 9 --prompt-tokens 50 --output-tokens 2',
    stop.signal,
  );
  t.equal(exitCode, 130);
  t.match(results, { ended: 'stopped', requests: { answered: 2, failed: 0, unfinished: 1 } });
  t.match(stdout, /2 answered, 0 failed, 1 unfinished .*; stopped before all 9 were sent/);
  await pipeline.cancelled();
});

t.test('the key is sent, and its absence is a line', async (t) => {
  const { pipeline, url } = await startServer(t, { apiKeys: ['secret'] });
  pipeline.onSubmit = answer;
  const { results } = await bench(t, url, '--api-key secret --requests 2 --prompt-tokens 50 --output-tokens 2');
  t.equal(results.requests.answered, 2);
  const refused = await bench(t, url, '--requests 2').catch((error: unknown) => error);
  t.ok(refused instanceof CliError && refused.exitCode === 1);
  t.match(
    (refused as Error).message,
    /^http:\S+ did not answer the first request: 401 invalid_api_key: .*\(--api-key\)$/,
  );
});
