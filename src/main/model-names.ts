import path from 'node:path';
import type { Config } from '../shared/config.js';

/**
 * What clients may call the model. The served name comes first in answers; what stands behind `--model` is understood too, so that a
 * client that was configured with a path or a built-in name works.
 */
export function modelNames(config: Pick<Config, 'model' | 'servedModelName'>): { served: string; aliases: string[] } {
  const isPath = config.model.endsWith('.gguf') || config.model.includes(path.sep);
  const short = isPath ? path.basename(config.model, '.gguf') : config.model;
  const served = config.servedModelName ?? short.replace(/^hf:/, '');
  const aliases = [...new Set([config.model, short])].filter((name) => name !== served);
  return { served, aliases };
}
