/**
 * From the text of a flag to the type of its setting. A text that cannot be read is handed on as it is: the schema then refuses
 * it, and the message shows what was typed.
 */

export type ReadValue = (text: string) => unknown;

const SIZE = /^(\d+(?:\.\d+)?)([kKmM]?)$/;
/** A context of "32k" tokens means 32,768 everywhere in this field. */
const SIZE_FACTORS: Record<string, number> = { '': 1, k: 1024, m: 1024 * 1024 };
const TIME = /^(\d+(?:\.\d+)?)(ms|s|m|h)?$/;
const TIME_FACTORS_MS: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };

export const readText: ReadValue = (text) => text;

export const readNumber: ReadValue = (text) => (/^-?\d+(?:\.\d+)?$/.test(text.trim()) ? Number(text) : text);

/** Tokens: 4096, 4k, 1m. */
export const readTokens: ReadValue = (text) => {
  const match = SIZE.exec(text.trim());
  return match ? Number(match[1]) * SIZE_FACTORS[match[2].toLowerCase()] : text;
};

const BYTES = /^(\d+(?:\.\d+)?)\s*(?:([kmgt])i?b?|b)?$/i;
const BYTE_FACTORS: Record<string, number> = { '': 1, k: 2 ** 10, m: 2 ** 20, g: 2 ** 30, t: 2 ** 40 };

/** Bytes from 512MiB, 4g, 1048576; off is 0. Memory is sold in powers of two, whatever it is called. */
export const readBytes: ReadValue = (text) => {
  if (text.trim() === 'off') return 0;
  const match = BYTES.exec(text.trim());
  return match ? Math.round(Number(match[1]) * BYTE_FACTORS[(match[2] ?? '').toLowerCase()]) : text;
};

/** Milliseconds from 30 (seconds), 30s, 500ms, 5m, 1h. */
export const readTimeMs: ReadValue = (text) => {
  const match = TIME.exec(text.trim());
  return match ? Math.round(Number(match[1]) * TIME_FACTORS_MS[match[2] ?? 's']) : text;
};

/** Layers: all is the engine's −1, which nobody has to know. */
export const readLayers: ReadValue = (text) => {
  if (text.trim() === 'all') return -1;
  return text.trim().startsWith('-') ? text : readNumber(text);
};

export const readList: ReadValue = (text) =>
  text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');

/** Device names; auto is the empty list. */
export const readDevices: ReadValue = (text) => (text.trim() === 'auto' ? [] : readList(text));

/** A switch in the environment. */
export const readSwitch: ReadValue = (text) => {
  const word = text.trim().toLowerCase();
  if (['1', 'true', 'yes', 'on'].includes(word)) return true;
  return ['0', 'false', 'no', 'off'].includes(word) ? false : text;
};
