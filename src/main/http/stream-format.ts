/** The parts of a chunk that never change within a stream, as text, so that a token costs one concatenation and no JSON work. */
export interface StreamFormat {
  idPrefix: string;
  object: string;
  /** Up to the JSON text of a choice's first text, of its other texts, and after it. */
  firstOpen: string;
  open: string;
  close: string;
  /** A choice without text. */
  empty: string;
}

export const CHAT_FORMAT: StreamFormat = {
  idPrefix: 'chatcmpl-',
  object: 'chat.completion.chunk',
  firstOpen: '"delta":{"role":"assistant","content":',
  open: '"delta":{"content":',
  close: '}',
  empty: '"delta":{}',
};

export const COMPLETION_FORMAT: StreamFormat = {
  idPrefix: 'cmpl-',
  object: 'text_completion',
  firstOpen: '"text":',
  open: '"text":',
  close: '',
  empty: '"text":""',
};

export interface ReplyIdentity {
  id: string;
  /** Seconds since 1970. */
  created: number;
  model: string;
  systemFingerprint: string;
}

/** Writes the events of one stream. All methods return whole events, ready to send. */
export class ChunkWriter {
  private readonly base: string;
  private readonly firstHeads: string[] = [];
  private readonly heads: string[] = [];
  private readonly plainTail: string;
  private readonly usageNull: string;

  constructor(
    private readonly format: StreamFormat,
    identity: ReplyIdentity,
    choiceCount: number,
    includeUsage: boolean,
  ) {
    const fields = `{"id":${JSON.stringify(identity.id)},"object":"${format.object}","created":${identity.created}`;
    const model = `"model":${JSON.stringify(identity.model)},"system_fingerprint":${JSON.stringify(identity.systemFingerprint)}`;
    this.base = `data: ${fields},${model},"choices":[`;
    // With include_usage, OpenAI's chunks all have the field, null but in the last.
    this.usageNull = includeUsage ? ',"usage":null' : '';
    this.plainTail = `${format.close},"logprobs":null,"finish_reason":null}]${this.usageNull}}\n\n`;
    for (let index = 0; index < choiceCount; index++) {
      this.firstHeads.push(`${this.base}{"index":${index},${format.firstOpen}`);
      this.heads.push(`${this.base}{"index":${index},${format.open}`);
    }
  }

  /** `textJson`: the text as JSON. */
  text(index: number, isFirst: boolean, textJson: string): string {
    return (isFirst ? this.firstHeads[index] : this.heads[index]) + textJson + this.plainTail;
  }

  /** As `text`, with logprobs or timings, as objects. */
  detailedText(index: number, isFirst: boolean, textJson: string, logprobs: unknown, timings: unknown): string {
    const head = isFirst ? this.firstHeads[index] : this.heads[index];
    const extra = timings === undefined ? '' : `,"timings":${JSON.stringify(timings)}`;
    const logprobsJson = JSON.stringify(logprobs ?? null);
    return `${head}${textJson}${this.format.close},"logprobs":${logprobsJson},"finish_reason":null}]${extra}${this.usageNull}}\n\n`;
  }

  progress(index: number, progress: unknown): string {
    const choice = `{"index":${index},${this.format.empty},"logprobs":null,"finish_reason":null}`;
    return `${this.base}${choice}],"prompt_progress":${JSON.stringify(progress)}${this.usageNull}}\n\n`;
  }

  finish(index: number, reason: string, timings: unknown): string {
    const choice = `{"index":${index},${this.format.empty},"logprobs":null,"finish_reason":"${reason}"}`;
    return `${this.base}${choice}],"timings":${JSON.stringify(timings)}${this.usageNull}}\n\n`;
  }

  usage(usage: unknown): string {
    return `${this.base}],"usage":${JSON.stringify(usage)}}\n\n`;
  }
}

export const DONE_EVENT = 'data: [DONE]\n\n';
