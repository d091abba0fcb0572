import { writeSync } from 'node:fs';

/** pino's numbers for its levels: these lines stand among the server's own. */
const LEVELS = { warn: 40, error: 50 } as const;
const STDERR = 2;

export type LogFormat = 'json' | 'text';

/** The supervisor's few lines, in the form that the server process said it writes. */
export class SupervisorLog {
  private format: LogFormat;
  private isSilent = false;

  constructor(
    isTerminal: boolean,
    private readonly write: (line: string) => void = writeStderr,
  ) {
    this.format = isTerminal ? 'text' : 'json';
  }

  /** What the server process was set to; null: it never said. */
  use(settings: { logFormat: LogFormat | null; isSilent: boolean }): void {
    this.format = settings.logFormat ?? this.format;
    this.isSilent = settings.isSilent;
  }

  warn(message: string): void {
    this.line('warn', message);
  }

  error(message: string): void {
    this.line('error', message);
  }

  private line(level: keyof typeof LEVELS, message: string): void {
    if (this.isSilent) return;
    const entry = { level: LEVELS[level], time: Date.now(), name: 'supervisor', msg: message };
    this.write(this.format === 'json' ? `${JSON.stringify(entry)}\n` : `plimsoll: ${message}\n`);
  }
}

/** A log that nobody reads any more must not end what it reports on. */
function writeStderr(line: string): void {
  try {
    writeSync(STDERR, line);
  } catch {}
}
