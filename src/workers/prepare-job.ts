import type { PrepareJob, PrepareResult } from '../main/prepare-types.js';
import { EngineError, type Vocabulary } from '../shared/engine.js';
import { messageBoundaries } from './message-boundaries.js';

/** A vocabulary that can say whether a grammar is usable. Asked for by name, because not every engine build has it. */
interface GrammarChecker {
  /** @throws EngineError when the grammar cannot be used. */
  checkGrammar(grammar: string): void;
}

const NO_TOKENS = new Int32Array(0);

/** Does one job. What is the request's fault comes back as a result; everything else is thrown. */
export function runPrepareJob(vocabulary: Vocabulary, job: PrepareJob): PrepareResult {
  try {
    return { ok: true, ...answer(vocabulary, job) };
  } catch (error) {
    // A template is the model's, but what it refuses is the conversation: roles in an order it does not take, say.
    if (error instanceof EngineError) return { ok: false, message: refusal(job, error) };
    throw error;
  }
}

function answer(vocabulary: Vocabulary, job: PrepareJob): Omit<PrepareResult & { ok: true }, 'ok'> {
  switch (job.kind) {
    case 'chat': {
      const prompt = vocabulary.applyTemplate(job.inputsJson);
      // The template writes control tokens as text, so the prompt is parsed for them, as llama.cpp's server does. A user's text that
      // spells a control token becomes one too; docs/errors.md says so.
      const whole = vocabulary.tokenize(prompt, true, true);
      const tokens = withoutDoubleBos(vocabulary, whole);
      if (!job.findsBoundaries) return { tokens, text: '' };
      const dropped = whole.length - tokens.length;
      const boundaries = messageBoundaries(vocabulary, job.inputsJson, whole).map((count) => count - dropped);
      return { tokens, text: '', boundaries: boundaries.filter((count) => count > 0) };
    }
    case 'text':
      return { tokens: vocabulary.tokenize(job.text, job.addSpecial, job.parseSpecial), text: '' };
    case 'render':
      return { tokens: NO_TOKENS, text: vocabulary.applyTemplate(job.inputsJson) };
    case 'grammar': {
      if (!('checkGrammar' in vocabulary))
        throw new EngineError('invalid_argument', 'this build of the engine has no grammars');
      (vocabulary as Vocabulary & GrammarChecker).checkGrammar(job.grammar);
      return { tokens: NO_TOKENS, text: '' };
    }
  }
}

/** Some templates write the begin-of-text token that the tokenizer adds as well. Models answer worse after two. */
function withoutDoubleBos(vocabulary: Vocabulary, tokens: Int32Array): Int32Array {
  const isDouble =
    vocabulary.bos >= 0 && tokens.length > 1 && tokens[0] === vocabulary.bos && tokens[1] === vocabulary.bos;
  return isDouble ? tokens.slice(1) : tokens;
}

function refusal(job: PrepareJob, error: EngineError): string {
  if (job.kind === 'grammar') return `'grammar' cannot be used: ${error.message}`;
  if (job.kind === 'text') return `The text cannot be tokenized: ${error.message}`;
  return `This conversation cannot be used: ${error.message}`;
}
