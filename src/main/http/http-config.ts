/** What the HTTP layer needs to know, made by main.ts from the user's settings. Every limit has a default here. */
export interface HttpConfig {
  /** The model's name in replies and in /v1/models. */
  modelName: string;
  /** Other names a request may use for it. */
  modelAliases: readonly string[];
  /** `root` in /v1/models: where the model came from. */
  modelRoot: string;
  /** `system_fingerprint` of replies: changes when outputs may. */
  systemFingerprint: string;
  /** Empty: no key is asked for. */
  apiKeys: readonly string[];
  /** Origins that browsers may call from; `*`: all; empty: none. */
  corsOrigins: readonly string[];
  bodyLimitBytes: number;
  connectionsMax: number;
  headersTimeoutMs: number;
  /** For a whole request to arrive, headers and body. */
  requestTimeoutMs: number;
  keepAliveTimeoutMs: number;
  messagesMax: number;
  /** `n` at most, and prompts of one request at most. */
  choicesMax: number;
  promptsMax: number;
  stopStringsMax: number;
  stopStringLengthMax: number;
  /** Jobs of /tokenize and /apply-template that run, and that wait. */
  sideJobsRunning: number;
  sideJobsWaiting: number;
  /** Silence in a stream after which a comment is sent. */
  ssePingIntervalMs: number;
  /** How long a stream waits for its first result before it sends its headers; until then an error has its real status. */
  firstResultWaitMs: number;
  /** Bytes that may pile up for a client that does not read, before it is dropped. */
  clientBufferBytes: number;
}

export const HTTP_DEFAULTS: HttpConfig = {
  modelName: 'default',
  modelAliases: [],
  modelRoot: '',
  systemFingerprint: 'plimsoll',
  apiKeys: [],
  corsOrigins: [],
  // Chosen: a million tokens of text with room to spare.
  bodyLimitBytes: 16 * 1024 * 1024,
  // Chosen: far above any running cap, below the usual limit of open files.
  connectionsMax: 1024,
  headersTimeoutMs: 15_000,
  requestTimeoutMs: 60_000,
  // Above the 60 s after which the usual proxies close an idle connection themselves.
  keepAliveTimeoutMs: 75_000,
  messagesMax: 4096,
  choicesMax: 16,
  promptsMax: 64,
  // OpenAI allows 4; llama.cpp's clients send more.
  stopStringsMax: 16,
  stopStringLengthMax: 256,
  sideJobsRunning: 4,
  sideJobsWaiting: 64,
  ssePingIntervalMs: 15_000,
  // Chosen: long enough for an idle machine's prefill and for most refusals, short enough that no proxy minds.
  firstResultWaitMs: 5000,
  clientBufferBytes: 1024 * 1024,
};

/** Defaults filled in, frozen. */
export function httpConfig(settings: Partial<HttpConfig>): HttpConfig {
  return Object.freeze({ ...HTTP_DEFAULTS, ...settings });
}
