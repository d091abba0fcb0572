/** `make bench-speculation`: one client with drafts and without, in turns. Arguments: rounds (6), output tokens (128), model file (SmolLM2 Q4_0). */
import path from 'node:path';
import { conditions } from '../measure/machine.js';
import { publish } from '../measure/results.js';
import { formatNumber, formatSpread, median, spread } from '../measure/statistics.js';
import { runTrial } from '../measure/trial.js';
import { testModel } from '../peers/servers.js';
import { TASKS } from './tasks.js';
import type { Turn } from './trial.js';

const CORES = 2;
/** Asked for by the project, where a text does not repeat itself. */
const TARGET_RATIO = 0.98;

const trialScript = new URL('./trial.js', import.meta.url);
const [rounds = '6', outputTokens = '128', modelPath = testModel('smollm2-q4_0')] = process.argv.slice(2);

const where = conditions();
const turns: Turn[] = [];
for (let round = 0; round < Number(rounds); round += 2) {
  turns.push(...(await runTrial<Turn[]>(trialScript, { args: [modelPath, '2', outputTokens], cores: CORES })));
  process.stderr.write(`${turns.length} turns\n`);
}

const rows = TASKS.map(({ name }) => {
  const own = turns.filter(({ task }) => task === name);
  const sum = (field: 'draftedTokens' | 'acceptedDraftTokens') =>
    own.reduce((total, turn) => total + turn[field], 0) / own.length;
  return [
    name,
    `${formatSpread(spread(own.map(({ withDrafts, without }) => withDrafts / without)))} ×`,
    `${formatNumber(median(own.map(({ withDrafts }) => withDrafts)), 0)} tokens/s`,
    `${formatNumber(median(own.map(({ without }) => without)), 0)} tokens/s`,
    `${formatNumber(sum('acceptedDraftTokens'), 0)} of ${formatNumber(sum('draftedTokens'), 0)}`,
    `${own.filter(({ isSameAnswer }) => isSameAnswer).length} of ${own.length}`,
  ];
});

publish({
  name: 'speculation',
  title: 'Guessing ahead from the text so far',
  method:
    `One client, ${path.basename(modelPath)}, greedy, ${outputTokens} tokens an answer, through the real threads on at most ${CORES} cores; each answer with ` +
    `drafts and without (\`"speculative": false\`), in turns, on the same server. Tokens a second from the first token to the last. The ratio is with ` +
    `drafts to without; where a text does not repeat itself the project asks for at least ${TARGET_RATIO}. Median (least to most) of ${rounds} pairs, ` +
    `two to a process.`,
  conditions: where,
  columns: ['task', 'ratio', 'with drafts', 'without', 'drafts that were right', 'same answer'],
  rows,
  notes: [],
  trials: turns,
});
