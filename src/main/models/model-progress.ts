/** What a download reports while it runs. */
export type ModelProgress =
  /** A line for the user: the source that was chosen, another process that is waited for. */
  | { kind: 'note'; text: string }
  /** Bytes of `file` that are here. `totalBytes` is null where the server does not say. */
  | { kind: 'bytes'; file: string; receivedBytes: number; totalBytes: number | null };

export type OnModelProgress = (progress: ModelProgress) => void;
