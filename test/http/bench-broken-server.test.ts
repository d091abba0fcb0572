import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { runBench } from '../../src/main/bench-command/run-bench.js';
import { CliError } from '../../src/main/cli/cli-error.js';

interface ChatBody {
  ignore_eos?: boolean;
  stream_options?: unknown;
  messages: Array<{ content: string }>;
}

type Script = (n: number, response: ServerResponse, body: ChatBody) => void;

/** A server that answers the `n`-th chat request (from 0; two come before the measured ones) as the script says. */
async function startScript(test: { teardown(fn: () => unknown): void }, script: Script) {
  let count = 0;
  const server = createServer(async (request: IncomingMessage, response) => {
    if (request.url === '/v1/models') {
      response.end('{"data":[{"id":"m"}]}');
      return;
    }
    let text = '';
    for await (const part of request) text += part;
    script(count++, response, JSON.parse(text) as ChatBody);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  test.teardown(close);
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close };
}

const chunk = (content: string) => `data: {"choices":[{"delta":{"content":"${content}"}}]}\n\n`;
const usage = (words: number) =>
  `data: {"choices":[],"usage":{"prompt_tokens":${words + 10},"completion_tokens":3}}\n\n`;

/** A whole answer of three tokens, after a first chunk with the role alone as OpenAI sends it. */
function answer(response: ServerResponse, body: ChatBody): void {
  const words = body.messages[0].content.split(' ').length;
  const role = 'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n';
  const counted = body.stream_options ? usage(words) : '';
  response.end(`${role}${chunk('a')}${chunk('b')}${chunk('c')}${counted}data: [DONE]\n\n`);
}

async function bench(url: string, words = '--clients 1 --requests 4 --prompt-tokens 50 --output-tokens 3') {
  let stdout = '';
  const streams = { stdout: { write: (text: string) => (stdout += text) }, stderr: { write: () => {} } };
  const stop = new AbortController().signal;
  const exitCode = await runBench(['--url', url, ...words.split(' ')], { env: {}, streams, stop });
  return { exitCode, stdout };
}

t.test('a server that breaks off in the middle of an answer', async (t) => {
  const { url } = await startScript(t, (n, response, body) => {
    if (n === 3) {
      response.write(chunk('a'), () => response.destroy());
      return;
    }
    if (n === 4)
      response.end(`${chunk('a')}data: {"error":{"code":"internal","message":"a worker\\u001b[31m died"}}\n\n`);
    else if (n === 5) response.end(chunk('a'));
    else answer(response, body);
  });
  const { exitCode, stdout } = await bench(url, '--clients 1 --requests 5 --prompt-tokens 50 --output-tokens 3');
  t.equal(exitCode, 0);
  t.match(stdout, /2 answered, 3 failed/);
  t.match(stdout, /2 × broken stream/);
  t.match(stdout, /1 × error in stream: internal: a worker \[31m died/, 'control characters do not reach the terminal');
  t.match(stdout, /3\.0 out, counted by the server/, 'tokens of broken answers do not count');
});

t.test('a server that goes away is given up, with what it had answered', async (t) => {
  const server = await startScript(t, (n, response, body) => {
    answer(response, body);
    if (n === 4) server.close();
  });
  const { exitCode, stdout } = await bench(server.url, '--clients 4 --requests 100000 --prompt-tokens 50');
  t.equal(exitCode, 1);
  t.match(stdout, /[1-9]\d* answered, \d+ failed.*; given up, nobody answers any more/);
  t.match(stdout, /\d+ × connection: /);
});

t.test('a server that is silent: the time-out is an error of its own', async (t) => {
  const { url } = await startScript(t, (n, response, body) => {
    if (n < 3) answer(response, body);
    else response.write(chunk('a'));
  });
  const { stdout } = await bench(url, '--clients 1 --requests 2 --prompt-tokens 50 --output-tokens 3 --timeout 300ms');
  t.match(stdout, /1 answered, 1 failed/);
  t.match(stdout, /1 × timeout: no whole answer within 0\.3 s/);
});

t.test('without usage the chunks are counted, and the table says so', async (t) => {
  const { url } = await startScript(t, (_n, response, body) => answer(response, { messages: body.messages }));
  const { exitCode, stdout } = await bench(url);
  t.equal(exitCode, 0);
  t.match(stdout, /3\.0 out, counted by chunks of the stream/);
  t.match(stdout, /sends no usage/);
  t.match(stdout, /guess of one token a word/);
});

t.test('fields that a server refuses are left out', async (t) => {
  const bodies: ChatBody[] = [];
  const { url } = await startScript(t, (_n, response, body) => {
    bodies.push(body);
    if (body.ignore_eos !== undefined) response.writeHead(400).end('{"error":{"message":"Unknown field ignore_eos"}}');
    else answer(response, body);
  });
  const { exitCode, stdout } = await bench(url);
  t.equal(exitCode, 0);
  t.match(stdout, /4 answered, 0 failed/);
  t.match(stdout, /does not take ignore_eos/);
  t.ok(bodies.slice(1).every((body) => body.ignore_eos === undefined && body.stream_options !== undefined));
});

t.test('an answer without end is cut off', async (t) => {
  const { url } = await startScript(t, (n, response, body) => {
    if (n < 3) answer(response, body);
    else response.write(chunk('a').repeat(200));
  });
  const { stdout } = await bench(url, '--clients 1 --requests 2 --prompt-tokens 50 --output-tokens 3');
  t.match(stdout, /1 × too long/);
});

t.test('nobody there, or somebody else: one line', async (t) => {
  const server = await startScript(t, (_n, response) => response.writeHead(502).end('<html>\nbad gateway</html>'));
  const line = async (url: string) => {
    const error = await bench(url).catch((thrown: unknown) => thrown);
    t.ok(error instanceof CliError && error.exitCode === 1);
    return (error as Error).message;
  };
  t.match(await line(server.url), /did not answer the first request: 502: <html> bad gateway<\/html>$/);
  server.close();
  t.match(
    await line(server.url),
    /^http:\S+ cannot be reached \(ECONNREFUSED\): is a server running there\? \(--url\)$/,
  );
});
