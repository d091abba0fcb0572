/** What a user reads when the program cannot serve, and how it ends when it is told to: the real program with real files. */
import { once } from 'node:events';
import { closeSync, openSync, readFileSync, readSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { ServedProcess } from '../support/served-process.js';
import { requireTestModel } from '../support/test-models.js';

t.setTimeout(300_000);

const ANY_PORT = ['--port', '0'];

function serve(t: Test, args: string[]): ServedProcess {
  const served = new ServedProcess(args, { PLIMSOLL_CACHE_DIR: t.testdirName });
  t.teardown(() => served.signalAll('SIGKILL'));
  return served;
}

/** Runs to the end that must come by itself: exit code, and what is not the server's log. */
async function failed(t: Test, args: string[]): Promise<{ code: unknown; messages: string[] }> {
  const served = serve(t, args);
  const [code] = await served.exited;
  await served.allGone;
  const messages = served.lines.filter(({ level }) => level === 0).map(({ msg }) => msg);
  t.notOk(
    served.lines.some(({ msg }) => /^\s+at .*:\d+:\d+/.test(msg)),
    'no stack trace',
  );
  t.notOk(
    served.lines.some(({ level }) => level >= 50),
    'the log has no error of its own',
  );
  return { code, messages };
}

async function failsWithLine(t: Test, args: string[], code: number, line: RegExp): Promise<void> {
  const ended = await failed(t, args);
  t.equal(ended.code, code);
  t.equal(ended.messages.length, 1, ended.messages.join('\n'));
  t.match(ended.messages[0], line);
}

/** A test model's first `bytes` bytes. */
function beginning(path: string, bytes: number): Buffer {
  const buffer = Buffer.alloc(bytes);
  const file = openSync(path, 'r');
  readSync(file, buffer, 0, bytes, 0);
  closeSync(file);
  return buffer;
}

t.test('model files that are none', async (t) => {
  const folder = t.testdir({ 'garbage.gguf': 'not a model at all, whatever its name says' });
  const file = (name: string) => join(folder, name);
  writeFileSync(file('cut.gguf'), beginning(requireTestModel('smollm2-q4_0'), 1_000_000));
  const unknown = readFileSync(requireTestModel('tiny-mamba'));
  const at = unknown.indexOf('mamba', unknown.indexOf('general.architecture'));
  unknown.write('zorba', at);
  writeFileSync(file('unknown.gguf'), unknown);

  const cases: [string, RegExp][] = [
    [file('missing.gguf'), /^plimsoll: there is no model file .*missing\.gguf/],
    [file('garbage.gguf'), /^plimsoll: .*garbage\.gguf is not a GGUF file/],
    [file('cut.gguf'), /^plimsoll: .*cut\.gguf cannot be loaded: .*damaged or incomplete/],
    [file('unknown.gguf'), /^plimsoll: .*unknown\.gguf cannot be served: unknown model architecture: 'zorba'/],
    [requireTestModel('minilm'), /^plimsoll: .*minilm\.gguf .*does not generate text/],
    ['no-such-name', /^plimsoll: no built-in model is called "no-such-name"/],
  ];
  for (const [model, line] of cases) await failsWithLine(t, ['--model', model, ...ANY_PORT], 1, line);
});

t.test('a busy port', async (t) => {
  const other = createServer().listen(0, '127.0.0.1');
  await once(other, 'listening');
  t.teardown(() => other.close());
  const { port } = other.address() as { port: number };
  const args = ['--model', requireTestModel('tiny-qwen3'), '--port', String(port)];
  await failsWithLine(t, args, 1, new RegExp(`^plimsoll: 127\\.0\\.0\\.1:${port} is in use`));
});

t.test('wrong commands', async (t) => {
  await failsWithLine(
    t,
    ['--max-runing-requests', '4'],
    2,
    /unknown flag --max-runing-requests; did you mean --max-running-requests\?/,
  );
  await failsWithLine(
    t,
    ['--max-running-requests', 'lots'],
    2,
    /--max-running-requests: got "lots", allowed: auto or an integer/,
  );
});

t.test('a context that no memory holds is refused with the numbers', async (t) => {
  const args = ['--model', requireTestModel('smollm2-q4_0'), '--context-length', '10000000', ...ANY_PORT];
  const { code, messages } = await failed(t, args);
  t.equal(code, 1);
  t.match(messages[0], /^plimsoll: /);
  t.match(messages.join('\n'), /10000000|10,000,000/);
  t.match(messages.join('\n'), /\d(\.\d+)? ?(GB|GiB)/);
  t.notMatch(messages.join('\n'), /bug|the engine failed|NaN|Infinity/);
});

/** A stream of `maxTokens` tokens that has begun. `rest` resolves with all its text when it ends well. */
async function begunStream(address: unknown, maxTokens: number): Promise<{ rest: Promise<string> }> {
  const reply = await fetch(`${address}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      prompt: 'Once upon a time',
      max_tokens: maxTokens,
      temperature: 0,
      ignore_eos: true,
      stream: true,
      stream_options: { include_usage: true },
    }),
  });
  const reader = reply.body!.getReader();
  const first = await reader.read();
  const rest = (async () => {
    const chunks = [first.value!];
    for (let part = await reader.read(); !part.done; part = await reader.read()) chunks.push(part.value);
    return Buffer.concat(chunks).toString();
  })();
  rest.catch(() => {});
  return { rest };
}

/** Time to finish for a stream on a machine that is busy with other things. */
const SHUTDOWN = ['--shutdown-timeout', '200'];
const SERVE = [
  ...['--model', requireTestModel('smollm2-q4_0'), '--threads', '1', '--context-length', '4096'],
  ...SHUTDOWN,
  ...ANY_PORT,
];

t.test('SIGTERM: the running stream ends as it should, then the program does, with 0', async (t) => {
  const served = serve(t, SERVE);
  const { address } = await served.line(/^ready on/);
  const { rest } = await begunStream(address, 48);
  process.kill(served.pid, 'SIGTERM');
  await served.line(/^stopping: no new requests, 1 in flight/);
  const text = await rest;
  t.match(text, /"finish_reason":"length"/);
  t.match(text, /"completion_tokens":48/);
  t.match(text, /data: \[DONE\]\n\n$/);
  t.same(await served.exited, [0, null]);
  await served.allGone;
  t.equal(served.lines.at(-1)?.msg, 'stopped');
});

t.test('a second Ctrl-C ends it at once', async (t) => {
  const served = serve(t, SERVE);
  const { address } = await served.line(/^ready on/);
  const { rest } = await begunStream(address, 4000);
  served.signalAll('SIGINT');
  const { at } = await served.line(/^stopping: no new requests, 1 in flight/);
  served.signalAll('SIGINT');
  t.same(await served.exited, [1, null]);
  await t.rejects(rest, 'the stream is cut off');
  await served.allGone;
  t.match(served.lines.slice(at).at(-1)?.msg, /again: ending now/);
});
