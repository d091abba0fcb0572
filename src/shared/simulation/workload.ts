import { type SeededRandom, scramble } from './random.js';
import { VOCABULARY_SIZE } from './simulated-context.js';

/** One request of a workload. */
export interface WorkRequest {
  promptTokens: Int32Array;
  /** What the client allows, and where the answer really ends. */
  maxTokens: number;
  answerTokens: number;
  /** Lower runs first. */
  priority: number;
  /** Its prompt repeats something that was asked before. */
  isRepeat: boolean;
  /** Whoever sent it; closed-loop clients send their next one when this is over. −1: nobody waits for it. */
  client: number;
}

/** Requests over time. Pure: it is asked for what is due, and told what is over. */
export interface Workload {
  /** When the next request comes; Infinity: not before one is over, or never. */
  nextAtMs(): number;
  /** Takes that request. `contextTokens`: prompt and answer of one request at most. */
  take(contextTokens: number): WorkRequest;
  /** A request is over, with its answer; closed-loop clients go on from there. */
  over(request: WorkRequest, answer: readonly number[], nowMs: number): void;
}

export type Range = readonly [least: number, most: number];

/** What requests look like. */
export interface RequestShape {
  promptTokens: Range;
  answerTokens: Range;
  /** A share of prompts begins with one of `count` prefixes that others begin with too (system prompts, documents). */
  repeats?: { share: number; count: number; tokens: Range };
  /** Priorities to draw from; left out: all the same. */
  priorities?: readonly number[];
}

/** Draws requests of a shape. */
export class RequestMaker {
  private serial = 0;

  constructor(
    private readonly shape: RequestShape,
    private readonly random: SeededRandom,
  ) {}

  /** A request that fits into `contextTokens`. */
  make(client: number, contextTokens: number): WorkRequest {
    const { shape, random } = this;
    const isRepeat = shape.repeats !== undefined && random.next() < shape.repeats.share;
    const promptTokens = this.prompt(Math.min(random.within(shape.promptTokens), contextTokens - 1), isRepeat);
    const answer = random.within(shape.answerTokens);
    const priorities = shape.priorities ?? [0];
    return {
      promptTokens,
      ...answerThatFits(answer, promptTokens.length, contextTokens),
      priority: priorities[random.within([0, priorities.length - 1])],
      isRepeat,
      client,
    };
  }

  /** `count` tokens that nobody asked before. */
  newTokens(count: number): Int32Array {
    return tokensOf(++this.serial * 2 + 1, count);
  }

  private prompt(count: number, isRepeat: boolean): Int32Array {
    const fresh = this.newTokens(count);
    const { repeats } = this.shape;
    if (!isRepeat || repeats === undefined) return fresh;
    const which = this.random.within([1, repeats.count]);
    const [least, most] = repeats.tokens;
    const length = least + ((which * 7919) % (most - least + 1));
    // At least one token is new, else there is nothing to compute.
    fresh.set(tokensOf(which * 2, Math.min(length, count - 1)));
    return fresh;
  }
}

/** Clients often allow more than the answer takes; here twice as much, where the context has room for it. */
export function answerThatFits(answer: number, promptTokens: number, contextTokens: number) {
  const room = Math.max(contextTokens - promptTokens, 1);
  return { answerTokens: Math.min(answer, room), maxTokens: Math.min(answer * 2, room) };
}

/** The tokens of text number `id`: always the same. */
export function tokensOf(id: number, count: number): Int32Array {
  return Int32Array.from(
    { length: count },
    (_, i) => (scramble(Math.imul(id, 0x51ed270b) + i) >>> 0) % VOCABULARY_SIZE,
  );
}
