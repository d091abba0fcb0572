import type { Vocabulary } from '../shared/engine.js';

/**
 * The fake engine's vocabulary: 256 bytes, control tokens, and a few pieces of more than one byte. One of its characters is made of
 * two tokens of two bytes each, so that a reader of the stream has to put split characters together.
 */
const CONTROL_TEXTS = ['<|bos|>', '<|eos|>', '<|end|>', '<|system|>', '<|user|>', '<|assistant|>'];
const PIECES = ['é', 'ß', '日本', '語', '€'];
const SPLIT_CHARACTER = '🙂';

const BYTE_TOKENS = 256;
const FIRST_PIECE = BYTE_TOKENS + CONTROL_TEXTS.length;

export const FAKE_BOS = BYTE_TOKENS;
export const FAKE_EOS = BYTE_TOKENS + 1;
/** End of a turn: ends generation, like FAKE_EOS. */
export const FAKE_END_OF_TURN = BYTE_TOKENS + 2;
export const FAKE_PIECE_TOKENS: readonly number[] = PIECES.map((_, i) => FIRST_PIECE + i);
/** First and second half of a four-byte character: the second always follows the first. */
export const FAKE_FIRST_HALF = FIRST_PIECE + PIECES.length;
export const FAKE_SECOND_HALF = FAKE_FIRST_HALF + 1;
export const FAKE_VOCABULARY_SIZE = FAKE_SECOND_HALF + 1;

export const FAKE_CHAT_TEMPLATE = '{% for m in messages %}<|role|>{{ m.content }}<|end|>{% endfor %}<|assistant|>';

const encoder = new TextEncoder();

/** Texts that become tokens of their own, and those tokens. Control texts only where the caller trusts the text. */
const PLAIN_MATCHES: Array<[text: string, tokens: number[]]> = [
  ...PIECES.map((text, i): [string, number[]] => [text, [FIRST_PIECE + i]]),
  [SPLIT_CHARACTER, [FAKE_FIRST_HALF, FAKE_SECOND_HALF]],
];
const SPECIAL_MATCHES: Array<[text: string, tokens: number[]]> = [
  ...CONTROL_TEXTS.map((text, i): [string, number[]] => [text, [BYTE_TOKENS + i]]),
  ...PLAIN_MATCHES,
];

interface TemplateMessage {
  role: string;
  content?: string | Array<{ text?: string }> | null;
}

export class FakeVocabulary implements Vocabulary {
  readonly size = FAKE_VOCABULARY_SIZE;
  readonly bos = FAKE_BOS;
  readonly eos = FAKE_EOS;
  readonly addsBos = true;

  tokenize(text: string, addSpecial: boolean, parseSpecial: boolean): Int32Array {
    const tokens: number[] = addSpecial ? [FAKE_BOS] : [];
    const matches = parseSpecial ? SPECIAL_MATCHES : PLAIN_MATCHES;
    for (let i = 0; i < text.length; ) {
      const match = matches.find(([piece]) => text.startsWith(piece, i));
      if (match) {
        tokens.push(...match[1]);
        i += match[0].length;
        continue;
      }
      const character = String.fromCodePoint(text.codePointAt(i) as number);
      tokens.push(...encoder.encode(character));
      i += character.length;
    }
    return Int32Array.from(tokens);
  }

  pieces(withControl: boolean): { offsets: Int32Array; bytes: Uint8Array } {
    const split = encoder.encode(SPLIT_CHARACTER);
    const parts: Uint8Array[] = [
      ...Array.from({ length: BYTE_TOKENS }, (_, byte) => Uint8Array.of(byte)),
      ...CONTROL_TEXTS.map((text) => (withControl ? encoder.encode(text) : new Uint8Array(0))),
      ...PIECES.map((text) => encoder.encode(text)),
      split.subarray(0, 2),
      split.subarray(2),
    ];
    const offsets = new Int32Array(parts.length + 1);
    parts.forEach((part, i) => {
      offsets[i + 1] = offsets[i] + part.length;
    });
    const bytes = new Uint8Array(offsets[parts.length]);
    parts.forEach((part, i) => {
      bytes.set(part, offsets[i]);
    });
    return { offsets, bytes };
  }

  isEndOfGeneration(token: number): boolean {
    return token === FAKE_EOS || token === FAKE_END_OF_TURN;
  }

  /** Role token, content, end of turn; then the assistant's role, if it is asked for and the last message is not the assistant's own, to be continued. */
  applyTemplate(inputsJson: string): string {
    const inputs = JSON.parse(inputsJson) as { messages: TemplateMessage[]; addGenerationPrompt?: boolean };
    const { messages, addGenerationPrompt = true } = inputs;
    const turns = messages.map(({ role, content }, i) => {
      const known = CONTROL_TEXTS.includes(`<|${role}|>`);
      const head = known ? `<|${role}|>` : `<|user|>${role}: `;
      const text = typeof content === 'string' ? content : (content ?? []).map((part) => part.text ?? '').join('');
      const isContinued = role === 'assistant' && i === messages.length - 1;
      return isContinued ? `${head}${text}` : `${head}${text}<|end|>`;
    });
    const isOpen = addGenerationPrompt && messages.at(-1)?.role !== 'assistant';
    return turns.join('') + (isOpen ? '<|assistant|>' : '');
  }
}
