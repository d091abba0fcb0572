import type { Engine, ModelInfo, Vocabulary } from '../shared/engine.js';
import type { ForwardData } from './worker-messages.js';

export interface OpenedEngine {
  engine: Engine;
  vocabularyOf(model: ModelInfo): Vocabulary;
}

/** The engine that this pipeline runs on: the addon's, or the fake one in tests. Loaded lazily: tests need no addon. */
export async function openEngine(data: Pick<ForwardData, 'fake'>): Promise<OpenedEngine> {
  if (data.fake) {
    const [{ FakeEngine }, { FakeVocabulary }] = await Promise.all([
      import('./fake-engine.js'),
      import('./fake-vocabulary.js'),
    ]);
    return { engine: new FakeEngine(data.fake), vocabularyOf: () => new FakeVocabulary() };
  }
  const { NativeEngine } = await import('./native-engine.js');
  const { openVocabulary } = await import('../shared/native-addon.js');
  return { engine: new NativeEngine(), vocabularyOf: (model) => openVocabulary(model.handle) };
}
