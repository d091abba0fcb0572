import { randomUUID } from 'node:crypto';
import type { OutgoingHttpHeaders } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { PlimsollError } from '../../shared/errors.js';
import type { Metrics } from '../metrics.js';
import { SseWriter } from '../streaming/sse-writer.js';
import { StopStrings } from '../streaming/stop-strings.js';
import type { WriteBatcher } from '../streaming/write-batcher.js';
import type { ChoicePlan } from './choice.js';
import { type CollectedChoice, CollectSink } from './collect-sink.js';
import { Generation, type GenerationContext, type GenerationSink } from './generation.js';
import type { HttpConfig } from './http-config.js';
import type { KeyShares } from './key-shares.js';
import type { SamplingBody } from './sampling-fields.js';
import type { Backend, Lease, Serving } from './serving.js';
import { ChunkWriter, type ReplyIdentity, type StreamFormat } from './stream-format.js';
import { StreamSink } from './stream-sink.js';
import { type Timings, timingsOf, type Usage, usageOf } from './usage.js';

/** What every generating route shares. */
export interface RouteContext {
  serving: Serving;
  config: HttpConfig;
  metrics: Metrics;
  batcher: WriteBatcher;
  /** The prefix-cache salt of a request. */
  cacheSalt: (request: FastifyRequest, salt: string | number | undefined) => number;
  shares: KeyShares;
}

/** One request, ready to run. */
export interface ReplyPlan {
  body: SamplingBody;
  choices: ChoicePlan[];
  choicesPerPrompt: number;
  /** Text before each choice's own. */
  echoes: string[];
  logprobs: number;
  shape: 'chat' | 'completion';
  format: StreamFormat;
  /** The reply of a request that does not stream. */
  whole: (identity: ReplyIdentity, choices: readonly CollectedChoice[], usage: Usage, timings: Timings) => unknown;
}

/**
 * Runs a request from preparation to its last byte. `prepare` gets a signal that aborts when the client goes. The request counts as in
 * flight for a drain until its response is closed: its last bytes have left, or never will.
 */
export async function respond(
  context: RouteContext,
  request: FastifyRequest,
  reply: FastifyReply,
  prepare: (backend: Backend, signal: AbortSignal) => Promise<ReplyPlan>,
): Promise<unknown> {
  const backend = context.serving.require();
  // Gone while its body was read: no close will be heard any more.
  if (request.raw.socket.destroyed) return reply.hijack();
  const abort = new AbortController();
  let generation: Generation | null = null;
  let giveBack = () => {};
  let ending: PlimsollError | null = null;
  const lease: Lease = {
    abort: (error) => {
      ending = error;
      abort.abort(error);
      generation?.fail(error);
    },
  };
  const { socket } = request.raw;
  let isClosed = false;
  const onClose = () => {
    if (isClosed) return;
    isClosed = true;
    socket.off('close', onClose);
    abort.abort();
    generation?.cancel();
    giveBack();
    context.serving.leave(lease);
  };
  context.serving.enter(lease);
  reply.raw.once('close', onClose);
  // The reply to a second request on the same connection does not close before the first one has ended.
  socket.once('close', onClose);
  try {
    const preparedFrom = performance.now();
    const plan = await prepare(backend, abort.signal);
    context.metrics.prepareTime.add((performance.now() - preparedFrom) / 1000);
    abort.signal.throwIfAborted();
    giveBack = context.shares.take(request.keyIndex, plan.choices.length, backend.pipeline);
    const create = (sink: GenerationSink) => {
      generation = new Generation(generationContext(context, backend, request, reply, plan), plan.choices, sink);
      return generation;
    };
    return await (plan.body.stream ? stream : collect)(context, backend, request, reply, plan, create);
  } catch (error) {
    throw ending ?? error;
  }
}

/** Makes the generation; submitting it is left to the caller, because the pipeline may call back at once. */
type Create = (sink: GenerationSink) => Generation;

async function collect(
  context: RouteContext,
  backend: Backend,
  request: FastifyRequest,
  reply: FastifyReply,
  plan: ReplyPlan,
  create: Create,
): Promise<unknown> {
  const sink = new CollectSink(backend.table, plan.shape, plan.logprobs, plan.echoes);
  const generation = create(sink);
  generation.submit();
  // Over without a result: the client is gone, and there is nobody to answer.
  const choices = await Promise.race([sink.result, generation.over.then(() => null)]);
  logEnd(request, generation);
  if (choices === null) return reply.hijack();
  const usage = usageOf(generation.choices, plan.choicesPerPrompt);
  return plan.whole(identityOf(context.config, plan.format), choices, usage, timingsOf(generation.choices));
}

async function stream(
  context: RouteContext,
  backend: Backend,
  request: FastifyRequest,
  reply: FastifyReply,
  plan: ReplyPlan,
  create: Create,
): Promise<unknown> {
  const { config, metrics, batcher } = context;
  let generation: Generation | null = null;
  const writer = new SseWriter(reply.raw, batcher, {
    pingIntervalMs: config.ssePingIntervalMs,
    bufferLimitBytes: config.clientBufferBytes,
    onLost: (reason) => {
      if (reason === 'too-slow') metrics.slowClientDrops++;
      generation?.cancel();
    },
  });
  const { body, format } = plan;
  const includeUsage = body.stream_options?.include_usage ?? false;
  const chunks = new ChunkWriter(format, identityOf(config, format), plan.choices.length, includeUsage);
  const sink = new StreamSink(writer, chunks, backend.table, {
    shape: plan.shape,
    logprobs: plan.logprobs,
    timingsPerToken: body.timings_per_token ?? false,
    returnProgress: body.return_progress ?? false,
    echoes: plan.echoes,
    usage: includeUsage ? () => usageOf(generation?.choices ?? [], plan.choicesPerPrompt) : null,
    headers: reply.getHeaders() as OutgoingHttpHeaders,
    onLateError: (error) => metrics.countError(error.code),
  });
  generation = create(sink);
  generation.submit();
  const early = setTimeout(() => sink.openEarly(), config.firstResultWaitMs);
  try {
    await Promise.race([sink.firstResult, generation.over]);
  } finally {
    clearTimeout(early);
  }
  // From here on the response is the writer's: Fastify must not touch it.
  reply.hijack();
  await generation.over;
  logEnd(request, generation);
  return reply;
}

function generationContext(
  context: RouteContext,
  backend: Backend,
  request: FastifyRequest,
  reply: FastifyReply,
  plan: ReplyPlan,
): GenerationContext {
  const { body } = plan;
  const stops = (body.stop ?? []).filter((stop) => stop !== '');
  return {
    pipeline: backend.pipeline,
    table: backend.table,
    metrics: context.metrics,
    arrivedAtMs: performance.now() - reply.elapsedTime,
    priority: body.priority ?? 0,
    cacheSalt: context.cacheSalt(request, body.cache_salt),
    noPrefixCache: body.cache_prompt === false,
    noDrafts: body.speculative === false,
    stops: stops.length === 0 ? null : new StopStrings(stops),
    requestId: request.id,
    log: request.log,
  };
}

function identityOf(config: HttpConfig, format: StreamFormat): ReplyIdentity {
  return {
    id: format.idPrefix + randomUUID().replaceAll('-', ''),
    created: Math.floor(Date.now() / 1000),
    model: config.modelName,
    systemFingerprint: config.systemFingerprint,
  };
}

function logEnd(request: FastifyRequest, generation: Generation): void {
  const { choices } = generation;
  const sum = (read: (choice: (typeof choices)[number]) => number) =>
    choices.reduce((total, choice) => total + read(choice), 0);
  request.log.info(
    {
      choices: choices.length,
      promptTokens: choices[0].plan.promptTokens.length,
      cachedTokens: choices[0].cachedTokens,
      completionTokens: sum((choice) => choice.completionTokens),
    },
    'generation over',
  );
}
