interface Flushable {
  flush(): void;
}

/** Collects the writers that have something to send, and flushes them together at the end of this turn of the event loop. */
export class WriteBatcher {
  private dirty: Flushable[] = [];
  private spare: Flushable[] = [];
  private readonly flushAll = () => {
    const writers = this.dirty;
    this.dirty = this.spare;
    for (const writer of writers) writer.flush();
    writers.length = 0;
    this.spare = writers;
  };

  add(writer: Flushable): void {
    // An immediate, not a microtask: it runs after all token records that arrived in this turn, and before the next poll.
    if (this.dirty.length === 0) setImmediate(this.flushAll);
    this.dirty.push(writer);
  }
}
