import { Piscina } from 'piscina';
import type { PrepareResult } from '../main/prepare-types.js';

/** A job's result as a worker should return it: the tokens are handed over, not copied. A long prompt has megabytes of them. */
export function movedResult(result: PrepareResult): unknown {
  if (!result.ok || result.tokens.length === 0) return result;
  return Piscina.move({
    [Piscina.transferableSymbol]: [result.tokens.buffer],
    [Piscina.valueSymbol]: result,
  } as never);
}
