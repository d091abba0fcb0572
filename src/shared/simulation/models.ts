import { kvBytesPerToken } from '../memory/kv-shape.js';
import type { ModelShape } from '../memory/model-shape.js';
import { CHIPS, type ChipName, type StepSpeed, speedOf } from './speed.js';

/** A model that need not be here. */
export interface SimulatedModel {
  shape: ModelShape;
  activeWeightsBytes: number;
  activeParameters: number;
  /** The end of a cached sequence can be removed. */
  canTrim: boolean;
}

interface Numbers {
  name: string;
  layers: number;
  width: number;
  feedForward: number;
  queryHeads: number;
  kvHeads: number;
  headLength: number;
  vocabulary: number;
  context: number;
  weightsBytes: number;
  activeParameters: number;
  experts?: { used: number; feedForward: number };
  activeShare?: number;
  window?: { tokens: number; period: number };
}

function model(n: Numbers): SimulatedModel {
  const window = n.window;
  return {
    shape: {
      architecture: 'simulated',
      name: n.name,
      layerCount: n.layers,
      embeddingLength: n.width,
      feedForwardLength: n.feedForward,
      expertUsedCount: n.experts?.used ?? 0,
      expertFeedForwardLength: n.experts?.feedForward ?? 0,
      queryHeadCount: n.queryHeads,
      kvHeads: new Array<number>(n.layers).fill(n.kvHeads),
      keyLength: n.headLength,
      valueLength: n.headLength,
      vocabularySize: n.vocabulary,
      trainContextTokens: n.context,
      slidingWindowTokens: window?.tokens ?? 0,
      slidingLayers: Array.from({ length: n.layers }, (_, i) =>
        window ? i % window.period < window.period - 1 : false,
      ),
      stateBytesPerSequence: 0,
      weightsBytes: n.weightsBytes,
    },
    activeWeightsBytes: n.weightsBytes * (n.activeShare ?? 1),
    activeParameters: n.activeParameters,
    canTrim: n.window === undefined,
  };
}

/** Shapes as the models' own config.json on the Hugging Face hub has them; weights as the files of that quantization have. */
export const MODELS = {
  /** Qwen/Qwen3-30B-A3B in four bits: the model of the field case on a 24 GB machine. */
  'qwen3-30b-a3b-4bit': model({
    name: 'Qwen3 30B-A3B, 4 bits',
    layers: 48,
    width: 2048,
    feedForward: 6144,
    queryHeads: 32,
    kvHeads: 4,
    headLength: 128,
    vocabulary: 151_936,
    context: 40_960,
    weightsBytes: 17.2e9,
    activeParameters: 3.3e9,
    experts: { used: 8, feedForward: 768 },
    activeShare: 0.11,
  }),
  /** meta-llama/Llama-3.1-8B-Instruct, Q4_K_M. */
  'llama-3.1-8b-q4': model({
    name: 'Llama 3.1 8B, Q4_K_M',
    layers: 32,
    width: 4096,
    feedForward: 14_336,
    queryHeads: 32,
    kvHeads: 8,
    headLength: 128,
    vocabulary: 128_256,
    context: 131_072,
    weightsBytes: 4.92e9,
    activeParameters: 8e9,
  }),
  /** Qwen/Qwen3-32B, Q4_K_M. */
  'qwen3-32b-q4': model({
    name: 'Qwen3 32B, Q4_K_M',
    layers: 64,
    width: 5120,
    feedForward: 25_600,
    queryHeads: 64,
    kvHeads: 8,
    headLength: 128,
    vocabulary: 151_936,
    context: 40_960,
    weightsBytes: 19.76e9,
    activeParameters: 32e9,
  }),
  /** meta-llama/Llama-3.3-70B-Instruct, Q4_K_M. */
  'llama-3.3-70b-q4': model({
    name: 'Llama 3.3 70B, Q4_K_M',
    layers: 80,
    width: 8192,
    feedForward: 28_672,
    queryHeads: 64,
    kvHeads: 8,
    headLength: 128,
    vocabulary: 128_256,
    context: 131_072,
    weightsBytes: 42.5e9,
    activeParameters: 70e9,
  }),
  /** openai/gpt-oss-120b, MXFP4: every other layer sees a window of 128 tokens, so cached ends cannot be cut. */
  'gpt-oss-120b-mxfp4': model({
    name: 'gpt-oss 120B, MXFP4',
    layers: 36,
    width: 2880,
    feedForward: 2880,
    queryHeads: 64,
    kvHeads: 8,
    headLength: 64,
    vocabulary: 201_088,
    context: 131_072,
    weightsBytes: 63.4e9,
    activeParameters: 5.1e9,
    experts: { used: 4, feedForward: 2880 },
    activeShare: 0.045,
    window: { tokens: 128, period: 2 },
  }),
  /** Qwen/Qwen3-235B-A22B, Q4_K_M. */
  'qwen3-235b-a22b-q4': model({
    name: 'Qwen3 235B-A22B, Q4_K_M',
    layers: 94,
    width: 4096,
    feedForward: 12_288,
    queryHeads: 64,
    kvHeads: 4,
    headLength: 128,
    vocabulary: 151_936,
    context: 40_960,
    weightsBytes: 142e9,
    activeParameters: 22e9,
    experts: { used: 8, feedForward: 1536 },
    activeShare: 0.095,
  }),
  /** Half of the layers of a 70B model in seven bits: the share of one of two 64 GB machines in exo's report, 31 GB. */
  'half-of-70b': model({
    name: 'half of a 70B model, 31 GB',
    layers: 40,
    width: 8192,
    feedForward: 28_672,
    queryHeads: 64,
    kvHeads: 8,
    headLength: 128,
    vocabulary: 128_256,
    context: 131_072,
    weightsBytes: 31e9,
    activeParameters: 35e9,
  }),
  /** Much KV and little arithmetic: 131 kB a token, 72 MB of weights; made to test memory limits with. */
  'fat-kv': model({
    name: 'fat-KV',
    layers: 16,
    width: 256,
    feedForward: 512,
    queryHeads: 16,
    kvHeads: 16,
    headLength: 128,
    vocabulary: 151_936,
    context: 32_768,
    weightsBytes: 72e6,
    activeParameters: 70e6,
  }),
} as const satisfies Readonly<Record<string, SimulatedModel>>;

export type ModelName = keyof typeof MODELS;

export function speedOn(chip: ChipName, { shape, activeWeightsBytes, activeParameters }: SimulatedModel): StepSpeed {
  return speedOf(CHIPS[chip], {
    activeWeightsBytes,
    activeParameters,
    kvBytesPerToken: kvBytesPerToken(shape, 'f16', 'f16'),
    queryWidth: shape.queryHeadCount * shape.keyLength,
    layers: shape.layerCount,
  });
}
