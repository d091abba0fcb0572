/** A decoder that keeps a leading U+FEFF: a model that writes one means it. */
const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const lenient = new TextDecoder('utf-8', { ignoreBOM: true });

/**
 * The bytes of every token, and the text and JSON text of those that are whole UTF-8 by themselves, decoded once and kept. Nearly
 * all tokens of a text are of that kind, so the hot path is two array reads.
 */
export class PieceTable {
  readonly size: number;
  private readonly texts: Array<string | null | undefined>;
  private readonly jsons: Array<string | undefined>;

  constructor(private readonly pieces: { offsets: Int32Array; bytes: Uint8Array }) {
    this.size = pieces.offsets.length - 1;
    this.texts = new Array(this.size);
    this.jsons = new Array(this.size);
  }

  /** A view, not a copy. Empty for control tokens. @throws RangeError for a token that the vocabulary does not have. */
  bytes(token: number): Uint8Array {
    if (!(token >= 0 && token < this.size))
      throw new RangeError(`token ${token} is outside a vocabulary of ${this.size}`);
    return this.pieces.bytes.subarray(this.pieces.offsets[token], this.pieces.offsets[token + 1]);
  }

  /** The token's text; null where its bytes are not whole UTF-8 by themselves. */
  wholeText(token: number): string | null {
    const known = this.texts[token];
    if (known !== undefined) return known;
    const text = decodeStrict(this.bytes(token));
    this.texts[token] = text;
    return text;
  }

  /** JSON text of `wholeText(token)`, which must not be null. */
  json(token: number): string {
    return (this.jsons[token] ??= JSON.stringify(this.texts[token]));
  }

  /** The token's text with U+FFFD for what is not UTF-8 by itself: for logprobs, where every token stands alone. */
  lenientText(token: number): string {
    return this.wholeText(token) ?? lenient.decode(this.bytes(token));
  }
}

function decodeStrict(bytes: Uint8Array): string | null {
  try {
    return strict.decode(bytes);
  } catch {
    return null;
  }
}
