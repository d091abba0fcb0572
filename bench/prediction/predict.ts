import { runTrial } from '../measure/trial.js';
import type { CellResult, GridCell } from './grid.js';

const script = new URL('./model-trial.js', import.meta.url);

/**
 * What `cells` of a model take. A fresh process for each layout: what a large context leaves of the heap would be counted with the next.
 * Its JavaScript heap stays small and is swept before each look.
 */
export async function predict(file: string, cells: readonly GridCell[]): Promise<CellResult[]> {
  const results: CellResult[] = [];
  for (const layout of ['private', 'shared']) {
    const some = cells.filter((cell) => cell.layout === layout);
    const nodeArgs = ['--expose-gc', '--max-semi-space-size=1'];
    results.push(...(await runTrial<CellResult[]>(script, { args: [file, JSON.stringify(some)], nodeArgs })));
  }
  return results;
}
