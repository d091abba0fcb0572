import {
  AUTO_CONTEXT_MOST_CPU_TOKENS,
  AUTO_CONTEXT_SHARE,
  AUTO_CONTEXT_TOKENS,
  MIN_SPAN_TOKENS,
  TYPICAL_SPAN_TOKENS,
} from './constants.js';
import type { SharedStage } from './draft-shared.js';
import type { PlanProblem } from './plan-problem.js';
import type { CapReason } from './plan-types.js';

/** One sentence a cap, for the start-up log. */
export function sharedReasons(problem: PlanProblem, stage: SharedStage, poolTokens: number): CapReason[] {
  return [contextReason(problem, stage), runningReason(problem, stage), poolReason(problem, stage, poolTokens)];
}

function contextReason(problem: PlanProblem, stage: SharedStage): CapReason {
  const { flags, model, headroom } = problem;
  const value = stage.contextTokens;
  const reason = (binds: CapReason['binds'], sentence: string): CapReason => ({
    cap: 'context',
    value,
    binds,
    sentence: `${value} tokens of context for a request: ${sentence}`,
  });
  if (flags.contextTokens !== 'auto') return reason('flag', 'as asked for');
  if (value === model.trainContextTokens) return reason('model', 'what the model was trained for');
  if (stage.lastResort) return reason(headroom.binds, 'the least that is worth serving; memory is very short');
  if (flags.maxTotalTokens === value) return reason('flag', 'all of --max-total-tokens');
  if (value >= stage.cellsMost && !stage.allUsefulFit) return reason(memoryBinds(problem), 'all that fits');
  if (problem.machine.memory === 'host' && value === AUTO_CONTEXT_MOST_CPU_TOKENS) {
    return reason('chosen', `more is minutes of prefill on a CPU; --context-length up to ${stage.cellsMost} would fit`);
  }
  if (value > AUTO_CONTEXT_TOKENS) {
    const percent = AUTO_CONTEXT_SHARE * 100;
    return reason('chosen', `${percent} % of what is free; --context-length up to ${stage.cellsMost} would fit`);
  }
  return reason('chosen', `the automatic size; --context-length up to ${stage.cellsMost} would fit`);
}

function runningReason(problem: PlanProblem, stage: SharedStage): CapReason {
  const { flags, rules } = problem;
  const value = stage.cap;
  const reason = (binds: CapReason['binds'], sentence: string): CapReason => ({
    cap: 'running',
    value,
    binds,
    sentence: `${value} running requests: ${sentence}`,
  });
  if (flags.runningCap !== 'auto') return reason('flag', 'as asked for');
  if (value >= rules.runningBound) return reason('chosen', rules.runningBoundReason);
  return reason(memoryBinds(problem), `the pool leaves each at least ${MIN_SPAN_TOKENS} tokens`);
}

function poolReason(problem: PlanProblem, stage: SharedStage, value: number): CapReason {
  const reason = (binds: CapReason['binds'], sentence: string): CapReason => ({
    cap: 'pool',
    value,
    binds,
    sentence: `${value} tokens of KV: ${sentence}`,
  });
  if (problem.flags.maxTotalTokens !== 'auto') return reason('flag', 'as asked for');
  if (value >= stage.cellsMost && !stage.allUsefulFit) return reason(memoryBinds(problem), 'all that fits');
  if (stage.cap * TYPICAL_SPAN_TOKENS > stage.contextTokens) {
    return reason('chosen', `${TYPICAL_SPAN_TOKENS} for each running request; it grows on demand`);
  }
  return reason('chosen', 'one request of full context; it grows on demand');
}

function memoryBinds(problem: PlanProblem): CapReason['binds'] {
  return problem.staticBytes < problem.budgetBytes ? 'fraction' : problem.headroom.binds;
}
