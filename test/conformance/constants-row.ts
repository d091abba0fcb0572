import {
  ACTIVATION_BYTES_PER_TOKEN_CONTEXT_HEAD,
  BASE_SPAN_TOKENS,
  MIN_CHUNK_TOKENS,
  MIN_POOL_TOKENS,
  POOL_SLACK,
  PREFILL_SAFETY_FRACTION,
  PROBE_CHUNK_TOKENS,
  PROBE_CONTEXT_TOKENS,
  PROBE_FLOOR_TOKENS,
  PROBE_MIN_TRANSIENT_BYTES,
  PROBE_STOP_MARGIN_BYTES,
  SPARE_CACHES,
} from '../../src/shared/memory/constants.js';
import type { Fields } from './vectors.js';

/** The constants by the names that vectors files use. */
export const CONSTANTS_OF_VECTORS: Fields = {
  act_bytes_per_token_ctx_per_q_head: ACTIVATION_BYTES_PER_TOKEN_CONTEXT_HEAD,
  prefill_safety_fraction: PREFILL_SAFETY_FRACTION,
  min_chunk_tokens: MIN_CHUNK_TOKENS,
  min_pool_tokens: MIN_POOL_TOKENS,
  pool_slack: POOL_SLACK,
  base_span_tokens: BASE_SPAN_TOKENS,
  spare_caches: SPARE_CACHES,
  probe_chunk_tokens: PROBE_CHUNK_TOKENS,
  probe_context_tokens: PROBE_CONTEXT_TOKENS,
  probe_floor_tokens: PROBE_FLOOR_TOKENS,
  probe_stop_margin_bytes: PROBE_STOP_MARGIN_BYTES,
  probe_min_transient_bytes: PROBE_MIN_TRANSIENT_BYTES,
};
