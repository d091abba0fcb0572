import { existsSync } from 'node:fs';

/** load-line.json lies beside this file in the source tree; the compiled file is run from build/test/conformance. */
export function defaultVectorsPath(): URL {
  const beside = new URL('./load-line.json', import.meta.url);
  return existsSync(beside) ? beside : new URL('../../../test/conformance/load-line.json', import.meta.url);
}
