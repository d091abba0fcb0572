import type { ChatPrompt, PreparePool } from '../prepare-types.js';
import type { ModelResidence } from './model-residence.js';

/** The prepare pool of a model that may be unloaded: a job waits for the model to be loaded again, and keeps it loaded. */
export class ResidentPrepare implements PreparePool {
  constructor(private readonly residence: ModelResidence) {}

  chat(inputsJson: string, signal: AbortSignal): Promise<ChatPrompt> {
    return this.with(signal, (pool) => pool.chat(inputsJson, signal));
  }

  text(
    text: string,
    options: { addSpecial: boolean; parseSpecial: boolean },
    signal: AbortSignal,
  ): Promise<Int32Array> {
    return this.with(signal, (pool) => pool.text(text, options, signal));
  }

  render(inputsJson: string, signal: AbortSignal): Promise<string> {
    return this.with(signal, (pool) => pool.render(inputsJson, signal));
  }

  checkGrammar(grammar: string, signal: AbortSignal): Promise<void> {
    return this.with(signal, (pool) => pool.checkGrammar(grammar, signal));
  }

  /** The pool goes with the model. */
  close(): Promise<void> {
    return this.residence.close(0);
  }

  private async with<T>(signal: AbortSignal, job: (pool: PreparePool) => Promise<T>): Promise<T> {
    const release = this.residence.hold();
    try {
      const { prepare } = await this.residence.loaded(signal);
      return await job(prepare);
    } finally {
      release();
    }
  }
}
