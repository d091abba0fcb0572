import type { Config } from '../../shared/config.js';
import { cacheFolder } from '../models/cache-folder.js';
import { LoadLine } from '../supervisor/load-line.js';
import { openSupervisorLink } from '../supervisor/supervisor-link.js';
import type { Environment } from './parse.js';

export interface RememberedLine {
  /** Share of the memory limit. */
  fraction: number;
  /** Why it is lowered, and how to forget that; null: it is not. */
  sentence: string | null;
}

/** The line that serving this model here would keep, with nobody told of it. */
export function rememberedLine(config: Config, modelPath: string, env: Environment): RememberedLine {
  let sentence: string | null = null;
  const note = (text: string) => {
    sentence = text;
  };
  const line = new LoadLine({
    config,
    modelPath,
    link: { ...openSupervisorLink({}), line: () => {} },
    log: { warn: note, info: note },
    cacheDir: cacheFolder(env),
  });
  return { fraction: line.fraction, sentence };
}
