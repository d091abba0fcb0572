/** A model's download for the eyes: a bar on a terminal, a line now and then elsewhere (logs, CI). */
import { createRequire } from 'node:module';
import type { SingleBar } from 'cli-progress';
import { formatBytes } from '../models/disk-space.js';
import type { ModelProgress, OnModelProgress } from '../models/model-progress.js';

/** Share of the file between two lines, where there is no terminal. Chosen: ten lines a file. */
const LINE_EVERY = 0.1;
/** Where the size is not known. */
const LINE_EVERY_BYTES = 100_000_000;

export interface Output {
  write(text: string): unknown;
  isTTY?: boolean | undefined;
}

export interface ProgressReporter {
  onProgress: OnModelProgress;
  /** Ends the bar, so that what comes next has a line of its own. */
  stop(): void;
}

/** Reports to `output`: stderr, so that stdout keeps to the answer. */
export function progressReporter(output: Output): ProgressReporter {
  return output.isTTY ? new BarReporter(output) : new LineReporter(output);
}

class BarReporter implements ProgressReporter {
  private bar: SingleBar | null = null;
  private file = '';
  private startedAtMs = 0;
  private startedAtBytes = 0;

  constructor(private readonly output: Output) {}

  readonly onProgress = (progress: ModelProgress): void => {
    if (progress.kind === 'note') {
      this.stop();
      this.output.write(`${progress.text}\n`);
      return;
    }
    if (this.bar === null || this.file !== progress.file)
      this.start(progress.file, progress.receivedBytes, progress.totalBytes);
    this.bar?.update(progress.receivedBytes, this.words(progress.receivedBytes, progress.totalBytes));
  };

  stop(): void {
    this.bar?.stop();
    this.bar = null;
  }

  private start(file: string, receivedBytes: number, totalBytes: number | null): void {
    this.stop();
    this.file = file;
    this.startedAtMs = Date.now();
    this.startedAtBytes = receivedBytes;
    // Loaded with the first bar: most starts show none.
    const cliProgress: typeof import('cli-progress') = createRequire(import.meta.url)('cli-progress');
    this.bar = new cliProgress.SingleBar(
      {
        format: '{bar} {percentage}% {got} of {size}, {speed}{left}',
        stream: this.output as NodeJS.WriteStream,
        hideCursor: true,
        barsize: 28,
      },
      cliProgress.Presets.shades_classic,
    );
    this.bar.start(totalBytes ?? 0, receivedBytes, this.words(receivedBytes, totalBytes));
  }

  private words(receivedBytes: number, totalBytes: number | null): Record<string, string> {
    const seconds = (Date.now() - this.startedAtMs) / 1000;
    // Bytes of an earlier run were not received now: they would make the speed a fairy tale.
    const bytesPerSecond = seconds > 0 ? Math.max(0, receivedBytes - this.startedAtBytes) / seconds : 0;
    const secondsLeft =
      totalBytes === null || bytesPerSecond === 0 ? null : (totalBytes - receivedBytes) / bytesPerSecond;
    return {
      got: formatBytes(receivedBytes),
      size: totalBytes === null ? '?' : formatBytes(totalBytes),
      speed: `${formatBytes(Math.round(bytesPerSecond))}/s`,
      left: secondsLeft === null || secondsLeft > 360_000 ? '' : `, ${duration(secondsLeft)} left`,
    };
  }
}

function duration(seconds: number): string {
  return seconds < 100 ? `${Math.ceil(seconds)} s` : `${Math.ceil(seconds / 60)} min`;
}

class LineReporter implements ProgressReporter {
  private file = '';
  private nextAtBytes = 0;

  constructor(private readonly output: Output) {}

  readonly onProgress = (progress: ModelProgress): void => {
    if (progress.kind === 'note') {
      this.output.write(`${progress.text}\n`);
      return;
    }
    const { file, receivedBytes, totalBytes } = progress;
    if (file !== this.file) {
      this.file = file;
      this.nextAtBytes = 0;
    }
    if (receivedBytes < this.nextAtBytes && receivedBytes !== totalBytes) return;
    // The last bytes are reported once: they may come with several notices.
    if (totalBytes !== null && this.nextAtBytes > totalBytes) return;
    const step = totalBytes === null ? LINE_EVERY_BYTES : totalBytes * LINE_EVERY;
    this.nextAtBytes = receivedBytes === totalBytes ? Number.POSITIVE_INFINITY : receivedBytes + step;
    const share = totalBytes
      ? ` of ${formatBytes(totalBytes)} (${Math.floor((receivedBytes / totalBytes) * 100)}%)`
      : '';
    this.output.write(`${file}: ${formatBytes(receivedBytes)}${share}\n`);
  };

  stop(): void {}
}
