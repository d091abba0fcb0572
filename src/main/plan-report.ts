import type { ForwardReady } from '../workers/worker-messages.js';

const MIB = 2 ** 20;

/** The start-up lines of a log: what was loaded, and every cap with its reason. */
export function planReport(ready: ForwardReady): string[] {
  const { model, plan, context } = ready;
  const lines = [
    `model ${model.description}: ${mib(model.sizeBytes)} of weights, loaded in ${Math.round(ready.loadMs)} ms`,
    `plan: ${plan.layout} KV, ${plan.runningCap} requests at once, ${plan.contextTokens} tokens each, chunk ${plan.chunkTokens} ` +
      `(${plan.costSource} cost model, ${ready.measureCount} measurements in ${Math.round(ready.planMs)} ms)`,
  ];
  for (const reason of plan.reasons) lines.push(`plan: ${reason.cap} ${reason.value}: ${reason.sentence}`);
  for (const line of plan.ledger) lines.push(`ledger: ${line.owner} ${mib(line.bytes)}`);
  lines.push(`probe: ${ready.probe.sentence}${ready.probe.ran ? ` (${Math.round(ready.probe.ms)} ms)` : ''}`);
  lines.push(`context: ${context.cells} cells, made in ${Math.round(context.createMicros / 1000)} ms`);
  return lines;
}

function mib(bytes: number): string {
  return `${(bytes / MIB).toFixed(1)} MiB`;
}
