import { EngineError, type Vocabulary } from '../shared/engine.js';
import { commonPrefix } from '../shared/scheduler/sequence-table.js';
import type { TemplateInputs } from '../shared/template-inputs.js';

type Render = (inputs: TemplateInputs) => Int32Array;

/**
 * Where other prompts will branch off a conversation's `tokens`, as numbers of leading tokens, ascending: behind what comes before its first
 * user message, where other conversations with the same system prompt do, and behind its last message, where its own next turn does if the
 * client writes the answer otherwise than the model did, or the template shows less of it.
 *
 * Templates are not understood but asked: the conversation is rendered with another first user message and no more, without the opening of
 * an answer, and with another answer and a next turn; what the tokens have in common with these is common to all such prompts. So any
 * template will do: one that puts the system prompt into the first message, one that opens the answer in any case, one that drops what it showed
 * of earlier turns. Tokens that reach across an end count only where they stay.
 */
export function messageBoundaries(vocabulary: Vocabulary, inputsJson: string, tokens: Int32Array): number[] {
  const inputs = JSON.parse(inputsJson) as TemplateInputs;
  const render: Render = (changed) =>
    vocabulary.tokenize(vocabulary.applyTemplate(JSON.stringify(changed)), true, true);
  const closed = { ...inputs, addGenerationPrompt: false, continueFinalMessage: false };
  const variants = [otherBeginning(inputs), closed, nextTurn(closed)];
  const counts = variants.map((variant) => sharedWith(tokens, variant, render)).filter((count) => count > 0);
  return [...new Set(counts)].sort((a, b) => a - b);
}

/** The same system prompt and tools before another user's words. */
function otherBeginning(inputs: TemplateInputs): TemplateInputs {
  const { messages } = inputs;
  const found = messages.findIndex(({ role }) => role !== 'system' && role !== 'developer');
  const first = found < 0 ? messages.length : found;
  const words = messages[first]?.content?.trimStart() ?? '';
  // Words that begin with another letter have no token in common with these.
  const content = words.startsWith('x') ? 'y' : 'x';
  return { ...inputs, messages: [...messages.slice(0, first), { role: 'user', content }] };
}

/** Another answer, and the beginning of what its user says next. */
function nextTurn(inputs: TemplateInputs): TemplateInputs {
  const answer = { role: 'assistant', content: 'x' };
  return { ...inputs, messages: [...inputs.messages, answer, { role: 'user', content: 'x' }] };
}

/** 0 where the template does not take the variant: it may want roles in an order of its own. */
function sharedWith(tokens: Int32Array, variant: TemplateInputs, render: Render): number {
  try {
    const other = render(variant);
    return commonPrefix(tokens, other, Math.min(tokens.length, other.length));
  } catch (error) {
    if (error instanceof EngineError) return 0;
    throw error;
  }
}
