/** The addon's typed edge, as every thread uses it. */
import { NativeVocabulary } from './native-vocabulary.js';

export {
  ENGINE_VERSION,
  type HostReadings,
  type LoadedAddon,
  loadNativeAddon,
  type NativeAddon,
} from './addon-loader.js';
export { NativeVocabulary };

/**
 * The vocabulary of a model that some thread of this process has loaded. `handle`: ModelInfo.handle.
 * @throws EngineError engine_not_found, wrong_state when the model is gone.
 */
export function openVocabulary(handle: number): NativeVocabulary {
  return new NativeVocabulary(handle);
}
