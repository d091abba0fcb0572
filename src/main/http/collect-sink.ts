import type { PlimsollError } from '../../shared/errors.js';
import type { SampledToken } from '../pipeline-types.js';
import type { PieceTable } from '../streaming/piece-table.js';
import type { Choice, ChoiceEnd } from './choice.js';
import type { GenerationSink } from './generation.js';
import {
  addCompletionLogprob,
  type ChatLogprob,
  type CompletionLogprobs,
  characterCount,
  chatLogprob,
  emptyCompletionLogprobs,
} from './logprobs.js';

export interface CollectedChoice {
  text: string;
  end: ChoiceEnd;
  chatLogprobs: ChatLogprob[] | null;
  completionLogprobs: CompletionLogprobs | null;
}

/** Gathers a generation for one reply at its end. The texts are made exactly as a stream's are. */
export class CollectSink implements GenerationSink {
  readonly collected: CollectedChoice[];
  private readonly offsets: number[];
  /** Settles when all choices are over. */
  readonly result: Promise<CollectedChoice[]>;
  private settle!: { resolve: (choices: CollectedChoice[]) => void; reject: (error: PlimsollError) => void };

  /** `echoes`: text before each choice's own. `logprobs`: −1 for none. */
  constructor(
    private readonly table: PieceTable,
    shape: 'chat' | 'completion',
    logprobs: number,
    echoes: readonly string[],
  ) {
    this.collected = echoes.map((echo) => ({
      text: echo,
      end: 'stop',
      chatLogprobs: logprobs >= 0 && shape === 'chat' ? [] : null,
      completionLogprobs: logprobs >= 0 && shape === 'completion' ? emptyCompletionLogprobs(logprobs) : null,
    }));
    this.offsets = echoes.map(characterCount);
    this.result = new Promise((resolve, reject) => {
      this.settle = { resolve, reject };
    });
  }

  progress(): void {}

  token(choice: Choice, text: string, sample: SampledToken): void {
    const to = this.collected[choice.index];
    to.text += text;
    to.chatLogprobs?.push(chatLogprob(this.table, sample));
    if (to.completionLogprobs === null) return;
    addCompletionLogprob(to.completionLogprobs, this.table, sample, this.offsets[choice.index]);
    this.offsets[choice.index] += characterCount(this.table.lenientText(sample.token));
  }

  choiceEnded(choice: Choice, rest: string, end: ChoiceEnd): void {
    const to = this.collected[choice.index];
    to.text += rest;
    to.end = end;
  }

  ended(): void {
    this.settle.resolve(this.collected);
  }

  failed(error: PlimsollError): void {
    this.settle.reject(error);
  }
}
