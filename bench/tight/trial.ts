import type { ServerProcess } from '../peers/server-process.js';
import { type Contestant, startInside, warmFileCache } from './contestants.js';
import { MemoryGroup } from './memory-group.js';
import { type MixedLoadResult, runMixedLoad } from './mixed-load.js';
import type { PromptMix } from './prompt-mix.js';
import { type WorkingSet, WorkingSetSampler } from './working-set.js';

export interface TrialSettings {
  contestant: Contestant;
  modelPath: string;
  limitBytes: number;
  clients: number;
  requests: number;
  mix: PromptMix;
}

export interface TightTrial {
  contestant: Contestant;
  limitBytes: number;
  requests: number;
  /** Processes that the kernel killed. */
  kills: number;
  /** Why it was never ready: the end of what it wrote; null: it was. */
  startFailure: string | null;
  load: MixedLoadResult | null;
  workingSet: WorkingSet;
  /** The end of what the server wrote, where something failed. */
  logTail: string;
  /** Largest working set, as a share of the limit. */
  peakShare: number;
}

/** One server under the load inside a memory group of its own, which is gone afterwards. */
export async function runTrial(settings: TrialSettings): Promise<TightTrial> {
  const { contestant, modelPath, limitBytes, requests } = settings;
  warmFileCache(contestant.kind, modelPath);
  const group = MemoryGroup.create('tight', limitBytes);
  const sampler = new WorkingSetSampler(group);
  let server: ServerProcess | null = null;
  let startFailure: string | null = null;
  let load: MixedLoadResult | null = null;
  try {
    server = await startInside(group, contestant, modelPath);
    load = await loadUntilDeath(server, settings);
  } catch (error) {
    if (server !== null) throw error;
    startFailure = (error as Error).message;
  } finally {
    await server?.stop();
    await sampler.stop();
  }
  const workingSet = await sampler.stop();
  const kills = group.kills;
  await group.remove();
  const hasFailed = kills > 0 || load === null || load.failed > 0;
  const logTail = hasFailed ? (server?.logTail ?? '') : '';
  const peakShare = workingSet.peakBytes / limitBytes;
  return { contestant, limitBytes, requests, kills, startFailure, load, workingSet, logTail, peakShare };
}

function loadUntilDeath(server: ServerProcess, { clients, requests, mix }: TrialSettings): Promise<MixedLoadResult> {
  return runMixedLoad({ url: server.url, clients, requests, mix, isServerAlive: () => server.ended === null });
}
