import { TYPICAL_SPAN_TOKENS } from './constants.js';
import { type Draft, mostPromptTokens } from './draft.js';
import type { PlanProblem } from './plan-problem.js';
import { streamsIn } from './stream-ladder.js';

/**
 * Whether a pool's memory is used as private streams (stream-ladder.ts). A CPU is the faster with them, a GPU with a pool; models with a state
 * beside their cells are not moved between shapes. Where there is room for one stream only, requests take turns: that costs nothing where
 * decodes gain little by being computed together (answers-first.ts).
 */
export function suitsStreams({ flags, machine, model }: PlanProblem, draft: Draft): boolean {
  const canAttend = flags.flashAttention !== 'off' && machine.memory === 'host';
  if (flags.layout !== 'auto' || !canAttend || model.canTrim === false) return false;
  const streams = streamsIn(draft.cells, draft.runningCap);
  // So many at once were asked for, and a pool can do it.
  if (flags.runningCap !== 'auto' && streams < draft.runningCap) return false;
  const spanBytes = (draft.residentKvBytes / draft.cells) * TYPICAL_SPAN_TOKENS;
  return streams > 1 || spanBytes >= model.weightsBytes;
}

/** As many requests run as there are streams; what the others would have had goes to the chunk. */
export function runAsStreams(problem: PlanProblem, draft: Draft): void {
  draft.asStreams = true;
  const streams = streamsIn(draft.cells, draft.runningCap);
  if (streams === draft.runningCap) return;
  draft.runningCap = streams;
  for (const reason of draft.reasons.filter(({ cap }) => cap === 'running')) {
    reason.value = streams;
    reason.sentence = `${streams} running requests: each has a private stream, ${TYPICAL_SPAN_TOKENS} tokens long or longer`;
  }
  draft.chunkTokens = largestChunk(problem, draft);
}

/** Up to a good one, also where rounding of the pool has left the room for it: a little more memory may take that, and it costs no request
 *  its place. */
function largestChunk(problem: PlanProblem, { layout, contextTokens, runningCap, cells, chunkTokens }: Draft): number {
  const { flags, rules } = problem;
  if (flags.chunkTokens !== 'auto') return chunkTokens;
  const most = Math.min(mostPromptTokens(problem, contextTokens, runningCap), rules.goodChunkTokens);
  const fits = (chunk: number) => problem.fits(problem.cost(layout, runningCap, cells, chunk));
  return rules.chunkLadder.find((chunk) => chunk > chunkTokens && chunk <= most && fits(chunk)) ?? chunkTokens;
}
