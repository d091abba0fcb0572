import type { PieceTable } from './piece-table.js';

/** Bad bytes become U+FFFD. Whole on every call: what is incomplete is held here, so all streams share one decoder. */
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
const NOTHING = new Uint8Array(0);

/** Text of a token stream. Bytes of a character that is not complete are held until it is, or until the end. */
export class Detokenizer {
  private held: Uint8Array = NOTHING;

  constructor(private readonly table: PieceTable) {}

  /** The text that this token completes; may be empty. */
  push(token: number): string {
    if (this.held.length === 0) {
      const whole = this.table.wholeText(token);
      if (whole !== null) return whole;
    }
    const bytes = concat(this.held, this.table.bytes(token));
    const heldBytes = incompleteTailBytes(bytes);
    const end = bytes.length - heldBytes;
    this.held = heldBytes === 0 ? NOTHING : bytes.slice(end);
    return decoder.decode(bytes.subarray(0, end));
  }

  /** What was held and will not be completed: U+FFFD, or nothing. */
  end(): string {
    const rest = decoder.decode(this.held);
    this.held = NOTHING;
    return rest;
  }
}

/** Text of `tokens` as a whole. */
export function detokenize(table: PieceTable, tokens: Iterable<number>): string {
  const detokenizer = new Detokenizer(table);
  let text = '';
  for (const token of tokens) text += detokenizer.push(token);
  return text + detokenizer.end();
}

function concat(left: Uint8Array, right: Uint8Array): Uint8Array {
  if (left.length === 0) return right;
  const both = new Uint8Array(left.length + right.length);
  both.set(left);
  both.set(right, left.length);
  return both;
}

/**
 * Length of the unfinished character at the end of `bytes`, 0 to 3. Only a tail that can still become a character counts: anything
 * else is already known to be bad, and waiting would not change what it decodes to.
 */
export function incompleteTailBytes(bytes: Uint8Array): number {
  const lookBack = Math.min(3, bytes.length);
  for (let tail = 1; tail <= lookBack; tail++) {
    const lead = bytes[bytes.length - tail];
    if ((lead & 0xc0) === 0x80) continue;
    const needed = sequenceBytes(lead);
    if (needed <= tail) return 0;
    return tail === 1 || isSecondByteValid(lead, bytes[bytes.length - tail + 1]) ? tail : 0;
  }
  return 0;
}

/** Bytes of the character that `lead` begins; 0 where it begins none. */
function sequenceBytes(lead: number): number {
  if (lead >= 0xc2 && lead <= 0xdf) return 2;
  if (lead >= 0xe0 && lead <= 0xef) return 3;
  if (lead >= 0xf0 && lead <= 0xf4) return 4;
  return 0;
}

/** The second byte also excludes overlong forms, surrogates and what is above U+10FFFF (Unicode, table 3-7). */
function isSecondByteValid(lead: number, second: number): boolean {
  if (lead === 0xe0) return second >= 0xa0;
  if (lead === 0xed) return second <= 0x9f;
  if (lead === 0xf0) return second >= 0x90;
  if (lead === 0xf4) return second <= 0x8f;
  return true;
}
