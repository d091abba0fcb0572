/** What a worker of worker-threads.test.ts does: loads a model of its own and steps until it is told to stop, or for ever. */
import { parentPort, workerData } from 'node:worker_threads';
import { openVocabulary } from '../../src/shared/native-addon.js';
import { EngineUnderTest, tokensFrom } from './engine-under-test.js';

const { mode, handle } = workerData as { mode: 'generate' | 'for-ever' | 'vocabulary' | 'throw'; handle: number };

function generate(): number[] {
  const under = new EngineUnderTest('tiny-mamba');
  under.createContext();
  return under.generate(tokensFrom(1, 8), 5);
}

function stepForEver(): void {
  const under = new EngineUnderTest('tiny-mamba');
  under.createContext();
  for (let round = 0; ; round++) {
    under.generate(tokensFrom(round, 50), 3);
    if (round === 1) parentPort?.postMessage('running');
  }
}

switch (mode) {
  case 'generate':
    parentPort?.postMessage(generate());
    break;
  case 'for-ever':
    stepForEver();
    break;
  case 'vocabulary': {
    const vocabulary = openVocabulary(handle);
    const tokens: number[][] = [];
    for (let round = 0; round < 200; round++)
      tokens.push([...vocabulary.tokenize(`round ${round}, and on`, false, false)]);
    parentPort?.postMessage(tokens);
    break;
  }
  case 'throw':
    generate();
    throw new Error('the worker gives up with its engine open');
}
