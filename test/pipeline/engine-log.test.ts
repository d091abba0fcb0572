import t from 'tap';
import { STEP_STATUS } from '../../src/shared/step-output.js';
import { ask, startFakePipeline, textTokens } from '../support/fake-pipeline.js';

const LOGGED = [
  { step: 0, level: 2, text: 'loading' },
  { step: 0, level: 3, text: 'an odd tokenizer' },
  { step: 3, level: 4, text: 'device lost' },
  { step: 5, level: 2, text: 'better now' },
];

/** Lines of the engine, and of the failed step, in the order in which they are logged; `until` resolves when one matches. */
function listen() {
  const lines: string[] = [];
  let check = () => {};
  return {
    lines,
    log: (level: string, message: string) => {
      if (/^engine: |^a step failed/.test(message)) lines.push(`${level} ${message}`);
      check();
    },
    until: (pattern: RegExp) =>
      new Promise<void>((resolve) => {
        check = () => {
          if (lines.some((line) => pattern.test(line))) resolve();
        };
        check();
      }),
  };
}

t.test('the engine is heard when it is loaded, when a step failed, and when there is nothing to do', async (t) => {
  const { lines, log, until } = listen();
  const fake = { logAtStep: LOGGED, failAtStep: [{ step: 3, status: STEP_STATUS.failed }] };
  const pipeline = await startFakePipeline(fake, { logLevel: 'debug' }, { log });
  t.teardown(() => pipeline.close(0));
  t.strictSame(lines, ['debug engine: loading', 'warn engine: an odd tokenizer']);
  await ask(pipeline, textTokens('hello'), { maxTokens: 20 });
  await until(/better now/);
  t.strictSame(lines[2], 'error engine: device lost', 'the reason stands before what came of it');
  t.match(lines[3], /^error a step failed/);
  t.strictSame(lines.slice(4), ['debug engine: better now']);
});

t.test('lines for debugging stay where they are when nobody reads them', async (t) => {
  const { lines, log, until } = listen();
  const logAtStep = [...LOGGED.filter(({ step }) => step !== 3), { step: 6, level: 3, text: 'last' }];
  const pipeline = await startFakePipeline({ logAtStep }, {}, { log });
  t.teardown(() => pipeline.close(0));
  await ask(pipeline, textTokens('hello'), { maxTokens: 20 });
  await until(/last/);
  t.strictSame(lines, ['warn engine: an odd tokenizer', 'warn engine: last']);
});

t.test('a start that fails says why once: the engine is heard for debugging only', async (t) => {
  const { lines, log } = listen();
  const logAtStep = [{ step: 0, level: 4, text: 'tensor data is not within the file bounds' }];
  const fake = { logAtStep, loadError: 'model_invalid' } as const;
  await t.rejects(startFakePipeline(fake, { logLevel: 'debug' }, { log }));
  t.strictSame(lines, ['debug engine: tensor data is not within the file bounds']);
});
