import { FINISH_CODE, NOTICE_KIND } from '../token-wire.js';
import type { BatchPlan } from './batch-plan.js';
import type { Request } from './request.js';
import { WaitingQueue } from './waiting-queue.js';

/** How often the queue is searched for requests that waited too long. Chosen: their bounds are seconds. */
const REFUSAL_INTERVAL_MS = 50;

/** Which requests there are, and which of them wait and run. */
export class RequestBook {
  readonly waiting = new WaitingQueue();
  /** In order of admission. */
  readonly running: Request[] = [];
  /** Every request that is not over, or whose sequence records in flight still write to. */
  readonly byId = new Map<number, Request>();
  /** Time of the plan being made. */
  nowMs = 0;
  private nextRefusalMs = 0;
  private order = 0;

  constructor(private readonly plan: BatchPlan) {}

  /** Counts admissions and servings, over all contexts. */
  nextOrder(): number {
    return ++this.order;
  }

  add(request: Request): void {
    if (this.byId.has(request.id)) throw new Error(`request ${request.id} was submitted before`);
    this.byId.set(request.id, request);
    this.waiting.push(request);
  }

  /** From the queue to the running ones. */
  run(request: Request): void {
    this.waiting.remove(request);
    this.running.push(request);
  }

  /** From running back to the front of the queue, without its cells. */
  requeue(request: Request): void {
    this.running.splice(this.running.indexOf(request), 1);
    request.phase = 'waiting';
    request.queuedAtMs = this.nowMs;
    request.forgetCells();
    this.waiting.pushFront(request);
  }

  /** Ends a request. `code` 0: its last token says so already; main needs no notice. It stays in the book until it is settled. */
  end(request: Request, code: number): void {
    if (request.phase === 'running') this.running.splice(this.running.indexOf(request), 1);
    else if (request.phase === 'waiting') this.waiting.remove(request);
    request.phase = 'over';
    if (code !== 0) this.plan.addNotice(request.id, NOTICE_KIND.finished, code, 0);
  }

  /** Waiting requests whose time is up. */
  overdue(): Request[] {
    if (this.waiting.length === 0 || this.nowMs < this.nextRefusalMs) return [];
    this.nextRefusalMs = this.nowMs + REFUSAL_INTERVAL_MS;
    return [...this.waiting].filter((request) => this.nowMs - request.queuedAtMs > request.spec.maxWaitMs);
  }

  /** The code with which a request ends that cannot even wait; 0: it can. */
  refusal(request: Request, contextTokens: number, waitingMax: number): number {
    if (request.promptCount + 1 > contextTokens) return FINISH_CODE.neverFits;
    return this.waiting.length >= waitingMax ? FINISH_CODE.queueFull : 0;
  }
}
