// A llama_context with everything that lives and dies with it: engine threads, the batch, the sequences' state.
#pragma once

#include "cell-counter.h"
#include "llama.h"
#include "model.h"
#include "sequence.h"

#include <napi.h>

#include <memory>
#include <string>
#include <vector>

namespace plimsoll {

// ContextSpec of src/shared/engine.ts.
struct ContextSpec {
  bool is_shared = true;
  int sequences = 1;
  // Of the whole pool (shared) or of each stream (private).
  int cells = 0;
  int batch_tokens = 0;
  int ubatch_tokens = 0;
  ggml_type key_type = GGML_TYPE_F16;
  ggml_type value_type = GGML_TYPE_F16;
  llama_flash_attn_type flash_attention = LLAMA_FLASH_ATTN_TYPE_AUTO;
  int threads = 1;
  int prompt_threads = 1;
  // Idle sequences that may be computed along in one gap between decoding ones (Step::BridgeGap); −1: what suits the
  // device.
  int bridged_gap = -1;
};

// Throws invalid_argument for anything missing, of a wrong type, or out of the engine's range.
ContextSpec ReadContextSpec(const Napi::Object& given);

// Throws invalid_argument for what the engine would meet with an assertion for this model.
void CheckContextSpec(const ContextSpec& spec, const llama_model* model);

llama_context_params EngineContextParameters(const ContextSpec& spec);

// llama_init_from_model with the reason of a failure: out_of_memory or invalid_argument.
llama_context* MakeEngineContext(llama_model* model, const llama_context_params& parameters);

// Word that the engine polls while it computes; null until one is set.
struct AbortFlag {
  const int32_t* word = nullptr;
};

class Context {
public:
  Context(std::shared_ptr<LoadedModel> loaded, const ContextSpec& spec, AbortFlag* abort_flag);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // Engine threads for the next decode: the given number, or where it is 0 the spec's, by whether the batch is all
  // decodes.
  void UseThreads(int threads, bool decodes_only);

  // Caches that the engine keeps apart: one for all, or one for each sequence.
  uint32_t StreamCount() const { return spec.is_shared ? 1 : static_cast<uint32_t>(spec.sequences); }

  const std::shared_ptr<LoadedModel> loaded;
  const ContextSpec spec;
  llama_context* const engine;
  llama_memory_t const memory;
  llama_batch batch;
  std::vector<Sequence> sequences;
  CellCounter cells;
  // Cells of the pool, or of one stream, as the engine rounded them.
  int rounded_cells;
  // Longest gap between decoding sequences that a step bridges; 0: none.
  const int bridged_gap;
  // Decodes and prompts are computed apart (Step::BuildBatch).
  const bool separates_prompts;
  // A copy between private streams is carried out by the next decode only; until then its cells hold old bytes.
  bool has_pending_copy = false;

private:
  void AttachThreadPool();

  ggml_threadpool_t thread_pool_ = nullptr;
  void (*free_thread_pool_)(ggml_threadpool_t) = nullptr;
  int pool_threads_ = 0;
  int chosen_threads_ = 0;
};

} // namespace plimsoll
