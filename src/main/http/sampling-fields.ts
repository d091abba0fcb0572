import { randomInt } from 'node:crypto';
import { z } from 'zod';
import type { SamplingParams } from '../../shared/sampling.js';
import { GRAMMAR_MAX_BYTES, LOGIT_BIAS_MAX } from '../../shared/sampling-wire.js';
import { boolean, integer, invalidField, number, optional, text } from './fields.js';
import type { HttpConfig } from './http-config.js';

const INT32_MAX = 2 ** 31 - 1;

/**
 * What applies when a request says nothing: llama.cpp's defaults, because the models people run here were tried with them. OpenAI's
 * would be temperature 1 and no top-k, top-p or min-p.
 */
export const SAMPLING_DEFAULTS = {
  temperature: 0.8,
  topK: 40,
  topP: 0.95,
  minP: 0.05,
  repeatPenalty: 1,
  frequencyPenalty: 0,
  presencePenalty: 0,
  penaltyLastTokens: 64,
} as const;

/** An object of token ids to biases, or llama.cpp's list of pairs. */
const logitBias = z.union(
  [
    z.record(z.string(), number(-100, 100)),
    z.array(z.tuple([integer(0, INT32_MAX), number(-100, 100)])).max(LOGIT_BIAS_MAX),
  ],
  { error: 'must map token ids to numbers from -100 to 100' },
);

/** Fields that /v1/chat/completions and /v1/completions share. */
export function samplingFields(config: HttpConfig) {
  const stop = text(config.stopStringLengthMax).refine((value) => value.isWellFormed(), {
    error: 'must be well-formed Unicode',
  });
  const tooMany = `must be a string or an array of at most ${config.stopStringsMax} strings`;
  return {
    model: optional(z.string({ error: 'must be a string' })),
    stream: optional(boolean),
    stream_options: optional(z.object({ include_usage: optional(boolean) }, { error: 'must be an object' })),
    n: optional(integer(1, config.choicesMax)),
    // −1 is llama.cpp's way to say: up to the end of the context.
    max_tokens: optional(integer(-1, INT32_MAX).refine((value) => value !== 0, { error: 'must be -1 or at least 1' })),
    stop: optional(
      z.preprocess(
        (value) => (typeof value === 'string' ? [value] : value),
        z.array(stop, { error: tooMany }).max(config.stopStringsMax, { error: tooMany }),
      ),
    ),
    seed: optional(integer(Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER)),
    temperature: optional(number(0, 2)),
    top_p: optional(number(0, 1)),
    top_k: optional(integer(-1, INT32_MAX)),
    min_p: optional(number(0, 1)),
    frequency_penalty: optional(number(-2, 2)),
    presence_penalty: optional(number(-2, 2)),
    repetition_penalty: optional(number(0.01, 10)),
    repeat_penalty: optional(number(0.01, 10)),
    repeat_last_n: optional(integer(-1, INT32_MAX)),
    logit_bias: optional(logitBias),
    ignore_eos: optional(boolean),
    grammar: optional(
      text(GRAMMAR_MAX_BYTES).refine((value) => Buffer.byteLength(value) <= GRAMMAR_MAX_BYTES, {
        error: `must have at most ${GRAMMAR_MAX_BYTES} bytes`,
      }),
    ),
    priority: optional(integer(-INT32_MAX, INT32_MAX)),
    cache_salt: optional(z.union([z.string().max(1024), z.int()], { error: 'must be a string or an integer' })),
    cache_prompt: optional(boolean),
    speculative: optional(boolean),
    return_progress: optional(boolean),
    timings_per_token: optional(boolean),
  };
}

/** The output type of `samplingFields`. */
export type SamplingBody = z.output<z.ZodObject<ReturnType<typeof samplingFields>>>;

/** What a request asks of the sampler, apart from its output limit, which depends on the prompt. */
export type SamplingTemplate = Omit<SamplingParams, 'maxTokens'>;

/** @throws PlimsollError invalid_request for a bias on a token that the vocabulary does not have. */
export function samplingTemplate(body: SamplingBody, logprobs: number, vocabularySize: number): SamplingTemplate {
  return {
    temperature: body.temperature ?? SAMPLING_DEFAULTS.temperature,
    topK: Math.max(0, body.top_k ?? SAMPLING_DEFAULTS.topK),
    topP: body.top_p ?? SAMPLING_DEFAULTS.topP,
    minP: body.min_p ?? SAMPLING_DEFAULTS.minP,
    repeatPenalty: body.repetition_penalty ?? body.repeat_penalty ?? SAMPLING_DEFAULTS.repeatPenalty,
    frequencyPenalty: body.frequency_penalty ?? SAMPLING_DEFAULTS.frequencyPenalty,
    presencePenalty: body.presence_penalty ?? SAMPLING_DEFAULTS.presencePenalty,
    penaltyLastTokens: body.repeat_last_n ?? SAMPLING_DEFAULTS.penaltyLastTokens,
    seed: baseSeed(body.seed),
    ignoreEos: body.ignore_eos ?? false,
    logprobs,
    logitBias: biasPairs(body.logit_bias, vocabularySize),
    grammar: body.grammar ?? '',
  };
}

/** The lowest 32 bits count; absent, or llama.cpp's −1: a new one. */
function baseSeed(seed: number | undefined): number {
  return seed === undefined || seed === -1 ? randomInt(2 ** 32) | 0 : seed | 0;
}

function biasPairs(bias: SamplingBody['logit_bias'], vocabularySize: number): Array<[token: number, bias: number]> {
  if (bias === undefined) return [];
  const pairs: Array<[number, number]> = Array.isArray(bias)
    ? bias.map(([token, value]) => [token, value])
    : Object.entries(bias).map(([key, value]) => [/^\d{1,10}$/.test(key) ? Number(key) : -1, value]);
  if (pairs.length > LOGIT_BIAS_MAX) throw invalidField('logit_bias', `must have at most ${LOGIT_BIAS_MAX} entries`);
  const isKnown = ([token]: [number, number]) => token >= 0 && token < vocabularySize;
  if (!pairs.every(isKnown)) throw invalidField('logit_bias', `keys must be token ids from 0 to ${vocabularySize - 1}`);
  return pairs;
}
