/** Stop strings of one request, compiled. Shared by all its choices. */
export class StopStrings {
  /** For each stop string, the length of the longest proper prefix that is also a suffix of its first i + 1 units. */
  readonly fallbacks: Int32Array[];

  constructor(readonly stops: readonly string[]) {
    this.fallbacks = stops.map(fallbackTable);
  }
}

/**
 * Finds the first stop string in a text that comes in pieces. Holds back exactly the longest end of the text that may still become a
 * stop string. The result does not depend on where the pieces are cut: the stop string that is complete first wins, the longest of
 * those that are complete at once (Knuth, Morris and Pratt's automaton, one state a stop string).
 */
export class StopMatcher {
  stopped = false;
  private held = '';
  private readonly states: Int32Array;

  constructor(private readonly compiled: StopStrings) {
    this.states = new Int32Array(compiled.stops.length);
  }

  /** The text that is now known to be before any stop string. After a match nothing more comes out. */
  push(text: string): string {
    if (this.stopped || text === '') return '';
    const { stops } = this.compiled;
    for (let at = 0; at < text.length; at++) {
      const unit = text.charCodeAt(at);
      let matchedUnits = 0;
      for (let i = 0; i < stops.length; i++) {
        const state = this.advance(i, unit);
        if (state === stops[i].length) matchedUnits = Math.max(matchedUnits, state);
      }
      if (matchedUnits > 0) {
        this.stopped = true;
        const before = this.held + text.slice(0, at + 1);
        this.held = '';
        return before.slice(0, before.length - matchedUnits);
      }
    }
    return this.release(text);
  }

  /** The rest, at the end of the text: a prefix of a stop string that was never finished is text like any other. */
  end(): string {
    const rest = this.held;
    this.held = '';
    return rest;
  }

  private advance(i: number, unit: number): number {
    const stop = this.compiled.stops[i];
    const fallback = this.compiled.fallbacks[i];
    let state = this.states[i];
    while (state > 0 && stop.charCodeAt(state) !== unit) state = fallback[state - 1];
    if (stop.charCodeAt(state) === unit) state++;
    this.states[i] = state;
    return state;
  }

  private release(text: string): string {
    let keepUnits = 0;
    for (let i = 0; i < this.states.length; i++) if (this.states[i] > keepUnits) keepUnits = this.states[i];
    if (keepUnits === 0 && this.held === '') return text;
    const all = this.held + text;
    this.held = all.slice(all.length - keepUnits);
    return all.slice(0, all.length - keepUnits);
  }
}

function fallbackTable(stop: string): Int32Array {
  const table = new Int32Array(stop.length);
  let length = 0;
  for (let i = 1; i < stop.length; i++) {
    while (length > 0 && stop.charCodeAt(i) !== stop.charCodeAt(length)) length = table[length - 1];
    if (stop.charCodeAt(i) === stop.charCodeAt(length)) length++;
    table[i] = length;
  }
  return table;
}
