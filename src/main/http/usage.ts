import type { Choice } from './choice.js';

/** OpenAI's usage of a whole request: sums over all choices; a prompt that several choices share counts once. */
export interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
  prompt_tokens_details: { cached_tokens: number };
  completion_tokens_details: { reasoning_tokens: number };
}

/** `choicesPerPrompt`: consecutive choices of one prompt. */
export function usageOf(choices: readonly Choice[], choicesPerPrompt: number): Usage {
  let promptTokens = 0;
  let cachedTokens = 0;
  let completionTokens = 0;
  choices.forEach((choice, i) => {
    completionTokens += choice.completionTokens;
    if (i % choicesPerPrompt !== 0) return;
    promptTokens += choice.plan.promptTokens.length;
    cachedTokens += choice.cachedTokens;
  });
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    prompt_tokens_details: { cached_tokens: cachedTokens },
    completion_tokens_details: { reasoning_tokens: 0 },
  };
}

/** The `timings` of llama.cpp's server. Milliseconds; rates are tokens per second. */
export interface Timings {
  cache_n: number;
  prompt_n: number;
  prompt_ms: number;
  prompt_per_token_ms: number;
  prompt_per_second: number;
  predicted_n: number;
  predicted_ms: number;
  predicted_per_token_ms: number;
  predicted_per_second: number;
}

/** Of several choices together: counts are sums, times are from the earliest beginning to the latest end. */
export function timingsOf(choices: readonly Choice[]): Timings {
  const ran = choices.filter((choice) => choice.firstTokenAtMs !== 0);
  const sum = (read: (choice: Choice) => number) => choices.reduce((total, choice) => total + read(choice), 0);
  const span = (from: (choice: Choice) => number, to: (choice: Choice) => number) =>
    ran.length === 0 ? 0 : Math.max(...ran.map(to)) - Math.min(...ran.map(from));
  const promptTokens = sum((choice) => choice.plan.promptTokens.length - choice.cachedTokens);
  const promptMs = span(
    (choice) => choice.startedAtMs || choice.submittedAtMs,
    (choice) => choice.firstTokenAtMs,
  );
  const predictedTokens = sum((choice) => choice.completionTokens);
  const predictedMs = span(
    (choice) => choice.firstTokenAtMs,
    (choice) => choice.lastTokenAtMs,
  );
  return {
    cache_n: sum((choice) => choice.cachedTokens),
    prompt_n: promptTokens,
    prompt_ms: promptMs,
    prompt_per_token_ms: ratio(promptMs, promptTokens),
    prompt_per_second: ratio(promptTokens * 1000, promptMs),
    predicted_n: predictedTokens,
    predicted_ms: predictedMs,
    predicted_per_token_ms: ratio(predictedMs, predictedTokens),
    predicted_per_second: ratio(predictedTokens * 1000, predictedMs),
  };
}

/** JSON has no infinity: nothing over nothing is 0. */
function ratio(over: number, under: number): number {
  return under > 0 ? over / under : 0;
}
