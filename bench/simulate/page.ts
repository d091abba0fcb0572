import { type Conditions, describe } from '../measure/machine.js';

export interface SimulationPage {
  conditions: Conditions;
  hours: number;
  officeRows: string[][];
  hoursRows: string[][];
}

const OFFICE_COLUMNS = [
  'machine',
  'model',
  'context / pool',
  'running',
  'chunk',
  'requests an hour',
  'wait p50 / p95',
  'first token p50 / p95',
  'evictions',
  're-plans',
  'hits of repeats',
  'peak',
  'of the limit',
];
const HOURS_COLUMNS = [
  'machine',
  'requests',
  'pool filled by cached prefixes, last hour',
  'evictions ahead of a prefill',
  'hits of repeats',
  'peak',
  'of the limit',
];

/** docs/simulation.md. */
export function page({ conditions, hours, officeRows, hoursRows }: SimulationPage): string {
  return `# Simulation: the load line on machines that are not here

Written by \`make bench-simulate\`. Do not edit.

The scheduler, the planner, the context ladder and its policy are pure: time and readings come in, decisions go out. \`src/shared/simulation/\` runs
them, unchanged, against a simulated device and clock. The device has a limit, other programs that come and go, and readings that may be old; what
it allocates follows the analytic cost model. An allocation past the limit is a crash, as it is on Metal, and ends the run. The engine's side keeps books of
cells of its own and checks every record against them. Eight hours pass in some seconds.

What the numbers are worth: bytes are as good as the analytic cost model (within 4 % of the engine's own). Times are not a benchmark: step times follow a chip's
published bandwidth and half of its peak arithmetic, so rates and waits say how things compare, not how fast a machine is.

\`\`\`ts
import { Clients, MODELS, machineOfProfile, simulate } from './src/shared/simulation/index.js';
const result = simulate({ machine, chip: 'm4-pro', model: MODELS['qwen3-30b-a3b-4bit'], workload, seconds: 8 * 3600 });
\`\`\`

A workload is a description (clients that wait for answers, chats of several turns, or arrivals at random; lengths, shared prefixes, a seed) or a trace, one JSON object
a line: \`{"at": 1.5, "prompt": 1200, "prefix": 3, "prefixTokens": 400, "output": 64, "priority": 0}\`.

## ${hours} hours of an office on six Macs

Four clients, 20 s between an answer and the next request, prompts of 200 to 3000 tokens, a third of them with one of four prefixes of 300 to 600 tokens. Hits are the share of
such a prompt's tokens that came from the cache; 28 % would be all of the prefixes.

${table(OFFICE_COLUMNS, officeRows)}

gpt-oss has layers that see a window only: a cached sequence cannot be cut, so a shared beginning is no hit there.

## Peak use against chunk

![Peak use against chunk](pictures/peak-against-chunk.svg)

The machine of the field case, 17.76 GiB of working set: a chunk that goes over the line is refused before anything is allocated. The third line is the same model where attention is not
fused and memory is taken while a step runs: there 398 tokens crashed and 256 held.

## Chunk against memory

![Chunk against memory](pictures/chunk-against-memory.svg)

No model is started below the left end of its line. First comes a context, then half of a pool, then a good chunk, then the rest of the pool, then larger chunks.

## Eight hours of new prompts

500 to 2000 tokens, two thirds of them new: the load under which exo's prefix cache grew until the machine died after two to four hours.

${table(HOURS_COLUMNS, hoursRows)}

![Cached prefixes on 24 GB](pictures/cached-24gb.svg)

![Cached prefixes on 64 GB](pictures/cached-64gb.svg)

Cached prefixes rise to the line and stay there: room is made by evict ops at the head of the record whose prompt needs it. On 24 GB the pool is full first; on 64 GB the context's sequences are,
one cached prefix each.

${describe(conditions)}.
`;
}

function table(columns: readonly string[], rows: ReadonlyArray<readonly string[]>): string {
  const row = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  return [row(columns), row(columns.map(() => '---')), ...rows.map(row)].join('\n');
}
