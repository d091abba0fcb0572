import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { chatSchema, refuseUnsupported, templateInputs } from './chat-schema.js';
import type { ChoicePlan } from './choice.js';
import type { CollectedChoice } from './collect-sink.js';
import { outputLimit } from './context-limit.js';
import { parse } from './fields.js';
import { checkModel } from './models-route.js';
import { type ReplyPlan, type RouteContext, respond } from './respond.js';
import { grammarOf } from './response-format.js';
import { samplingTemplate } from './sampling-fields.js';
import type { Backend } from './serving.js';
import { CHAT_FORMAT } from './stream-format.js';

/** POST /v1/chat/completions. */
export function addChatRoute(app: FastifyInstance, context: RouteContext): void {
  const schema = chatSchema(context.config);
  app.post('/v1/chat/completions', (request: FastifyRequest, reply: FastifyReply) =>
    respond(context, request, reply, async (backend, signal) => {
      const body = parse(schema, request.body);
      checkModel(context.config, body.model);
      refuseUnsupported(body);
      const grammar = grammarOf(body);
      if (grammar !== '') await backend.prepare.checkGrammar(grammar, signal);
      const { tokens, boundaries } = await backend.prepare.chat(templateInputs(body), signal);
      const logprobs = body.logprobs ? (body.top_logprobs ?? 0) : -1;
      const asked = body.max_completion_tokens ?? body.max_tokens;
      const count = body.n ?? 1;
      return {
        body,
        choices: choicesOf(
          backend,
          tokens,
          { ...body, grammar },
          { logprobs, asked, count, param: 'messages', boundaries },
        ),
        choicesPerPrompt: count,
        echoes: new Array<string>(count).fill(''),
        logprobs,
        shape: 'chat',
        format: CHAT_FORMAT,
        whole: wholeReply,
      } satisfies ReplyPlan;
    }),
  );
}

/** `count` choices of one prompt, each with a seed of its own that the request's seed decides. */
export function choicesOf(
  backend: Backend,
  promptTokens: Int32Array,
  body: ReplyPlan['body'],
  options: {
    logprobs: number;
    asked: number | undefined;
    count: number;
    param: string;
    boundaries?: readonly number[];
  },
): ChoicePlan[] {
  const { pipeline } = backend;
  const maxTokens = outputLimit(promptTokens.length, options.asked, pipeline.contextTokens, options.param);
  const template = samplingTemplate(body, options.logprobs, pipeline.model.vocabularySize);
  return Array.from({ length: options.count }, (_, i) => ({
    promptTokens,
    boundaries: options.boundaries ?? [],
    sampling: { ...template, maxTokens, seed: (template.seed + i) | 0 },
  }));
}

const wholeReply: ReplyPlan['whole'] = (identity, choices, usage, timings) => ({
  id: identity.id,
  object: 'chat.completion',
  created: identity.created,
  model: identity.model,
  system_fingerprint: identity.systemFingerprint,
  choices: choices.map(wholeChoice),
  usage,
  timings,
});

function wholeChoice(choice: CollectedChoice, index: number) {
  return {
    index,
    message: { role: 'assistant', content: choice.text, refusal: null },
    logprobs: choice.chatLogprobs === null ? null : { content: choice.chatLogprobs, refusal: null },
    finish_reason: choice.end,
  };
}
