/** One pipeline, one client: every task with drafts and without, in turns. Arguments: model file, rounds, output tokens. Reports TrialResult. */
import { startPipeline } from '../../src/main/start-pipeline.js';
import { parseConfig } from '../../src/shared/config.js';
import type { SchedulerGauge } from '../../src/shared/gauges-layout.js';
import { openVocabulary } from '../../src/shared/native-addon.js';
import { GREEDY_SAMPLING } from '../../src/shared/sampling.js';
import { report } from '../measure/trial.js';
import { TASKS } from './tasks.js';

export interface Turn {
  task: string;
  withDrafts: number;
  without: number;
  draftedTokens: number;
  acceptedDraftTokens: number;
  isSameAnswer: boolean;
}

interface Answer {
  tokens: number[];
  tokensPerSecond: number;
}

const [modelPath, rounds, outputTokens] = process.argv.slice(2);
const pipeline = await startPipeline({ config: parseConfig(), modelPath });
const vocabulary = openVocabulary(pipeline.model.handle);

/** Tokens a second from the first token to the last: the prompt is the same for both. */
function answer(prompt: Int32Array, noDrafts: boolean): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const tokens: number[] = [];
    let firstMs = 0;
    pipeline.submit(
      {
        promptTokens: prompt,
        sampling: { ...GREEDY_SAMPLING, maxTokens: Number(outputTokens), ignoreEos: true },
        noPrefixCache: true,
        noDrafts,
      },
      {
        token: ({ token }) => {
          if (tokens.length === 0) firstMs = performance.now();
          tokens.push(token);
        },
        finished: () => {
          const seconds = (performance.now() - firstMs) / 1000;
          resolve({ tokens, tokensPerSecond: (tokens.length - 1) / seconds });
        },
        failed: reject,
      },
    );
  });
}

const count = (field: SchedulerGauge) => pipeline.schedulerGauges()[field];

async function turn(task: string, prompt: Int32Array, draftsFirst: boolean): Promise<Turn> {
  const before = { drafted: count('draftedTokens'), accepted: count('acceptedDraftTokens') };
  const first = await answer(prompt, !draftsFirst);
  const second = await answer(prompt, draftsFirst);
  const [drafts, plain] = draftsFirst ? [first, second] : [second, first];
  return {
    task,
    withDrafts: drafts.tokensPerSecond,
    without: plain.tokensPerSecond,
    draftedTokens: count('draftedTokens') - before.drafted,
    acceptedDraftTokens: count('acceptedDraftTokens') - before.accepted,
    isSameAnswer: String(drafts.tokens) === String(plain.tokens),
  };
}

const turns: Turn[] = [];
for (let round = 0; round < Number(rounds); round++) {
  for (const { name, text } of TASKS) {
    const chat = `<|im_start|>user\n${text}<|im_end|>\n<|im_start|>assistant\n`;
    turns.push(await turn(name, vocabulary.tokenize(chat, true, true), round % 2 === 0));
  }
}
await pipeline.close(0);
report(turns);
