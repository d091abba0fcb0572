#include "context.h"

#include "errors.h"
#include "heap-trim.h"
#include "log-queue.h"
#include "short-slices.h"

#include <algorithm>
#include <cstring>

namespace plimsoll {
namespace {

// The engine keeps some 50 bytes of bookkeeping a cell on the host, even for a measurement. Chosen: 64 sequences of
// 128k tokens.
constexpr int64_t kCellsMax = int64_t{1} << 23;
// Chosen: the largest that a throughput curve has ever asked for is 4096 (docs: prefill by n_ubatch).
constexpr int kBatchTokensMax = 1 << 20;
// ggml's own limit (GGML_MAX_N_THREADS).
constexpr int kThreadsMax = 512;

// Measured on an H200 with a 4B model: another computation beside the first takes 2.7 ms or more, another row in it
// 0.12 ms. Chosen with room to spare: other models and devices have other ratios, of the same order.
constexpr int kBridgedGapOnGpu = 16;

int ReadInt(const Napi::Object& given, const char* name, int least, int most) {
  Napi::Value value = given.Get(name);
  double number = value.IsNumber() ? value.As<Napi::Number>().DoubleValue() : -1e300;
  if (!(number >= least && number <= most) || number != static_cast<double>(static_cast<int64_t>(number))) {
    throw AddonError("invalid_argument", std::string("the context's ") + name + " must be a whole number from " +
                                             std::to_string(least) + " to " + std::to_string(most));
  }
  return static_cast<int>(number);
}

std::string ReadName(const Napi::Object& given, const char* name) {
  Napi::Value value = given.Get(name);
  if (!value.IsString())
    throw AddonError("invalid_argument", std::string("the context's ") + name + " must be a name");
  return value.As<Napi::String>().Utf8Value();
}

ggml_type ReadKvType(const Napi::Object& given, const char* name) {
  std::string type = ReadName(given, name);
  if (type == "f16")
    return GGML_TYPE_F16;
  if (type == "q8_0")
    return GGML_TYPE_Q8_0;
  if (type == "q4_0")
    return GGML_TYPE_Q4_0;
  if (type == "f32")
    return GGML_TYPE_F32;
  if (type == "bf16")
    return GGML_TYPE_BF16;
  throw AddonError("invalid_argument", std::string("the context's ") + name + " cannot be " + type);
}

llama_flash_attn_type ReadFlashAttention(const Napi::Object& given) {
  std::string mode = ReadName(given, "flashAttention");
  if (mode == "auto")
    return LLAMA_FLASH_ATTN_TYPE_AUTO;
  if (mode == "on")
    return LLAMA_FLASH_ATTN_TYPE_ENABLED;
  if (mode == "off")
    return LLAMA_FLASH_ATTN_TYPE_DISABLED;
  throw AddonError("invalid_argument", "the context's flashAttention must be auto, on or off");
}

// Head lengths that a quantized cache must hold in whole blocks; models state them, else they follow from the
// embedding.
void CheckBlocks(const llama_model* model, ggml_type type, const char* which) {
  if (!ggml_is_quantized(type))
    return;
  std::string architecture = ModelMetadata(model, "general.architecture");
  int heads = std::max(1, llama_model_n_head(model));
  int64_t block = ggml_blck_size(type);
  for (const std::string& key : {std::string(which) + "_length", std::string(which) + "_length_swa"}) {
    std::string stated = ModelMetadata(model, architecture + ".attention." + key);
    // Most models have one length of heads, and say nothing of another in their windows.
    if (stated.empty() && key != std::string(which) + "_length")
      continue;
    int64_t length = stated.empty() ? llama_model_n_embd(model) / heads : std::strtoll(stated.c_str(), nullptr, 10);
    if (length % block != 0) {
      throw AddonError("invalid_argument", std::string("a ") + ggml_type_name(type) +
                                               " KV cache needs heads of a multiple of " + std::to_string(block) +
                                               "; this model's have " + std::to_string(length));
    }
  }
}

// On a CPU a row costs about as much in a batch as alone, so there is nothing to win. Where ends cannot be removed, the
// extra token would stay.
int BridgedGap(const ContextSpec& spec, const LoadedModel& loaded) {
  if (spec.is_shared || !loaded.can_trim)
    return 0;
  if (spec.bridged_gap >= 0)
    return spec.bridged_gap;
  return loaded.on_gpu ? kBridgedGapOnGpu : 0;
}

// A CPU's flash attention works in tiles of 64 tokens, all of which look at the cells of each: one decode among a
// prompt's tokens makes its whole tile look at another conversation, and private streams leave a prompt of 64 with 63
// tokens, which get no tile at all. Measured with 16 KV heads of 128, three decodes at 1,500 cells beside a chunk of
// 64: 287 instead of 643 ms (shared pool), 250 instead of 562 ms (private streams).
bool SeparatesPrompts(const ContextSpec& spec, const LoadedModel& loaded) {
  return !loaded.on_gpu && spec.flash_attention != LLAMA_FLASH_ATTN_TYPE_DISABLED;
}

bool OnAbortPoll(void* data) {
  const int32_t* word = static_cast<const AbortFlag*>(data)->word;
  return word != nullptr && __atomic_load_n(word, __ATOMIC_RELAXED) != 0;
}

llama_context_params WithAbortFlag(const ContextSpec& spec, AbortFlag* flag) {
  llama_context_params parameters = EngineContextParameters(spec);
  parameters.abort_callback = OnAbortPoll;
  parameters.abort_callback_data = flag;
  return parameters;
}

} // namespace

ContextSpec ReadContextSpec(const Napi::Object& given) {
  ContextSpec spec;
  std::string layout = ReadName(given, "layout");
  if (layout != "shared" && layout != "private")
    throw AddonError("invalid_argument", "the context's layout must be shared or private");
  spec.is_shared = layout == "shared";
  spec.sequences = ReadInt(given, "sequences", 1, static_cast<int>(llama_max_parallel_sequences()));
  spec.cells = ReadInt(given, "cells", 1, static_cast<int>(kCellsMax));
  spec.batch_tokens = ReadInt(given, "batchTokens", 1, kBatchTokensMax);
  spec.ubatch_tokens = ReadInt(given, "ubatchTokens", 1, kBatchTokensMax);
  spec.key_type = ReadKvType(given, "keyType");
  spec.value_type = ReadKvType(given, "valueType");
  spec.flash_attention = ReadFlashAttention(given);
  spec.threads = ReadInt(given, "threads", 1, kThreadsMax);
  spec.prompt_threads = ReadInt(given, "promptThreads", 1, kThreadsMax);
  if (given.Has("bridgedGap"))
    spec.bridged_gap = ReadInt(given, "bridgedGap", 0, spec.sequences);
  if (!spec.is_shared && static_cast<int64_t>(spec.cells) * spec.sequences > kCellsMax) {
    throw AddonError("invalid_argument",
                     "the context's cells times its sequences must be at most " + std::to_string(kCellsMax));
  }
  if (spec.batch_tokens < spec.ubatch_tokens) {
    throw AddonError("invalid_argument", "the context's batchTokens must be at least its ubatchTokens");
  }
  if (ggml_is_quantized(spec.value_type) && spec.flash_attention == LLAMA_FLASH_ATTN_TYPE_DISABLED) {
    throw AddonError("invalid_argument",
                     "a quantized value cache needs flash attention; set flashAttention to auto or on");
  }
  return spec;
}

void CheckContextSpec(const ContextSpec& spec, const llama_model* model) {
  std::string architecture = ModelMetadata(model, "general.architecture");
  if (llama_model_has_encoder(model) || !llama_model_has_decoder(model) || llama_model_is_diffusion(model) ||
      ModelMetadata(model, architecture + ".attention.causal") == "false") {
    throw AddonError("model_unsupported", "a " + architecture + " model does not generate text token by token");
  }
  CheckBlocks(model, spec.key_type, "key");
  CheckBlocks(model, spec.value_type, "value");
}

llama_context_params EngineContextParameters(const ContextSpec& spec) {
  llama_context_params parameters = llama_context_default_params();
  parameters.n_ctx =
      static_cast<uint32_t>(spec.is_shared ? spec.cells : ((spec.cells + 255) / 256 * 256) * spec.sequences);
  parameters.n_batch = static_cast<uint32_t>(spec.batch_tokens);
  parameters.n_ubatch = static_cast<uint32_t>(spec.ubatch_tokens);
  parameters.n_seq_max = static_cast<uint32_t>(spec.sequences);
  // One output a sequence and step. Fewer than n_seq_max would trip an assertion; more would only cost compute memory.
  parameters.n_outputs_max = static_cast<uint32_t>(spec.sequences);
  parameters.n_threads = spec.threads;
  parameters.n_threads_batch = spec.prompt_threads;
  parameters.type_k = spec.key_type;
  parameters.type_v = spec.value_type;
  parameters.flash_attn_type = spec.flash_attention;
  parameters.kv_unified = spec.is_shared;
  parameters.no_perf = true;
  parameters.offload_kqv = true;
  parameters.op_offload = true;
  // Cells outside the window are dropped: that is the memory the model's author saved, and why such a model cannot be
  // trimmed.
  parameters.swa_full = false;
  return parameters;
}

llama_context* MakeEngineContext(llama_model* model, const llama_context_params& parameters) {
  LogCapture log;
  llama_context* context = llama_init_from_model(model, parameters);
  if (context != nullptr)
    return context;
  std::string reason = log.problems().empty() ? "the engine gave no reason" : log.problems().back();
  for (const char* prefix : {"llama_init_from_model: failed to initialize the context: ", "llama_init_from_model: "}) {
    if (reason.rfind(prefix, 0) == 0)
      reason = reason.substr(std::strlen(prefix));
  }
  bool is_memory = reason.find("alloc") != std::string::npos || reason.find("reserve") != std::string::npos ||
                   reason.find("memory module") != std::string::npos;
  if (is_memory)
    throw AddonError("out_of_memory", "a context of this size does not fit: " + reason);
  throw AddonError("invalid_argument", "the engine refuses this context: " + reason);
}

Context::Context(std::shared_ptr<LoadedModel> model, const ContextSpec& context_spec, AbortFlag* abort_flag)
    : loaded(std::move(model)), spec(context_spec),
      engine(MakeEngineContext(loaded->model, WithAbortFlag(context_spec, abort_flag))),
      memory(llama_get_memory(engine)), batch(llama_batch_init(context_spec.batch_tokens, 0, 1)),
      sequences(context_spec.sequences), cells(context_spec.sequences, context_spec.is_shared),
      rounded_cells(static_cast<int>(llama_n_ctx_seq(engine))), bridged_gap(BridgedGap(context_spec, *loaded)),
      separates_prompts(SeparatesPrompts(context_spec, *loaded)) {
  AttachThreadPool();
}

Context::~Context() {
  llama_batch_free(batch);
  llama_free(engine);
  if (thread_pool_ != nullptr)
    free_thread_pool_(thread_pool_);
  TrimHeap();
}

// Without a pool of its own the engine starts and ends its threads at every decode.
void Context::AttachThreadPool() {
  ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  if (cpu == nullptr)
    return;
  ggml_backend_reg_t registry = ggml_backend_dev_backend_reg(cpu);
  auto* make = reinterpret_cast<ggml_threadpool_t (*)(ggml_threadpool_params*)>(
      ggml_backend_reg_get_proc_address(registry, "ggml_threadpool_new"));
  free_thread_pool_ = reinterpret_cast<void (*)(ggml_threadpool_t)>(
      ggml_backend_reg_get_proc_address(registry, "ggml_threadpool_free"));
  if (make == nullptr || free_thread_pool_ == nullptr)
    return;
  pool_threads_ = std::max(spec.threads, spec.prompt_threads);
  ggml_threadpool_params parameters = ggml_threadpool_params_default(pool_threads_);
  // Between two decodes the threads sleep: JavaScript and the sampler need the cores then.
  parameters.poll = 0;
  AskForShortSlices();
  thread_pool_ = make(&parameters);
  if (thread_pool_ != nullptr)
    llama_attach_threadpool(engine, thread_pool_, nullptr);
}

void Context::UseThreads(int threads, bool decodes_only) {
  if (threads > 0)
    chosen_threads_ = threads;
  // The engine takes its "batch" number for any decode of more than one token, so several sequences' single tokens
  // would run with the prompt's threads: both are set to what fits this batch.
  int wanted = chosen_threads_ > 0 ? chosen_threads_ : decodes_only ? spec.threads : spec.prompt_threads;
  if (thread_pool_ != nullptr)
    wanted = std::min(wanted, pool_threads_);
  llama_set_n_threads(engine, wanted, wanted);
}

} // namespace plimsoll
