import type { Contestant } from './contestants.js';
import { runTrial, type TightTrial, type TrialSettings } from './trial.js';

/** Cells of a slot: the longest request, rounded as the engine rounds. */
const SLOT_TOKENS = 2048;
/** What someone would try by hand, the most parallel first: a slot a client, fewer slots, and slots that share one smaller cache. */
const TRIES: ReadonlyArray<readonly string[]> = [
  ['-c', String(4 * SLOT_TOKENS), '-np', '4'],
  ['-c', String(3 * SLOT_TOKENS), '-np', '4', '--kv-unified'],
  ['-c', String(3 * SLOT_TOKENS), '-np', '3'],
  ['-c', String(2 * SLOT_TOKENS), '-np', '4', '--kv-unified'],
  ['-c', String(2 * SLOT_TOKENS), '-np', '2'],
  ['-c', String(SLOT_TOKENS), '-np', '2', '--kv-unified'],
  ['-c', String(SLOT_TOKENS), '-np', '1'],
];

export interface PeerSearch {
  tries: TightTrial[];
  /** The fastest that was neither killed nor failed a request; null: none. */
  best: Contestant | null;
}

/** llama-server as someone would set it who knows the limit: no host prompt cache, and the best of what survives a short load. */
export async function searchPeerFlags(
  settings: Omit<TrialSettings, 'contestant'>,
  onTry: (trial: TightTrial) => void,
): Promise<PeerSearch> {
  const tries: TightTrial[] = [];
  for (const flags of TRIES) {
    const contestant: Contestant = { kind: 'llama-server', flags: ['--cache-ram', '0', ...flags] };
    const trial = await runTrial({ ...settings, contestant });
    tries.push(trial);
    onTry(trial);
  }
  const survivors = tries.filter((trial) => trial.kills === 0 && trial.load !== null && trial.load.failed === 0);
  const rate = (trial: TightTrial): number => trial.load?.outputTokensPerSecond ?? 0;
  const best = survivors.sort((a, b) => rate(b) - rate(a))[0];
  return { tries, best: best?.contestant ?? null };
}
