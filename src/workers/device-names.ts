import type { DeviceInfo } from '../shared/engine.js';

/** The engine takes device names in any case; who compares them needs them as it writes them. Unknown ones stay as they are. */
export function asNamed(words: readonly string[], devices: readonly DeviceInfo[]): string[] {
  return words.map((word) => devices.find(({ name }) => name.toLowerCase() === word.toLowerCase())?.name ?? word);
}
