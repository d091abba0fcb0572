/** A loaded model's vocabulary, from any thread. */

import { engineCall, type NativeVocabularyObject, openBackends } from './addon-loader.js';
import { EngineError, type Vocabulary } from './engine.js';

export class NativeVocabulary implements Vocabulary {
  readonly size: number;
  readonly bos: number;
  readonly eos: number;
  readonly addsBos: boolean;
  readonly #native: NativeVocabularyObject;

  /**
   * `handle`: of ModelInfo, from the thread that loaded the model. The vocabulary keeps that model in memory until it is closed.
   * @throws EngineError wrong_state when the model is gone.
   */
  constructor(handle: number) {
    const { addon } = openBackends(null);
    this.#native = engineCall(() => new addon.Vocabulary(handle));
    const description = this.#native.describe();
    this.size = description.size;
    this.bos = description.bos;
    this.eos = description.eos;
    this.addsBos = description.addsBos;
  }

  tokenize(text: string, addSpecial: boolean, parseSpecial: boolean): Int32Array {
    return engineCall(() => this.#native.tokenize(text, addSpecial, parseSpecial));
  }

  pieces(withControl: boolean): { offsets: Int32Array; bytes: Uint8Array } {
    return engineCall(() => this.#native.pieces(withControl));
  }

  isEndOfGeneration(token: number): boolean {
    return engineCall(() => this.#native.isEndOfGeneration(token));
  }

  applyTemplate(inputsJson: string): string {
    return engineCall(() => this.#native.applyTemplate(inputsJson));
  }

  /** @throws EngineError invalid_argument, in one sentence, when a GBNF grammar cannot be used. */
  checkGrammar(text: string): void {
    const problem = engineCall(() => this.#native.checkGrammar(text));
    if (problem !== null) throw new EngineError('invalid_argument', problem);
  }

  close(): void {
    engineCall(() => this.#native.close());
  }
}
