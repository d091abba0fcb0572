import { setTimeout as sleep } from 'node:timers/promises';

/** What the server says about itself, in numbers: the gauges of `/v1/load-line`. */
export interface Gauges {
  headroomBytes: number;
  kvBytes: number;
  computeBytes: number;
  kvTotalTokens: number;
  contextEpoch: number;
  /** Tokens that went through the model, of prompts and of answers. */
  decodedTokens: number;
  kvCachedTokens: number;
  evictions: number;
  preemptions: number;
  prefixHitTokens: number;
  prefixLookupTokens: number;
  runningRequests: number;
}

export interface GaugeSample extends Gauges {
  atMs: number;
}

export async function readGauges(url: string): Promise<GaugeSample> {
  const response = await fetch(`${url}/v1/load-line`);
  const { device, scheduler } = (await response.json()) as { device: Gauges; scheduler: Gauges };
  return { ...device, ...scheduler, atMs: performance.now() };
}

/** Looks at the gauges at an interval until it is stopped. */
export class GaugeRecorder {
  readonly samples: GaugeSample[] = [];
  private isStopped = false;
  private readonly done: Promise<void>;

  constructor(
    private readonly url: string,
    private readonly intervalMs: number,
  ) {
    this.done = this.run();
  }

  async stop(): Promise<GaugeSample[]> {
    this.isStopped = true;
    await this.done;
    return this.samples;
  }

  private async run(): Promise<void> {
    while (!this.isStopped) {
      try {
        this.samples.push(await readGauges(this.url));
      } catch {
        // A server that died is the trial's affair, which counts it.
      }
      await sleep(this.intervalMs);
    }
  }
}

/** Resolves with the first sample that satisfies `isSo`. @throws Error when none does in time. */
export async function gaugesUntil(
  url: string,
  isSo: (gauges: Gauges) => boolean,
  timeoutMs: number,
): Promise<GaugeSample> {
  const deadlineMs = performance.now() + timeoutMs;
  for (;;) {
    const sample = await readGauges(url);
    if (isSo(sample)) return sample;
    if (performance.now() > deadlineMs) throw new Error(`not within ${timeoutMs} ms: ${JSON.stringify(sample)}`);
    await sleep(5);
  }
}
