import { type Contestant, startInside, warmFileCache } from '../tight/contestants.js';
import { MemoryGroup } from '../tight/memory-group.js';
import { type MixedLoadResult, runMixedLoad } from '../tight/mixed-load.js';
import type { PromptMix } from '../tight/prompt-mix.js';
import { type WorkingSet, WorkingSetSampler } from '../tight/working-set.js';
import { Ballast, type BallastShape, type BallastTurn } from './ballast.js';
import { GaugeRecorder, type GaugeSample } from './load-line.js';

/** Gauges are looked at this often. Chosen: a recovery is told by seconds. */
const GAUGE_INTERVAL_MS = 200;

export interface LoadedTrialSettings {
  modelPath: string;
  limitBytes: number;
  clients: number;
  durationMs: number;
  mix: PromptMix;
  /** null: nobody presses. Else it begins after `leadInMs`. */
  ballast: BallastShape | null;
  leadInMs: number;
}

export interface LoadedTrial {
  kills: number;
  load: MixedLoadResult;
  workingSet: WorkingSet;
  peakShare: number;
  samples: GaugeSample[];
  turns: BallastTurn[];
}

/** Plimsoll without any tuning, under load for a time in a memory group, with or without a ballast beside it. */
export async function runLoadedTrial(settings: LoadedTrialSettings): Promise<LoadedTrial> {
  const { modelPath, limitBytes, clients, durationMs, mix, leadInMs } = settings;
  const plimsoll: Contestant = { kind: 'plimsoll', flags: [] };
  warmFileCache(plimsoll.kind, modelPath);
  const group = MemoryGroup.create('pressure', limitBytes);
  const sampler = new WorkingSetSampler(group);
  try {
    const server = await startInside(group, plimsoll, modelPath);
    const recorder = new GaugeRecorder(server.url, GAUGE_INTERVAL_MS);
    let ballast: Ballast | null = null;
    const timer = setTimeout(() => {
      ballast = settings.ballast === null ? null : new Ballast(group, settings.ballast);
    }, leadInMs);
    const isServerAlive = () => server.ended === null;
    const load = await runMixedLoad({ url: server.url, clients, durationMs, mix, isServerAlive });
    clearTimeout(timer);
    const turns = (await (ballast as Ballast | null)?.stop()) ?? [];
    const samples = await recorder.stop();
    await server.stop();
    const workingSet = await sampler.stop();
    return { kills: group.kills, load, workingSet, peakShare: workingSet.peakBytes / limitBytes, samples, turns };
  } finally {
    await sampler.stop();
    await group.remove();
  }
}
