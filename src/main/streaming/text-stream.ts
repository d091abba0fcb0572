import { Detokenizer } from './detokenizer.js';
import type { PieceTable } from './piece-table.js';
import { StopMatcher, type StopStrings } from './stop-strings.js';

/** What a client reads of one choice: tokens in, text out, up to the first stop string. Streamed and unstreamed replies both use it. */
export class TextStream {
  private readonly detokenizer: Detokenizer;
  private readonly matcher: StopMatcher | null;

  constructor(table: PieceTable, stops: StopStrings | null) {
    this.detokenizer = new Detokenizer(table);
    this.matcher = stops === null || stops.stops.length === 0 ? null : new StopMatcher(stops);
  }

  /** True once a stop string is complete: the request is over, and `end` gives nothing. */
  get stopped(): boolean {
    return this.matcher?.stopped ?? false;
  }

  push(token: number): string {
    const text = this.detokenizer.push(token);
    return this.matcher === null ? text : this.matcher.push(text);
  }

  /** Everything that was held back. */
  end(): string {
    const rest = this.detokenizer.end();
    return this.matcher === null ? rest : this.matcher.push(rest) + this.matcher.end();
  }
}
