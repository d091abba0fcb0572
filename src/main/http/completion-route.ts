import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { detokenize } from '../streaming/detokenizer.js';
import { choicesOf } from './chat-route.js';
import type { ChoicePlan } from './choice.js';
import type { CollectedChoice } from './collect-sink.js';
import {
  type CompletionBody,
  completionSchema,
  type Prompt,
  refuseUnsupportedCompletion,
} from './completion-schema.js';
import { parse } from './fields.js';
import { checkModel } from './models-route.js';
import { type ReplyPlan, type RouteContext, respond } from './respond.js';
import type { Backend } from './serving.js';
import { COMPLETION_FORMAT } from './stream-format.js';

/** POST /v1/completions. */
export function addCompletionRoute(app: FastifyInstance, context: RouteContext): void {
  const schema = completionSchema(context.config);
  app.post('/v1/completions', (request: FastifyRequest, reply: FastifyReply) =>
    respond(context, request, reply, async (backend, signal) => {
      const body = parse(schema, request.body);
      checkModel(context.config, body.model);
      refuseUnsupportedCompletion(body, context.config.choicesMax, backend.pipeline.model.vocabularySize);
      if (body.grammar) await backend.prepare.checkGrammar(body.grammar, signal);
      const logprobs = body.logprobs ?? -1;
      const count = body.n ?? 1;
      const echo = (prompt: Prompt) => new Array<string>(count).fill(body.echo ? promptText(backend, prompt) : '');
      return {
        body,
        choices: await choicesOfPrompts(backend, body, logprobs, signal),
        choicesPerPrompt: count,
        echoes: body.prompt.flatMap(echo),
        logprobs,
        shape: 'completion',
        format: COMPLETION_FORMAT,
        whole: wholeReply,
      } satisfies ReplyPlan;
    }),
  );
}

/** One after the other: a request with many prompts must not fill the pool's queue alone. */
async function choicesOfPrompts(
  backend: Backend,
  body: CompletionBody,
  logprobs: number,
  signal: AbortSignal,
): Promise<ChoicePlan[]> {
  const plans: ChoicePlan[] = [];
  for (const prompt of body.prompt) {
    const tokens =
      typeof prompt === 'string'
        ? await backend.prepare.text(prompt, { addSpecial: true, parseSpecial: true }, signal)
        : Int32Array.from(prompt);
    plans.push(
      ...choicesOf(backend, tokens, body, { logprobs, asked: body.max_tokens, count: body.n ?? 1, param: 'prompt' }),
    );
  }
  return plans;
}

function promptText(backend: Backend, prompt: Prompt): string {
  return typeof prompt === 'string' ? prompt : detokenize(backend.table, prompt);
}

const wholeReply: ReplyPlan['whole'] = (identity, choices, usage, timings) => ({
  id: identity.id,
  object: 'text_completion',
  created: identity.created,
  model: identity.model,
  system_fingerprint: identity.systemFingerprint,
  choices: choices.map(wholeChoice),
  usage,
  timings,
});

function wholeChoice(choice: CollectedChoice, index: number) {
  return { index, text: choice.text, logprobs: choice.completionLogprobs, finish_reason: choice.end };
}
