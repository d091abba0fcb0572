import { bytesText, ledgerText, refusalText } from '../../shared/memory/plan-text.js';
import type { Knob, Plan, Refusal } from '../../shared/memory/plan-types.js';

/** One planned machine and model. */
export interface PlannedEntry {
  device: string;
  model: string;
  result: Plan | Refusal;
  /** What would change a plan that fits; a refusal has its own knobs. */
  changes: readonly Knob[];
  /** Where the device's limit comes from. */
  limitSource: string;
  /** What else a reader must know, a sentence each. */
  notes?: readonly string[];
}

const COLUMNS = [
  'device',
  'layout',
  'running',
  'context',
  'pool',
  'chunk',
  'weights',
  'kv',
  'compute',
  'free',
] as const;
/** These are names; the rest are numbers and align right. */
const LEFT_COLUMNS = 2;

/**
 * Table of what fits and, with `isExplained`, a line of arithmetic for each machine and what would change it. Plain text for a terminal.
 */
export function planTable(entries: readonly PlannedEntry[], isExplained = true): string {
  const rows = entries.map(rowOf);
  const widths = COLUMNS.map((name, column) => Math.max(name.length, ...rows.map((row) => row[column].length)));
  const format = (row: readonly string[]) =>
    row
      .map((cell, i) => (i < LEFT_COLUMNS ? cell.padEnd(widths[i]) : cell.padStart(widths[i])))
      .join('  ')
      .trimEnd();
  const lines = [format(COLUMNS), widths.map((width) => '─'.repeat(width)).join('  '), ...rows.map(format)];
  const explained = isExplained ? entries : leastShort(entries);
  for (const entry of explained) lines.push('', ...detailsOf(entry));
  if (!isExplained) lines.push('', `--device ${entries[0].device} explains one of them`);
  return `${lines.join('\n')}\n`;
}

/** The machine that comes nearest, where the model fits on none: its arithmetic says what is missing. */
function leastShort(entries: readonly PlannedEntry[]): PlannedEntry[] {
  const shortBytes = ({ result }: PlannedEntry) => (result.refused ? result.shortBytes : 0);
  if (entries.some(({ result }) => !result.refused)) return [];
  return [entries.reduce((best, entry) => (shortBytes(entry) < shortBytes(best) ? entry : best))];
}

function rowOf({ device, result }: PlannedEntry): string[] {
  if (result.refused) return [device, 'does not fit', ...new Array<string>(COLUMNS.length - 2).fill('–')];
  return [
    device,
    result.layout,
    String(result.runningCap),
    String(result.contextTokens),
    String(result.poolTokens),
    String(result.chunkTokens),
    bytesText(result.weightsBytes),
    bytesText(result.cost.kvBytes),
    bytesText(result.cost.computeBytes),
    bytesText(result.ledger.find((line) => line.owner === 'free')?.bytes ?? 0),
  ];
}

function detailsOf({ device, model, result, changes, limitSource, notes = [] }: PlannedEntry): string[] {
  const title = [`${model} on ${device} (${limitSource})`, ...notes.map((note) => `  ${note}`)];
  if (result.refused) return [...title, `  ${refusalText(result)}`];
  const reasons = result.reasons.map((reason) => `  ${reason.sentence}`);
  const what =
    changes.length === 0
      ? '  what would change it: nothing but more memory or another model'
      : `  what would change it: ${changes.map((knob) => `${knob.flag} ${knob.value} (${knob.sentence})`).join('; ')}`;
  return [...title, ...reasons, `  ${ledgerText(result.ledger)}`, what];
}

/** The same for programs: stable field names, bytes and tokens as numbers. */
export function planJson(entries: readonly PlannedEntry[]): string {
  return `${JSON.stringify(entries.map(jsonOf), null, 2)}\n`;
}

function jsonOf({ device, model, result, changes, limitSource, notes = [] }: PlannedEntry) {
  const common = { device, model, limitSource, notes, fits: !result.refused, ledger: result.ledger };
  if (result.refused) {
    const { sentence, binds, shortBytes, sufficientLimitBytes, largestContextTokens, knobs } = result;
    return { ...common, sentence, binds, shortBytes, sufficientLimitBytes, largestContextTokens, changes: knobs };
  }
  const { layout, runningCap, contextTokens, poolTokens, cells, chunkTokens, cost, reasons, costSource } = result;
  return {
    ...common,
    layout,
    runningCap,
    contextTokens,
    poolTokens,
    cells,
    chunkTokens,
    weightsBytes: result.weightsBytes,
    kvBytes: cost.kvBytes,
    computeBytes: cost.computeBytes,
    hostBytes: cost.hostBytes,
    costSource,
    reasons,
    changes,
  };
}
