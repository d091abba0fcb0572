import type { BenchResults, Percentiles } from './results.js';

const COLUMNS = ['mean', 'p50', 'p90', 'p95', 'p99', 'max'] as const;
const NUMBER_WIDTH = 9;

/** The results as plain text for a terminal. */
export function resultsTable(results: BenchResults): string {
  const { latencyMs, load } = results;
  const rows: Array<[string, Percentiles]> = [['time to first token', latencyMs.firstToken]];
  if (load.turns > 1)
    rows.push(['  first turn', latencyMs.firstTokenOfFirstTurn], ['  later turns', latencyMs.firstTokenOfLaterTurns]);
  rows.push(['inter-token latency', latencyMs.interToken], ['end to end', latencyMs.endToEnd]);
  const facts = factsOf(results);
  const labelWidth = Math.max(...rows.map(([label]) => label.length), ...facts.map(([label]) => label.length)) + 2;
  const line = (label: string, cells: readonly string[]) =>
    label.padEnd(labelWidth) + cells.map((cell) => cell.padStart(NUMBER_WIDTH)).join('');
  const latencies = [
    '',
    line('milliseconds', COLUMNS),
    '─'.repeat(labelWidth + COLUMNS.length * NUMBER_WIDTH),
    ...rows.map(([label, values]) =>
      line(
        label,
        COLUMNS.map((column) => milliseconds(values[column])),
      ),
    ),
  ];
  const lines = [
    `${results.model} at ${results.url}`,
    loadLine(results),
    ...(results.requests.answered > 0 ? latencies : []),
    '',
    ...facts.map(([label, fact]) => label.padEnd(labelWidth) + fact),
    ...results.notes.flatMap((note, i) => (i === 0 ? ['', note] : [note])),
  ];
  return `${lines.join('\n')}\n`;
}

function loadLine({ load }: BenchResults): string {
  const how =
    load.rate === null
      ? `closed loop, ${load.clients} client${load.clients === 1 ? '' : 's'}`
      : `open loop, ${load.rate} Poisson arrival${load.rate === 1 ? '' : 's'} a second`;
  const shared = load.sharedPrefixTokens > 0 ? `${load.sharedPrefixTokens} shared + ` : '';
  const turns = load.turns > 1 ? `, chats of ${load.turns} turns` : '';
  return `${how}; ${shared}${load.promptTokens} tokens in, ${load.outputTokens} out${turns}; seed ${load.seed}`;
}

function factsOf(results: BenchResults): Array<[label: string, fact: string]> {
  const { requests, tokens, goodput, elapsedSeconds } = results;
  const facts: Array<[string, string]> = [
    ['requests', `${requestsFact(requests)} in ${fixed(elapsedSeconds, 1)} s${endedFact(results)}`],
  ];
  if (requests.answered > 0) {
    facts.push(
      ['requests/s', fixed(results.requestsPerSecond, 2)],
      ['output tokens/s', fixed(results.outputTokensPerSecond, 1)],
      ['tokens of a request', tokensFact(tokens)],
    );
  }
  if (goodput && requests.answered > 0) {
    const limits = Object.entries(goodput.limits).map(([name, ms]) => `${name} ≤ ${ms} ms`);
    const share = `${fixed(goodput.share * 100, 1)} % within ${limits.join(', ')}`;
    facts.push(['goodput', `${fixed(goodput.requestsPerSecond, 2)} requests/s (${share})`]);
  }
  for (const [i, { kind, count, message }] of results.failures.entries())
    facts.push([i === 0 ? 'errors' : '', `${count} × ${kind}${message === '' ? '' : `: ${message}`}`]);
  return facts;
}

function requestsFact({ answered, failed, notSent, unfinished }: BenchResults['requests']): string {
  const parts = [`${answered} answered`, `${failed} failed`];
  if (unfinished > 0) parts.push(`${unfinished} unfinished`);
  if (notSent > 0) parts.push(`${notSent} not sent`);
  return parts.join(', ');
}

function endedFact({ ended, load }: BenchResults): string {
  if (ended === 'stopped') return `; stopped before all ${load.requests} were sent`;
  return ended === 'server gone' ? '; given up, nobody answers any more' : '';
}

function tokensFact({ prompt, cachedPrompt, output, countedBy }: BenchResults['tokens']): string {
  const out = `${fixed(output, 1)} out, counted by ${countedBy === 'server' ? 'the server' : 'chunks of the stream'}`;
  if (prompt === null) return out;
  const cached = cachedPrompt ? ` (${fixed(cachedPrompt, 1)} of them from its cache)` : '';
  return `${fixed(prompt, 1)} in${cached}, ${out}`;
}

/** Three digits that mean something, and a dash for nothing. */
function milliseconds(value: number): string {
  if (!Number.isFinite(value)) return '–';
  return fixed(value, value < 10 ? 2 : value < 100 ? 1 : 0);
}

function fixed(value: number, digits: number): string {
  return value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits });
}
