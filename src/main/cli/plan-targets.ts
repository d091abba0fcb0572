/** What `plimsoll plan --device` names: this machine, with the devices of it, or machines that are not here. */
import { type DeviceProfile, findProfile, PROFILES } from '../../shared/memory/profiles.js';
import { CliError, EXIT_USAGE } from './cli-error.js';
import { nearestName } from './nearest.js';

export type PlanTarget = { kind: 'here'; devices: string[] } | { kind: 'profile'; profile: DeviceProfile };

/** Names suggested for one that is not known. Chosen: a line's worth. */
const SUGGESTIONS_MAX = 3;

/** Whether these words can be understood without looking at this machine. */
export function namesOnlyProfiles(words: readonly string[]): boolean {
  return words.length > 0 && words.every((word) => word.toLowerCase() === 'all' || findProfile(word) !== null);
}

/**
 * @param words as typed; none is this machine. `devicesHere`: names of this machine's devices.
 * @throws CliError (exit code 2) for a name that nothing has, with the nearest ones.
 */
export function planTargets(words: readonly string[], devicesHere: readonly string[]): PlanTarget[] {
  if (words.length === 0) return [{ kind: 'here', devices: [] }];
  const targets: PlanTarget[] = [];
  const chosenHere: string[] = [];
  for (const word of words) {
    const name = word.toLowerCase();
    const profile = findProfile(name);
    if (profile) targets.push({ kind: 'profile', profile });
    else if (name === 'all') targets.push(...PROFILES.map((one): PlanTarget => ({ kind: 'profile', profile: one })));
    else if (name === 'this') targets.push({ kind: 'here', devices: [] });
    else chosenHere.push(deviceHere(word, devicesHere));
  }
  // Devices of one machine work together, so they are one plan, as serve makes it.
  if (chosenHere.length > 0) targets.unshift({ kind: 'here', devices: chosenHere });
  return targets;
}

function deviceHere(word: string, names: readonly string[]): string {
  const found = names.find((name) => name.toLowerCase() === word.toLowerCase());
  if (found !== undefined) return found;
  const near = nearestNames(word.toLowerCase(), [...PROFILES.map(({ name }) => name), ...names, 'this', 'all']);
  const known = `this machine has ${names.join(', ') || 'no devices'}; profiles are named such as m4-pro-24gb or rtx-4090`;
  throw new CliError(
    EXIT_USAGE,
    `no device or profile is called "${word}"; ${near.length > 0 ? `did you mean ${near.join(', ')}?` : known}`,
  );
}

function nearestNames(word: string, candidates: readonly string[]): string[] {
  const left = new Set(candidates);
  const near: string[] = [];
  while (near.length < SUGGESTIONS_MAX) {
    const next = nearestName(word, left);
    if (next === null) break;
    near.push(next);
    left.delete(next);
  }
  return near;
}
