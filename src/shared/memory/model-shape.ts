import type { ModelInfo } from '../engine.js';
import type { GgufHeader } from './gguf-header.js';
import type { PlanModel } from './plan-types.js';

/** What the analytic cost model needs to know of a model. Tokens, elements, bytes. */
export interface ModelShape {
  architecture: string;
  name: string;
  layerCount: number;
  embeddingLength: number;
  feedForwardLength: number;
  /** 0: no experts. */
  expertUsedCount: number;
  expertFeedForwardLength: number;
  queryHeadCount: number;
  /** KV heads of each layer; 0 where a layer caches none. */
  kvHeads: readonly number[];
  keyLength: number;
  valueLength: number;
  vocabularySize: number;
  trainContextTokens: number;
  /** 0: none. */
  slidingWindowTokens: number;
  /** Which layers keep a window only. */
  slidingLayers: readonly boolean[];
  /** Recurrent state of one sequence, all layers. */
  stateBytesPerSequence: number;
  weightsBytes: number;
}

/** A metadata value by its full key; undefined: the file does not have it. */
export type MetadataLookup = (key: string) => number | string | boolean | readonly number[] | undefined;

/** Every how many layers one sees everything, where the architecture fixes it. Derived from the published model definitions. */
const SLIDING_PERIOD: Readonly<Record<string, number>> = {
  gemma2: 2,
  gemma3: 6,
  gemma3n: 5,
  'gpt-oss': 2,
  cohere2: 4,
  olmo2: 4,
  exaone4: 4,
  llama4: 4,
};

/** @throws RangeError when a needed field is missing or makes no sense. */
export function shapeOf(lookup: MetadataLookup, vocabularySize: number, weightsBytes: number): ModelShape {
  const architecture = String(lookup('general.architecture') ?? '');
  if (architecture === '') throw new RangeError('the file does not name its architecture');
  const field = (name: string) => lookup(`${architecture}.${name}`);
  const number = (name: string, otherwise: number): number => {
    const value = field(name);
    const first = typeof value === 'object' ? Math.max(...value) : Number(value ?? otherwise);
    return Number.isFinite(first) && first >= 0 ? first : otherwise;
  };
  const layerCount = number('block_count', 0);
  const embeddingLength = number('embedding_length', 0);
  // A header is a stranger's word: absurd sizes would only make loops long here and numbers wrong later.
  if (layerCount < 1 || layerCount > 10_000 || embeddingLength < 1 || embeddingLength > 1_000_000) {
    throw new RangeError(`a model of ${layerCount} layers, ${embeddingLength} wide`);
  }
  const queryHeadCount = number('attention.head_count', 0);
  const headLength = queryHeadCount > 0 ? Math.floor(embeddingLength / queryHeadCount) : 0;
  const isLatent = field('attention.key_length_mla') !== undefined;
  const window = number('attention.sliding_window', 0);
  return {
    architecture,
    name: String(lookup('general.name') ?? architecture),
    layerCount,
    embeddingLength,
    feedForwardLength: number('feed_forward_length', 0),
    expertUsedCount: number('expert_used_count', 0),
    expertFeedForwardLength: number('expert_feed_forward_length', number('feed_forward_length', 0)),
    queryHeadCount,
    kvHeads: kvHeadsOf(field, layerCount, queryHeadCount),
    keyLength: number('attention.key_length', headLength),
    // Latent attention caches one vector that is key and value at once.
    valueLength: isLatent ? 0 : number('attention.value_length', headLength),
    vocabularySize: vocabularySize || number('vocab_size', 0),
    trainContextTokens: number('context_length', 0),
    slidingWindowTokens: window,
    slidingLayers: slidingLayersOf(field, architecture, layerCount, window),
    stateBytesPerSequence: stateBytesOf(field, number, layerCount, queryHeadCount, embeddingLength),
    weightsBytes,
  };
}

export function shapeOfHeader(header: GgufHeader, weightsBytes: number): ModelShape {
  const vocabulary = header.arrayLengths.get('tokenizer.ggml.tokens') ?? 0;
  return shapeOf((key) => header.metadata.get(key), vocabulary, weightsBytes);
}

/** What a plan asks of it. */
export function planModelOf(shape: ModelShape): PlanModel {
  const { trainContextTokens, weightsBytes, slidingWindowTokens, stateBytesPerSequence } = shape;
  return { trainContextTokens, weightsBytes, canTrim: slidingWindowTokens === 0 && stateBytesPerSequence === 0 };
}

/** Of a loaded model. Its metadata has no arrays, so layers that differ are taken as alike. */
export function shapeOfModel(info: ModelInfo): ModelShape {
  return shapeOf((key) => info.metadata[key], info.vocabularySize, info.sizeBytes);
}

type Field = (name: string) => ReturnType<MetadataLookup>;

function kvHeadsOf(field: Field, layerCount: number, queryHeadCount: number): number[] {
  const value = field('attention.head_count_kv');
  const shared = Number(field('attention.shared_kv_layers') ?? 0);
  const interval = Number(field('full_attention_interval') ?? 0);
  return Array.from({ length: layerCount }, (_, layer) => {
    if (layer >= layerCount - shared) return 0;
    if (interval > 0 && (layer + 1) % interval !== 0) return 0;
    return Math.max(Number((typeof value === 'object' ? value[layer] : value) ?? queryHeadCount), 0);
  });
}

function slidingLayersOf(field: Field, architecture: string, layerCount: number, window: number): boolean[] {
  const pattern = field('attention.sliding_window_pattern');
  const period = typeof pattern === 'number' ? pattern : (SLIDING_PERIOD[architecture] ?? 0);
  return Array.from({ length: layerCount }, (_, layer) => {
    if (window === 0) return false;
    if (typeof pattern === 'object') return (pattern[layer] ?? 0) !== 0;
    return period > 0 && layer % period < period - 1;
  });
}

/** Convolution and scan state in fp32, for each layer that has one. */
function stateBytesOf(
  field: Field,
  number: (name: string, otherwise: number) => number,
  layerCount: number,
  queryHeadCount: number,
  embeddingLength: number,
): number {
  const inner = number('ssm.inner_size', 0);
  const state = number('ssm.state_size', 0);
  const kernel = number('ssm.conv_kernel', 0);
  const shortConvolution = number('shortconv.l_cache', 0);
  const convolution = (kernel > 0 ? kernel - 1 : 0) * (inner + 2 * number('ssm.group_count', 0) * state);
  const perLayer = shortConvolution > 0 ? embeddingLength * (shortConvolution - 1) : convolution + state * inner;
  if (perLayer === 0) return 0;
  const heads = kvHeadsOf(field, layerCount, queryHeadCount);
  const isPure = field('attention.head_count_kv') === undefined && queryHeadCount === 0;
  const layers = isPure ? layerCount : heads.filter((count) => count === 0).length;
  return layers * perLayer * 4;
}
