/**
 * Every number of the load line, and where it comes from. *Derived*: follows from an allocation rule of the engine or from
 * arithmetic. *Measured*: seen on real machines. *Chosen*: a judgement. docs/memory.md repeats this list with the reasoning.
 */
export const MIB = 1024 * 1024;
export const GIB = 1024 * MIB;

/** Attention bytes a prompt token needs for each context token and query head: scores, softmax and two copies of both in fp32, where
 *  attention is not fused. Derived from that list; only a seed, the probe replaces it by what it measures. */
export const ACTIVATION_BYTES_PER_TOKEN_CONTEXT_HEAD = 32;
/** Share of headroom that one prompt chunk may use where memory is allocated while it runs. Measured in the field on a 24 GB Mac:
 *  0.48 held and 0.72 crashed. */
export const PREFILL_SAFETY_FRACTION = 0.6;
/** Below this a prefill is too slow to be worth starting on a GPU: on an H200 half a chunk costs a quarter of the speed. Chosen. */
export const MIN_CHUNK_TOKENS = 256;
/** Smallest KV pool worth making when the context length is unknown. Chosen. */
export const MIN_POOL_TOKENS = 256;
/** A private-cache pool larger than this multiple of the running set's contexts helps nobody: the rest stays as prefill headroom. Chosen. */
export const POOL_SLACK = 1.25;
/** First size of a private cache that grows by doubling. Derived from the allocator that has this rule. */
export const BASE_SPAN_TOKENS = 4096;
/** Caches that exist besides the running requests' own where caches are made per request: the step in flight and one finished
 *  cache. Derived from the overlap of two steps. */
export const SPARE_CACHES = 2;

/** Prompt tokens, context and smallest acceptable result of the start-up probe: small enough to be safe before anything is
 *  known. Chosen. */
export const PROBE_CHUNK_TOKENS = 128;
export const PROBE_CONTEXT_TOKENS = 2048;
export const PROBE_FLOOR_TOKENS = 32;
/** The probe stops to grow the running set when less than this is left. Chosen: about one step's transient of a 30B model. */
export const PROBE_STOP_MARGIN_BYTES = 256 * MIB;
/** A transient below this is noise of the allocator, not a measurement. Measured: readings jitter by some hundred kB. */
export const PROBE_MIN_TRANSIENT_BYTES = MIB;

/** The engine pads a stream's or a pool's cells to this. Derived from llama.cpp's context code. */
export const CELL_PADDING_TOKENS = 256;
/** Share of the limit that the plan leaves free. Chosen: the working set must stay below 97 % of the limit, and a reading can be
 *  one sample interval old; 0.18 GiB of 17.76 (1 %) crashed in the field and 0.33 GiB (1.9 %) held. */
export const MARGIN_FRACTION = 0.04;
/** Least margin: readings of small limits jitter by as much. Chosen. */
export const MIN_MARGIN_BYTES = 20 * MIB;
/** Most of that share: readings of large machines do not jitter in proportion. Chosen. */
export const MAX_SHARE_MARGIN_BYTES = 2 * GIB;
/** Growth of the process beside the engine after the plan was made (JavaScript heaps of three threads, request text, logs) where
 *  it shares memory with the device. Measured about 20 MB after an hour of chat; chosen with room. */
export const HOST_GROWTH_BYTES = 32 * MIB;
/** What a discrete GPU's backend takes at run time and no measurement before it shows (pools, cuBLAS). Measured 12 to 76 MB on an
 *  H200; the probe replaces it. */
export const DISCRETE_RUNTIME_EXTRA_BYTES = 96 * MIB;

/** Share of the device limit that weights and KV may take where the transient of a prompt step is only estimated and
 *  `--mem-fraction-static` does not say. Chosen. An engine whose compute memory is counted to the byte needs no such share. */
export const DEFAULT_MEM_FRACTION = 0.9;
/** An automatic context is at least this where the model and the memory allow it. Chosen: a coding agent's system prompt and some
 *  files; 2048 and 4096 defaults are what users of other servers complain about. */
export const AUTO_CONTEXT_TOKENS = 8192;
/** Beyond that an automatic context takes at most this share of what is free: one request may not have the whole machine unless
 *  the user says so. Chosen. */
export const AUTO_CONTEXT_SHARE = 0.5;
/** And on a CPU at most this. Chosen: a larger model reads some 100 prompt tokens a second there, so more is minutes of prefill, and every
 *  byte of it is zeroed when the context is made. */
export const AUTO_CONTEXT_MOST_CPU_TOKENS = 32_768;
/** An automatic context below this serves nobody: refuse instead. Chosen: one chat turn and its answer. */
export const MIN_CONTEXT_TOKENS = 512;
/** Context a typical request really uses: the shared pool holds this much for each running request. Chosen after chat and agent
 *  traffic of 500 to 2000 tokens; the elastic plan grows the pool when it is not enough. */
export const TYPICAL_SPAN_TOKENS = 2048;
/** A shared pool admits no more requests than leave each this much. Chosen. */
export const MIN_SPAN_TOKENS = 512;
/** Streams of a longer span are mostly empty, and a long request beside short ones makes unequal batches that private streams
 *  split: beyond this `auto` takes the shared pool. Chosen. */
export const LONG_SPAN_TOKENS = 16384;
/** `auto` takes private streams where their full spans fit into this share of what is free. Chosen: they are 1.1 to 1.6 times
 *  faster in decode, but hold memory that is mostly empty. */
export const PRIVATE_SHARE = 0.5;

/** On a CPU, private streams take at most this by themselves. Chosen: making a context zeroes its pages at about 3 GB/s, and a start should
 *  stay around a second. */
export const PRIVATE_MOST_CPU_BYTES = 2 * GIB;

/** Bounds on an automatic running cap, whatever the memory. Chosen: past them each request is slower than it is worth. A CPU
 *  decodes in one go what its cores can, a GPU is still gaining at 64. */
export const RUNNING_BOUND_DISCRETE_GPU = 64;
export const RUNNING_BOUND_UNIFIED_GPU = 16;
export const RUNNING_BOUND_CPU_PER_CORE = 4;
export const RUNNING_BOUND_CPU_MIN = 8;
export const RUNNING_BOUND_CPU_MAX = 32;

/** Chunk sizes to choose from, best first, and those that are better than not starting at all. Measured: an H200 gives 8.5k prompt
 *  tokens/s at 128, 12.6k at 256, 15.8k at 512, 17.4k at 1024, 17.8k at 2048; a CPU is flat from 256 up, loses 5 % at
 *  128 and 15 % at 64 (`llama-bench -ub`), where a prompt's end is a fragment of a tile besides. */
export const CHUNK_LADDER_GPU: readonly number[] = [2048, 1024, 512, 256];
export const CHUNK_LADDER_CPU: readonly number[] = [512, 256, 128];
export const CHUNKS_LAST_RESORT: readonly number[] = [64, 32];
/** A GPU's chunk reaches this before its pool is more than half of what it wants. Chosen: from 256 to 512 an H200 gains a quarter of
 *  its prompt speed, after that a tenth. */
export const GOOD_CHUNK_GPU_TOKENS = 512;
/** And a CPU's this. Chosen: where its speed is flat. */
export const GOOD_CHUNK_CPU_TOKENS = 256;

/** Largest fraction worth suggesting. Chosen. */
export const MAX_SUGGESTED_FRACTION = 0.99;
