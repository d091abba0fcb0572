/** The doctor's findings for a terminal, and for programs. Pure. */
import type { Check, CheckStatus } from './doctor-checks.js';
import type { DoctorFacts } from './doctor-facts.js';

const MARKS: Record<CheckStatus, string> = { ok: '✓', warning: '!', problem: '✗' };

export function canServe(checks: readonly Check[]): boolean {
  return checks.every(({ status }) => status !== 'problem');
}

export function doctorText(checks: readonly Check[]): string {
  const width = Math.max(...checks.map(({ name }) => name.length));
  const lines: string[] = [];
  for (const group of new Set(checks.map((check) => check.group))) {
    if (lines.length > 0) lines.push('');
    lines.push(group);
    for (const { name, status, value, advice } of checks.filter((check) => check.group === group)) {
      lines.push(`  ${MARKS[status]} ${name.padEnd(width)}  ${value}`);
      if (advice !== null) lines.push(`    ${''.padEnd(width)}  → ${advice}`);
    }
  }
  return `${[...lines, '', verdict(checks)].join('\n')}\n`;
}

function verdict(checks: readonly Check[]): string {
  const count = (status: CheckStatus) => checks.filter((check) => check.status === status).length;
  const warnings = count('warning');
  const also = warnings === 0 ? '' : `, with ${counted(warnings, 'warning')}`;
  return canServe(checks)
    ? `This machine can serve${also}.`
    : `This machine cannot serve: ${counted(count('problem'), 'problem')}${also}.`;
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

/** Stable names; `facts` are the numbers behind the findings, in bytes and tokens. */
export function doctorJson(checks: readonly Check[], facts: DoctorFacts): string {
  return `${JSON.stringify({ canServe: canServe(checks), checks, facts }, null, 2)}\n`;
}
