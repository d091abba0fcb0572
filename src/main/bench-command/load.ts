import { setTimeout as sleep } from 'node:timers/promises';
import { poissonArrivals } from './arrivals.js';
import { type BenchOptions, chatCount, IN_FLIGHT_MAX } from './bench-options.js';
import type { Calibration } from './calibrate.js';
import type { ChatClient } from './chat-client.js';
import { isUnreachable } from './chat-failure.js';
import { type ChatMessage, Prompts } from './prompts.js';
import type { Tally } from './tally.js';

/** Requests in a row that nobody answered, after which the server counts as gone. Chosen: more than a restart of a proxy loses. */
const UNANSWERED_MAX = 100;

/** The load of one run. Each request's end goes into the tally. */
export class Load {
  private readonly prompts: Prompts;
  private readonly chats: number;
  private readonly abort = new AbortController();
  private unanswered = 0;
  private inFlight = 0;
  /** Nobody answers any more: the run was given up. */
  serverIsGone = false;

  constructor(
    private readonly client: ChatClient,
    private readonly options: BenchOptions,
    private readonly calibration: Calibration,
    private readonly tally: Tally,
  ) {
    this.prompts = new Prompts(options, calibration.scale);
    this.chats = chatCount(options);
  }

  /** Resolves when everything was answered, failed, or was stopped. */
  async run(): Promise<void> {
    this.tally.begin(performance.now());
    if (this.options.rate === null) await this.closedLoop(this.options.clients ?? 1);
    else await this.openLoop(this.options.rate);
    this.tally.end(performance.now());
  }

  /** Sends nothing more and ends what runs; `run` then resolves. */
  stop(): void {
    this.abort.abort();
    this.client.stop();
  }

  private async closedLoop(clients: number): Promise<void> {
    let next = 0;
    const client = async () => {
      while (next < this.chats && !this.isStopped) await this.chat(next++, performance.now());
    };
    await Promise.all(Array.from({ length: Math.min(clients, this.chats) }, client));
  }

  /** Arrivals do not wait for answers; that is the point of an open loop. */
  private async openLoop(perSecond: number): Promise<void> {
    const startMs = performance.now();
    const running = new Set<Promise<void>>();
    let index = 0;
    for (const atMs of poissonArrivals(perSecond, this.chats, this.options.seed)) {
      await this.pause(startMs + atMs - performance.now());
      if (this.isStopped) break;
      // A timer may ring a little early, and nothing is answered before it was asked.
      const dueAtMs = Math.min(startMs + atMs, performance.now());
      const chat = index++;
      if (this.inFlight >= IN_FLIGHT_MAX) {
        this.tally.notSent(this.options.turns);
        continue;
      }
      const run: Promise<void> = this.chat(chat, dueAtMs).finally(() => running.delete(run));
      running.add(run);
    }
    await Promise.all(running);
  }

  private async chat(index: number, dueAtMs: number): Promise<void> {
    const messages: ChatMessage[] = [];
    this.inFlight++;
    for (let turn = 0; turn < this.options.turns && !this.isStopped; turn++) {
      messages.push({ role: 'user', content: this.prompts.message(index, turn) });
      const reply = await this.request(messages, turn, turn === 0 ? dueAtMs : performance.now());
      if (reply === null) {
        // Without the answer there is nothing to go on from.
        if (!this.isStopped) this.tally.notSent(this.options.turns - turn - 1);
        break;
      }
      messages.push({ role: 'assistant', content: reply });
    }
    this.inFlight--;
  }

  /** The answer's text, or null when there is none. */
  private async request(messages: readonly ChatMessage[], turn: number, dueAtMs: number): Promise<string | null> {
    const { model, dialect } = this.calibration;
    const { outputTokens } = this.options;
    this.tally.sent();
    const outcome = await this.client.ask({ model, messages, outputTokens, dialect, dueAtMs });
    if (outcome.kind === 'answered') {
      this.unanswered = 0;
      this.tally.answered(outcome.answer, turn);
      return outcome.answer.text;
    }
    if (outcome.kind === 'stopped') return null;
    this.tally.failed(outcome.failure);
    this.unanswered = isUnreachable(outcome.failure) ? this.unanswered + 1 : 0;
    if (this.unanswered >= UNANSWERED_MAX) {
      this.serverIsGone = true;
      this.stop();
    }
    return null;
  }

  private get isStopped(): boolean {
    return this.abort.signal.aborted;
  }

  private async pause(ms: number): Promise<void> {
    if (ms <= 0) {
      // Arrivals that are late leave together; sockets must get their turn between them all the same.
      await new Promise((resolve) => setImmediate(resolve));
      return;
    }
    await sleep(ms, undefined, { signal: this.abort.signal }).catch(() => {});
  }
}
