/** Work that needs the vocabulary and no device: what the prepare workers do, and how main asks for it. Plain data, cloneable. */

export type PrepareJob =
  /**
   * A conversation: rendered by the model's template, then tokenized. `inputsJson` as Vocabulary.applyTemplate takes it. `findsBoundaries`: say where
   * other prompts will branch off it (message-boundaries.ts), which takes three more renderings.
   */
  | { kind: 'chat'; inputsJson: string; findsBoundaries?: boolean }
  /** Text to tokens. */
  | { kind: 'text'; text: string; addSpecial: boolean; parseSpecial: boolean }
  /** A conversation's prompt text. */
  | { kind: 'render'; inputsJson: string }
  /** Whether a GBNF grammar can be used. */
  | { kind: 'grammar'; grammar: string };

export type PrepareResult =
  | { ok: true; tokens: Int32Array; text: string; boundaries?: number[] }
  /** The request's fault: becomes a 400. */
  | { ok: false; message: string };

/** A conversation's prompt. */
export interface ChatPrompt {
  tokens: Int32Array;
  /** As in GenerationRequest; empty where nobody needs them. */
  boundaries: readonly number[];
}

/** Stateless work off the main thread. Every call is bounded in number (`queue_full`) and ends early when its signal aborts. */
export interface PreparePool {
  /** Prompt of a conversation. @throws PlimsollError invalid_request (param `messages`), queue_full; AbortError. */
  chat(inputsJson: string, signal: AbortSignal): Promise<ChatPrompt>;
  /** Tokens of a text. @throws PlimsollError queue_full; AbortError. */
  text(text: string, options: { addSpecial: boolean; parseSpecial: boolean }, signal: AbortSignal): Promise<Int32Array>;
  /** Prompt text of a conversation. @throws as `chat`. */
  render(inputsJson: string, signal: AbortSignal): Promise<string>;
  /** @throws PlimsollError invalid_request (param `grammar`) for a grammar that cannot be used; queue_full; AbortError. */
  checkGrammar(grammar: string, signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
}
