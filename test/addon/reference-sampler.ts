/** What the addon's sampler should do, written as plainly as possible: sort everything, in double precision. */
import type { SamplingParams } from '../../src/shared/sampling.js';

export interface ReferenceRow {
  /** Natural logarithms of the probabilities under the model itself. */
  logprobs: number[];
  /** Tokens that may be drawn, with their probabilities, best first. */
  candidates: { token: number; probability: number }[];
}

function logSumExp(values: number[]): number {
  const max = Math.max(...values);
  return max + Math.log(values.reduce((sum, value) => sum + Math.exp(value - max), 0));
}

function adjusted(logits: Float32Array, params: SamplingParams, history: number[], endTokens: number[]): number[] {
  const row = Array.from(logits);
  for (const [token, bias] of params.logitBias) row[token] = Math.fround(row[token] + Math.fround(bias));
  if (params.ignoreEos) for (const token of endTokens) row[token] = Number.NEGATIVE_INFINITY;
  const seen =
    params.penaltyLastTokens < 0 ? history : history.slice(Math.max(0, history.length - params.penaltyLastTokens));
  for (const token of params.penaltyLastTokens === 0 ? [] : new Set(seen)) {
    const count = seen.filter((other) => other === token).length;
    const repeat = Math.fround(params.repeatPenalty);
    row[token] = row[token] <= 0 ? row[token] * repeat : row[token] / repeat;
    row[token] -= count * Math.fround(params.frequencyPenalty) + Math.fround(params.presencePenalty);
  }
  return row;
}

export function referenceSampler(
  logits: Float32Array,
  params: SamplingParams,
  history: number[],
  endTokens: number[] = [],
): ReferenceRow {
  const total = logSumExp(Array.from(logits));
  const logprobs = Array.from(logits, (logit) => logit - total);
  const row = adjusted(logits, params, history, endTokens);
  let order = row.map((logit, token) => ({ token, logit })).filter(({ logit }) => logit > Number.NEGATIVE_INFINITY);
  order.sort((a, b) => b.logit - a.logit || a.token - b.token);
  if (params.temperature === 0) return { logprobs, candidates: [{ token: order[0].token, probability: 1 }] };
  if (params.topK > 0) order = order.slice(0, params.topK);
  if (params.topP < 1) {
    const mass = logSumExp(order.map(({ logit }) => logit));
    let sum = 0;
    const end = order.findIndex(({ logit }) => (sum += Math.exp(logit - mass)) >= Math.fround(params.topP));
    if (end >= 0) order = order.slice(0, end + 1);
  }
  if (params.minP > 0) {
    const least = order[0].logit + Math.log(Math.fround(params.minP));
    order = order.filter(({ logit }, index) => index === 0 || logit >= least);
  }
  const scaled = order.map(({ logit }) => logit / params.temperature);
  const mass = logSumExp(scaled);
  return {
    logprobs,
    candidates: order.map(({ token }, index) => ({ token, probability: Math.exp(scaled[index] - mass) })),
  };
}
