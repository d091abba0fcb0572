import type { Engine, ModelInfo, Vocabulary } from '../shared/engine.js';
import type { ForwardData } from './worker-messages.js';

export interface OpenedEngine {
  engine: Engine;
  vocabularyOf(model: ModelInfo): Vocabulary;
}

/** The engine that this pipeline runs on: the addon's, or the fake one in tests. Loaded lazily: tests need no addon. `modelPath`: the model to come, where it is known. */
export async function openEngine(fake: ForwardData['fake'], modelPath: string | null): Promise<OpenedEngine> {
  if (fake) {
    const [{ FakeEngine }, { FakeVocabulary }] = await Promise.all([
      import('./fake-engine.js'),
      import('./fake-vocabulary.js'),
    ]);
    return { engine: new FakeEngine(fake), vocabularyOf: () => new FakeVocabulary() };
  }
  const { NativeEngine } = await import('./native-engine.js');
  const { openVocabulary } = await import('../shared/native-addon.js');
  const { headLengthsOf } = await import('./model-file.js');
  const engine = new NativeEngine(modelPath === null ? null : headLengthsOf(modelPath));
  return { engine, vocabularyOf: (model) => openVocabulary(model.handle) };
}
