import { nearestName } from '../cli/nearest.js';
import { ModelError } from './model-error.js';
import { builtInModels, type ModelEntry } from './registry.js';

export type ModelSpec =
  | { kind: 'path'; path: string }
  | { kind: 'built-in'; entry: ModelEntry }
  | { kind: 'hub'; repo: string; quant: string | null };

/** Owner and name as the Hub allows them: no leading dot, so that neither can climb out of the cache folder. */
const HUB_REPO = /^[A-Za-z0-9][\w.-]*\/[A-Za-z0-9_][\w.-]*$/;
const QUANT = /^[A-Za-z0-9][\w.-]*$/;

/**
 * What `--model` names. A word without a slash that is no file name is a built-in model's name.
 * @throws ModelError invalid_name.
 */
export function parseModelSpec(text: string): ModelSpec {
  if (text.startsWith('hf:')) return parseHubSpec(text);
  const entry = builtInModels().find(({ name }) => name === text.toLowerCase());
  if (entry) return { kind: 'built-in', entry };
  if (/[/\\]/.test(text) || text.toLowerCase().endsWith('.gguf')) return { kind: 'path', path: text };
  const names = builtInModels().map(({ name }) => name);
  const near = nearestName(text.toLowerCase(), names);
  throw new ModelError(
    'invalid_name',
    `no built-in model is called "${text}"; ${near ? `did you mean ${near}?` : `there is ${names.join(', ')}`}` +
      ' (a file is named by its path, a Hub model by hf:owner/repo)',
  );
}

function parseHubSpec(text: string): ModelSpec {
  const [repo, quant, ...rest] = text.slice('hf:'.length).split(':');
  if (!HUB_REPO.test(repo) || repo.includes('..') || rest.length > 0 || (quant !== undefined && !QUANT.test(quant))) {
    throw new ModelError('invalid_name', `"${text}" is not of the form hf:owner/repo or hf:owner/repo:quant`);
  }
  return { kind: 'hub', repo, quant: quant ?? null };
}
