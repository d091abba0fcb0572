import { SeededRandom } from './random.js';
import {
  answerThatFits,
  type Range,
  RequestMaker,
  type RequestShape,
  type Workload,
  type WorkRequest,
} from './workload.js';

/** Requests that come whatever the server does. */
export class PoissonArrivals implements Workload {
  private readonly random: SeededRandom;
  private readonly maker: RequestMaker;
  private atMs = 0;

  constructor(private readonly options: { perSecond: number; untilMs: number; seed: number; shape: RequestShape }) {
    this.random = new SeededRandom(options.seed);
    this.maker = new RequestMaker(options.shape, this.random);
    this.step();
  }

  nextAtMs(): number {
    return this.atMs < this.options.untilMs ? this.atMs : Number.POSITIVE_INFINITY;
  }

  take(contextTokens: number): WorkRequest {
    this.step();
    return this.maker.make(-1, contextTokens);
  }

  over(): void {}

  private step(): void {
    this.atMs += this.random.exponential(1000 / this.options.perSecond);
  }
}

export interface ClientOptions {
  count: number;
  /** Mean time between an answer and the next request. */
  thinkMs: number;
  untilMs: number;
  seed: number;
  shape: RequestShape;
  /** Chats: each next prompt is all that was said before and some new tokens. Left out: every request for itself. */
  chat?: { turns: Range; userTokens: Range };
}

interface Client {
  /** When it sends its next request; Infinity: it waits for an answer. */
  atMs: number;
  /** What was said so far; empty: a new chat. */
  history: number[];
  turnsLeft: number;
}

/** Clients that each wait for an answer before they ask again. */
export class Clients implements Workload {
  private readonly random: SeededRandom;
  private readonly maker: RequestMaker;
  private readonly clients: Client[];

  constructor(private readonly options: ClientOptions) {
    this.random = new SeededRandom(options.seed);
    this.maker = new RequestMaker(options.shape, this.random);
    this.clients = Array.from({ length: options.count }, () => ({
      atMs: this.random.next() * options.thinkMs,
      history: [],
      turnsLeft: 0,
    }));
  }

  nextAtMs(): number {
    let least = Number.POSITIVE_INFINITY;
    for (const client of this.clients) least = Math.min(least, client.atMs);
    return least < this.options.untilMs ? least : Number.POSITIVE_INFINITY;
  }

  take(contextTokens: number): WorkRequest {
    const atMs = this.nextAtMs();
    const index = this.clients.findIndex((client) => client.atMs === atMs);
    const client = this.clients[index];
    client.atMs = Number.POSITIVE_INFINITY;
    return this.nextTurn(client, index, contextTokens) ?? this.firstTurn(client, index, contextTokens);
  }

  over(request: WorkRequest, answer: readonly number[], nowMs: number): void {
    const client = this.clients[request.client];
    client.atMs = nowMs + this.random.exponential(this.options.thinkMs);
    client.history = this.options.chat === undefined ? [] : [...request.promptTokens, ...answer];
  }

  private firstTurn(client: Client, index: number, contextTokens: number): WorkRequest {
    const { chat } = this.options;
    client.turnsLeft = chat === undefined ? 0 : this.random.within(chat.turns) - 1;
    return this.maker.make(index, contextTokens);
  }

  /** null: the chat is over, or does not fit any more. */
  private nextTurn(client: Client, index: number, contextTokens: number): WorkRequest | null {
    const { chat, shape } = this.options;
    if (chat === undefined || client.turnsLeft === 0 || client.history.length === 0) return null;
    client.turnsLeft--;
    const fresh = this.maker.newTokens(this.random.within(chat.userTokens));
    const answer = this.random.within(shape.answerTokens);
    const length = client.history.length + fresh.length;
    if (length + answer > contextTokens) return null;
    const promptTokens = Int32Array.from([...client.history, ...fresh]);
    return {
      promptTokens,
      ...answerThatFits(answer, length, contextTokens),
      priority: 0,
      isRepeat: true,
      client: index,
    };
  }
}
