import { z } from 'zod';
import { TOP_LOGPROBS_MAX } from '../../shared/sampling-wire.js';
import type { TemplateInputs } from '../../shared/template-inputs.js';
import { boolean, integer, invalidField, listOf, oneOf, optional } from './fields.js';
import type { HttpConfig } from './http-config.js';
import { samplingFields } from './sampling-fields.js';

/** Deepest nesting of values that are handed to the template as they are: parsers on the way recurse. Chosen. */
const TEMPLATE_VALUE_DEPTH_MAX = 16;

/** Elements of a request's lists. Chosen: more than clients send, and few enough to check at once. */
const PARTS_MAX = 4096;
const TOOLS_MAX = 1024;
const MODALITIES_MAX = 8;

const string = z.string({ error: 'must be a string' });
/** A refusal in an assistant's history is text like any other to the model. */
const part = z
  .object({ type: string, text: optional(string), refusal: optional(string) }, { error: 'must be an object' })
  .superRefine((value, context) => {
    const issue = (path: string, message: string) => context.addIssue({ code: 'custom', path: [path], message });
    if (value.type !== 'text' && value.type !== 'refusal')
      issue('type', `'${value.type}' is not supported: only 'text' is`);
    else if (value.type === 'text' && value.text === undefined) issue('text', 'must be a string');
  });

const notContent = `must be a string or an array of at most ${PARTS_MAX} content parts`;
/** A string, or parts of type text, which become one string. */
const content = z.preprocess(
  (value) => (typeof value === 'string' ? [{ type: 'text', text: value }] : value),
  z.array(part, { error: notContent }).max(PARTS_MAX, { error: notContent }),
);

const toolCall = z.looseObject({
  id: optional(string),
  function: z.looseObject({ name: string, arguments: string }, { error: 'must be an object' }),
});

const message = z
  .object(
    {
      role: oneOf(['system', 'developer', 'user', 'assistant', 'tool']),
      content: optional(content),
      name: optional(string),
      reasoning_content: optional(string),
      tool_calls: optional(listOf(toolCall, TOOLS_MAX)),
      tool_call_id: optional(string),
    },
    { error: 'must be an object' },
  )
  .superRefine((value, context) => {
    const mayBeEmpty =
      value.role === 'assistant' && (value.tool_calls !== undefined || value.reasoning_content !== undefined);
    if (value.content !== undefined || mayBeEmpty) return;
    context.addIssue({ code: 'custom', path: ['content'], message: notContent });
  });

/** The conversation, as /v1/chat/completions and /apply-template take it. */
export function conversationFields(config: HttpConfig) {
  const tooMany = `must be an array of 1 to ${config.messagesMax} messages`;
  return {
    messages: z
      .array(message, { error: tooMany })
      .min(1, { error: tooMany })
      .max(config.messagesMax, { error: tooMany }),
    chat_template_kwargs: optional(
      z
        .record(z.string(), z.unknown(), { error: 'must be an object' })
        .refine((value) => isShallow(value, TEMPLATE_VALUE_DEPTH_MAX), {
          error: `must not be nested deeper than ${TEMPLATE_VALUE_DEPTH_MAX}`,
        }),
    ),
    reasoning_effort: optional(string),
    add_generation_prompt: optional(boolean),
    tools: optional(listOf(z.unknown(), TOOLS_MAX)),
    tool_choice: optional(z.unknown()),
    functions: optional(z.unknown()),
  };
}

export function chatSchema(config: HttpConfig) {
  return z.object(
    {
      ...samplingFields(config),
      ...conversationFields(config),
      max_completion_tokens: samplingFields(config).max_tokens,
      logprobs: optional(boolean),
      top_logprobs: optional(integer(0, TOP_LOGPROBS_MAX)),
      response_format: optional(
        z.looseObject({ type: oneOf(['text', 'json_object', 'json_schema']) }, { error: 'must be an object' }),
      ),
      modalities: optional(listOf(string, MODALITIES_MAX)),
      audio: optional(z.unknown()),
    },
    { error: 'must be a JSON object' },
  );
}

export type ChatBody = z.output<ReturnType<typeof chatSchema>>;
type ConversationBody = z.output<z.ZodObject<ReturnType<typeof conversationFields>>>;

/**
 * Refuses what cannot be done yet, by name: a reply that ignores it would look like success.
 * @throws PlimsollError invalid_request.
 */
export function refuseUnsupported(body: ChatBody): void {
  refuseTools(body);
  if (body.top_logprobs !== undefined && body.logprobs !== true)
    throw invalidField('top_logprobs', "needs 'logprobs' to be true");
  if (body.audio !== undefined) throw invalidField('audio', 'audio output is not supported');
  if (body.modalities?.some((modality) => modality !== 'text'))
    throw invalidField('modalities', "only 'text' is supported");
}

/** @throws PlimsollError invalid_request. */
export function refuseTools(body: ConversationBody): void {
  const { tool_choice: choice, tools, functions } = body;
  const isChoiceKnown = choice === undefined || choice === 'none' || choice === 'auto';
  if (!isChoiceKnown) throw invalidField('tool_choice', "only 'none' and 'auto' are supported");
  if (functions !== undefined) throw invalidField('functions', 'function calling is not supported');
  if (tools !== undefined && tools.length > 0 && choice !== 'none') {
    throw invalidField('tools', "tool calling is not supported: leave it out, or set 'tool_choice' to 'none'");
  }
}

/** What the template gets, as JSON (Vocabulary.applyTemplate). A last message of the assistant's is continued. */
export function templateInputs(body: ConversationBody): string {
  const { messages } = body;
  const last = messages[messages.length - 1];
  const continues = last.role === 'assistant' && body.add_generation_prompt !== true;
  if (continues && last.tool_calls !== undefined) {
    throw invalidField(
      `messages[${messages.length - 1}].tool_calls`,
      'a last message that calls tools cannot be continued',
    );
  }
  const inputs: TemplateInputs = {
    messages: messages.map(({ content: parts, ...rest }) => ({
      ...rest,
      content: parts === undefined ? null : joined(parts),
    })),
    addGenerationPrompt: !continues && (body.add_generation_prompt ?? true),
    continueFinalMessage: continues,
    templateKwargs: { ...reasoningKwargs(body.reasoning_effort), ...body.chat_template_kwargs },
  };
  return JSON.stringify(inputs);
}

/** As llama.cpp's server and vLLM join them. */
function joined(parts: ReadonlyArray<z.output<typeof part>>): string {
  return parts.map(({ text, refusal }) => text ?? refusal ?? '').join('\n');
}

function reasoningKwargs(effort: string | undefined): Record<string, unknown> {
  if (effort === undefined) return {};
  return effort === 'none' ? { enable_thinking: false } : { reasoning_effort: effort };
}

function isShallow(value: unknown, depth: number): boolean {
  if (typeof value !== 'object' || value === null) return true;
  return depth > 0 && Object.values(value).every((item) => isShallow(item, depth - 1));
}
