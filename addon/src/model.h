// A model file in memory, shared by the forward worker that decodes with it and by threads that only use its
// vocabulary.
#pragma once

#include "llama.h"

#include <napi.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace plimsoll {

struct ModelOptions {
  std::string path;
  int gpu_layers = -1;
  std::vector<std::string> devices;
  bool use_mmap = true;
  bool use_mlock = false;
};

struct LoadedModel {
  LoadedModel(llama_model* loaded, ModelOptions load_options);
  ~LoadedModel();
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;

  llama_model* const model;
  const llama_vocab* const vocabulary;
  const ModelOptions options;
  const int vocabulary_size;
  // Where the end of a cached sequence can be removed and the rest used on: not where a state stands for all tokens
  // before it (recurrent, hybrid), nor where cells outside a sliding window are gone.
  const bool can_trim;
  const bool is_recurrent;
  // A GPU computes its layers, all or some.
  const bool on_gpu;
  // Tokens that end generation, and tokens that the model's author says never to sample.
  std::vector<llama_token> end_tokens;
  std::vector<llama_token> suppressed_tokens;
  int handle = 0;
};

ModelOptions ReadModelOptions(const Napi::Object& options);

// Returns false to cancel the load.
using LoadProgress = std::function<bool(float)>;

// Loads the file's weights. Throws AddonError model_not_found, model_invalid, model_unsupported, out_of_memory,
// cancelled.
std::shared_ptr<LoadedModel> LoadModel(const ModelOptions& options, const LoadProgress& progress);

// The same model with nothing allocated and without its vocabulary's texts, for measurements. The caller frees it.
llama_model* LoadModelShape(const LoadedModel& loaded);

// A scalar metadata value as text; empty when the model has none.
std::string ModelMetadata(const llama_model* model, const std::string& key);

// ModelInfo of src/shared/engine.ts.
Napi::Object DescribeModel(Napi::Env env, const LoadedModel& loaded);

} // namespace plimsoll
