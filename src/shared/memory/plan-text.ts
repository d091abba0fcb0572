import { GIB, MIB } from './constants.js';
import type { LedgerLine, Plan, Refusal } from './plan-types.js';

/** Bytes for people: 17.76 GiB, 512.0 MiB, 900 B. */
export function bytesText(bytes: number): string {
  const size = Math.abs(bytes);
  if (size >= GIB) return `${(bytes / GIB).toFixed(2)} GiB`;
  if (size >= MIB) return `${(bytes / MIB).toFixed(1)} MiB`;
  return `${Math.round(bytes)} B`;
}

/** Start-up log of a plan: one line a cap with its reason, then who takes what. */
export function planLines(plan: Plan): string[] {
  return [...plan.reasons.map((reason) => reason.sentence), ledgerText(plan.ledger)];
}

/** The ledger as arithmetic, on one line: limit − use − weights − … = free. */
export function ledgerText(ledger: readonly LedgerLine[]): string {
  const [limit, ...rest] = ledger;
  const taken = rest.filter((line) => line.owner !== 'free');
  const free = limit.bytes - taken.reduce((sum, line) => sum + line.bytes, 0);
  const terms = taken.map((line) => ` − ${bytesText(line.bytes)} ${line.owner}`).join('');
  const end = free < 0 ? `${bytesText(-free)} short` : `${bytesText(free)} free`;
  return `${bytesText(limit.bytes)} ${limit.owner}${terms} = ${end}`;
}

const BINDS_TEXT: Record<Refusal['binds'], string> = {
  device: 'the device limit',
  system: 'the memory that the system has available',
  cgroup: "the cgroup's limit",
  fraction: '--mem-fraction-static',
  flags: 'the flags themselves',
};

/** Everything a user needs after a refusal: what does not fit, the arithmetic, what binds, what would do, what to change. */
export function refusalText(refusal: Refusal): string {
  const lines = [`the plan does not fit: ${refusal.sentence}`];
  if (refusal.binds !== 'flags') lines.push(`  ${ledgerText(refusal.ledger)}`);
  lines.push(`  what binds: ${BINDS_TEXT[refusal.binds]}`);
  const { sufficientLimitBytes, shortBytes, largestContextTokens, arithmetic } = refusal;
  if (sufficientLimitBytes !== null && shortBytes > 0) {
    const free = bytesText(sufficientLimitBytes - arithmetic.limit.limitBytes);
    lines.push(
      refusal.binds === 'system'
        ? `  would do: ${free} more of free memory`
        : `  would do: a limit of ${bytesText(sufficientLimitBytes)} (${free} more), or as much freed by others`,
    );
  }
  lines.push(
    largestContextTokens > 0
      ? `  largest context that fits: ${largestContextTokens} tokens`
      : '  no context of this model fits: take a smaller model or a smaller quantization',
  );
  for (const knob of refusal.knobs) lines.push(`  try ${knob.flag} ${knob.value}: ${knob.sentence}`);
  return lines.join('\n');
}
