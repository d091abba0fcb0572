/** What a step costs in time: a constant part, and parts by what it does. Microseconds. */
export interface StepSpeed {
  /** Reading the weights once, and launching the step. */
  baseMicros: number;
  /** One decoding sequence more. */
  decodeMicros: number;
  /** One prompt token more. */
  promptTokenMicros: number;
  /** One pair of a new token and a cell that it attends to. */
  attentionMicros: number;
  /** Moving a byte of a sequence out of a context or into one. */
  moveMicrosPerByte: number;
  /** Making a context. */
  createMicros: number;
}

export interface Chip {
  /** Bytes a second. */
  bandwidth: number;
  /** Operations a second in 16 bits, as prompts reach them. */
  operations: number;
}

/**
 * Bandwidths are Apple's and NVIDIA's published ones; operations are a rough half of the published peaks. Chosen: how fast a step is
 * decides how often memory is asked for, not how much, so nothing here needs to be exact.
 */
export const CHIPS = {
  m4: { bandwidth: 120e9, operations: 3.5e12 },
  'm4-pro': { bandwidth: 273e9, operations: 7e12 },
  'm4-max': { bandwidth: 546e9, operations: 14e12 },
  'm3-ultra': { bandwidth: 819e9, operations: 24e12 },
  'two-cores': { bandwidth: 20e9, operations: 0.1e12 },
} as const satisfies Readonly<Record<string, Chip>>;

export type ChipName = keyof typeof CHIPS;

/** Launching a step, whatever it does. Chosen. */
const LAUNCH_MICROS = 2_000;
/** A context of some hundred MiB, its pages committed. Chosen. */
const CREATE_MICROS = 80_000;

export interface SpeedInput {
  /** Bytes of weights that one token reads: all, or those of the experts it takes. */
  activeWeightsBytes: number;
  /** Parameters that one token goes through. */
  activeParameters: number;
  kvBytesPerToken: number;
  queryWidth: number;
  layers: number;
}

export function speedOf(chip: Chip, input: SpeedInput): StepSpeed {
  const kvReadMicros = (input.kvBytesPerToken / chip.bandwidth) * 1e6;
  const attentionOperations = 4 * input.queryWidth * input.layers;
  const promptTokenMicros = ((2 * input.activeParameters) / chip.operations) * 1e6;
  return {
    baseMicros: LAUNCH_MICROS + (input.activeWeightsBytes / chip.bandwidth) * 1e6,
    decodeMicros: promptTokenMicros,
    promptTokenMicros,
    attentionMicros: Math.max((attentionOperations / chip.operations) * 1e6, kvReadMicros / 64),
    // Out over the processor, and in again: each a copy.
    moveMicrosPerByte: (2 / chip.bandwidth) * 1e6,
    createMicros: CREATE_MICROS,
  };
}
