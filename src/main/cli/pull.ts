import { type ResolveOptions, resolveModel } from '../models/resolve-model.js';
import { type Output, progressReporter } from './progress-reporter.js';

/** What resolveModel needs besides the model: where it reads settings from and how it is stopped. */
export type PullOptions = Pick<ResolveOptions, 'env' | 'cacheDir' | 'signal' | 'limits' | 'timeouts'> & {
  refresh?: boolean;
};

/**
 * The path of a model, downloaded if needed, with its progress on `output`. Used by `pull` and by the first start of `serve`.
 * @throws ModelError.
 */
export async function fetchModel(model: string, output: Output, options: PullOptions = {}): Promise<string> {
  const reporter = progressReporter(output);
  try {
    return await resolveModel(model, { ...options, onProgress: reporter.onProgress });
  } finally {
    reporter.stop();
  }
}
