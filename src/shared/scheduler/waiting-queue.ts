import type { Request } from './request.js';

/** Waiting requests by priority, then by place: a preempted request goes before all others of its priority. */
export class WaitingQueue {
  private readonly items: Request[] = [];

  get length(): number {
    return this.items.length;
  }

  /** The first `count`, in order, as they stand now. */
  head(count: number): Request[] {
    return this.items.slice(0, count);
  }

  /** Behind all of its priority. */
  push(request: Request): void {
    let at = this.items.length;
    while (at > 0 && this.items[at - 1].spec.priority > request.spec.priority) at--;
    this.items.splice(at, 0, request);
  }

  /** Before all of its priority: it has run already. */
  pushFront(request: Request): void {
    const at = this.items.findIndex((item) => item.spec.priority >= request.spec.priority);
    this.items.splice(at < 0 ? this.items.length : at, 0, request);
  }

  remove(request: Request): boolean {
    const at = this.items.indexOf(request);
    if (at < 0) return false;
    this.items.splice(at, 1);
    return true;
  }

  [Symbol.iterator](): IterableIterator<Request> {
    return this.items[Symbol.iterator]();
  }
}
