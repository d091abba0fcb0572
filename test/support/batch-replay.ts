/** A pipeline's batch records once more, through an engine driven by hand: the same batches, so the same roundings. */
import { BATCH_HEADER } from '../../src/shared/batch-wire.js';
import type { ContextSpec } from '../../src/shared/engine.js';
import { SAMPLE_FLAG } from '../../src/shared/step-output.js';
import { CellBook } from './cell-book.js';
import type { DirectDecode } from './direct-decode.js';

export interface ReplayedRequest {
  /** Without the end-of-generation token. */
  tokens: number[];
  /** For every sampled token, all that the cells of its sequence held. */
  contexts: number[][];
}

export interface Replay {
  requests: Map<number, ReplayedRequest>;
  /** Sequences in the fullest batch. */
  widest: number;
}

/** Leaves the engine with a context of `spec` in which the replay has run. */
export function replay(direct: DirectDecode, spec: ContextSpec, records: readonly Int32Array[]): Replay {
  direct.createContext(spec);
  const book = new CellBook(spec.sequences, spec.layout);
  const requests = new Map<number, ReplayedRequest>();
  const of = (id: number) => {
    const request = requests.get(id) ?? { tokens: [], contexts: [] };
    requests.set(id, request);
    return request;
  };
  for (const record of records) {
    for (const { request, context } of book.follow(record)) of(request).contexts.push(context);
    const samples = direct.run(record);
    book.sampled(samples);
    for (const { request, token, flags } of samples) {
      if ((flags & SAMPLE_FLAG.endOfGeneration) === 0) of(request).tokens.push(token);
    }
  }
  return { requests, widest: Math.max(...records.map((record) => record[BATCH_HEADER.segmentCount])) };
}
