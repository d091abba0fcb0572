#include "model.h"

#include "backend.h"
#include "errors.h"
#include "load-error.h"

#include <cstdio>
#include <cstring>

namespace plimsoll {
namespace {

bool CanTrim(const llama_model* model) {
  return !llama_model_is_recurrent(model) && !llama_model_is_hybrid(model) && llama_model_n_swa(model) == 0;
}

llama_load_mode LoadMode(const ModelOptions& options) {
  if (options.use_mmap)
    return options.use_mlock ? LLAMA_LOAD_MODE_MMAP_MLOCK : LLAMA_LOAD_MODE_MMAP;
  return options.use_mlock ? LLAMA_LOAD_MODE_MLOCK : LLAMA_LOAD_MODE_NONE;
}

// Devices by name, null-terminated as the engine wants them. Naming the CPU means: no GPU.
std::vector<ggml_backend_dev_t> FindDevices(const std::vector<std::string>& names) {
  std::vector<ggml_backend_dev_t> found;
  for (const std::string& name : names) {
    ggml_backend_dev_t device = ggml_backend_dev_by_name(name.c_str());
    if (device == nullptr) {
      std::string known;
      for (size_t index = 0; index < ggml_backend_dev_count(); index++) {
        known += (index == 0 ? "" : ", ") + std::string(ggml_backend_dev_name(ggml_backend_dev_get(index)));
      }
      throw AddonError("invalid_argument", "there is no device named " + name + "; this engine has " + known);
    }
    if (ggml_backend_dev_type(device) != GGML_BACKEND_DEVICE_TYPE_CPU)
      found.push_back(device);
  }
  found.push_back(nullptr);
  return found;
}

// The engine uses every GPU that there is unless it is told which, or that no layer goes there.
bool UsesGpu(const ModelOptions& options) {
  if (options.gpu_layers == 0)
    return false;
  if (!options.devices.empty())
    return FindDevices(options.devices).front() != nullptr;
  for (size_t index = 0; index < ggml_backend_dev_count(); index++) {
    const enum ggml_backend_dev_type type = ggml_backend_dev_type(ggml_backend_dev_get(index));
    if (type == GGML_BACKEND_DEVICE_TYPE_GPU || type == GGML_BACKEND_DEVICE_TYPE_IGPU)
      return true;
  }
  return false;
}

struct ProgressState {
  const LoadProgress* progress;
  bool cancelled = false;
};

bool OnProgress(float fraction, void* data) {
  auto* state = static_cast<ProgressState*>(data);
  if (!(*state->progress)(fraction))
    state->cancelled = true;
  return !state->cancelled;
}

llama_model_params EngineParameters(const ModelOptions& options, std::vector<ggml_backend_dev_t>& devices) {
  llama_model_params parameters = llama_model_default_params();
  parameters.n_gpu_layers = options.gpu_layers;
  parameters.load_mode = LoadMode(options);
  if (!options.devices.empty())
    parameters.devices = devices.data();
  return parameters;
}

// A second vocabulary would take tens of megabytes and most of the time of the load; a measurement needs its size
// alone.
std::vector<llama_model_kv_override> WithoutVocabulary(const LoadedModel& loaded) {
  llama_model_kv_override tokenizer{};
  tokenizer.tag = LLAMA_KV_OVERRIDE_TYPE_STR;
  std::snprintf(tokenizer.key, sizeof tokenizer.key, "tokenizer.ggml.model");
  std::snprintf(tokenizer.val_str, sizeof tokenizer.val_str, "none");
  llama_model_kv_override size{};
  size.tag = LLAMA_KV_OVERRIDE_TYPE_INT;
  const std::string architecture = ModelMetadata(loaded.model, "general.architecture");
  std::snprintf(size.key, sizeof size.key, "%s.vocab_size", architecture.c_str());
  size.val_i64 = loaded.vocabulary_size;
  // The engine reads up to the first empty key.
  return {tokenizer, size, llama_model_kv_override{}};
}

void RefuseUnservable(const llama_model* model, const std::string& path) {
  if (llama_vocab_type(llama_model_get_vocab(model)) == LLAMA_VOCAB_TYPE_NONE) {
    throw AddonError("model_unsupported", path + " has no vocabulary, so it cannot be given text");
  }
}

} // namespace

LoadedModel::LoadedModel(llama_model* loaded, ModelOptions load_options)
    : model(loaded), vocabulary(llama_model_get_vocab(loaded)), options(std::move(load_options)),
      vocabulary_size(llama_vocab_n_tokens(vocabulary)), can_trim(CanTrim(loaded)),
      is_recurrent(llama_model_is_recurrent(loaded) || llama_model_is_hybrid(loaded)), on_gpu(UsesGpu(options)) {
  for (llama_token token = 0; token < vocabulary_size; token++) {
    if (llama_vocab_is_eog(vocabulary, token))
      end_tokens.push_back(token);
  }
  int32_t suppressed = 0;
  const llama_token* tokens = llama_vocab_get_suppress_tokens(vocabulary, &suppressed);
  for (int32_t index = 0; index < suppressed; index++) {
    if (tokens[index] >= 0 && tokens[index] < vocabulary_size)
      suppressed_tokens.push_back(tokens[index]);
  }
}

LoadedModel::~LoadedModel() {
  llama_model_free(model);
}

ModelOptions ReadModelOptions(const Napi::Object& given) {
  ModelOptions options;
  if (!given.Get("path").IsString())
    throw AddonError("invalid_argument", "loadModel needs options.path");
  options.path = given.Get("path").As<Napi::String>().Utf8Value();
  if (given.Get("gpuLayers").IsNumber())
    options.gpu_layers = given.Get("gpuLayers").As<Napi::Number>().Int32Value();
  if (given.Get("useMmap").IsBoolean())
    options.use_mmap = given.Get("useMmap").As<Napi::Boolean>().Value();
  if (given.Get("useMlock").IsBoolean())
    options.use_mlock = given.Get("useMlock").As<Napi::Boolean>().Value();
  if (given.Get("devices").IsArray()) {
    Napi::Array names = given.Get("devices").As<Napi::Array>();
    for (uint32_t index = 0; index < names.Length(); index++)
      options.devices.push_back(names.Get(index).ToString().Utf8Value());
  }
  return options;
}

std::shared_ptr<LoadedModel> LoadModel(const ModelOptions& options, const LoadProgress& progress) {
  CheckModelFile(options.path);
  std::vector<ggml_backend_dev_t> devices = FindDevices(options.devices);
  llama_model_params parameters = EngineParameters(options, devices);
  ProgressState state{&progress};
  parameters.progress_callback = OnProgress;
  parameters.progress_callback_user_data = &state;
  LogCapture log;
  llama_model* model = llama_model_load_from_file(options.path.c_str(), parameters);
  if (model == nullptr) {
    if (state.cancelled)
      throw AddonError("cancelled", "loading " + options.path + " was cancelled");
    throw ExplainLoadFailure(options.path, log);
  }
  auto loaded = std::make_shared<LoadedModel>(model, options);
  RefuseUnservable(model, options.path);
  loaded->handle = RegisterModel(loaded);
  return loaded;
}

llama_model* LoadModelShape(const LoadedModel& loaded) {
  const ModelOptions& options = loaded.options;
  std::vector<ggml_backend_dev_t> devices = FindDevices(options.devices);
  llama_model_params parameters = EngineParameters(options, devices);
  std::vector<llama_model_kv_override> overrides = WithoutVocabulary(loaded);
  parameters.kv_overrides = overrides.data();
  parameters.no_alloc = true;
  // With nothing allocated there is nothing to map.
  parameters.load_mode = LLAMA_LOAD_MODE_NONE;
  LogCapture log;
  llama_model* model = llama_model_load_from_file(options.path.c_str(), parameters);
  if (model == nullptr)
    throw ExplainLoadFailure(options.path, log);
  return model;
}

std::string ModelMetadata(const llama_model* model, const std::string& key) {
  int32_t length = llama_model_meta_val_str(model, key.c_str(), nullptr, 0);
  if (length < 0)
    return "";
  std::string text(static_cast<size_t>(length) + 1, '\0');
  llama_model_meta_val_str(model, key.c_str(), text.data(), text.size());
  text.resize(static_cast<size_t>(length));
  return text;
}

namespace {

Napi::Object AllMetadata(Napi::Env env, const llama_model* model) {
  Napi::Object metadata = Napi::Object::New(env);
  int32_t count = llama_model_meta_count(model);
  for (int32_t index = 0; index < count; index++) {
    int32_t length = llama_model_meta_key_by_index(model, index, nullptr, 0);
    if (length < 0)
      continue;
    std::string key(static_cast<size_t>(length) + 1, '\0');
    llama_model_meta_key_by_index(model, index, key.data(), key.size());
    key.resize(static_cast<size_t>(length));
    metadata.Set(key, ModelMetadata(model, key));
  }
  return metadata;
}

} // namespace

Napi::Object DescribeModel(Napi::Env env, const LoadedModel& loaded) {
  const llama_model* model = loaded.model;
  Napi::Object info = Napi::Object::New(env);
  char description[256] = "";
  llama_model_desc(model, description, sizeof description);
  info.Set("handle", loaded.handle);
  info.Set("description", description);
  info.Set("architecture", ModelMetadata(model, "general.architecture"));
  info.Set("sizeBytes", static_cast<double>(llama_model_size(model)));
  info.Set("parameterCount", static_cast<double>(llama_model_n_params(model)));
  info.Set("trainContextTokens", llama_model_n_ctx_train(model));
  info.Set("layerCount", llama_model_n_layer(model));
  info.Set("embeddingLength", llama_model_n_embd(model));
  info.Set("queryHeadCount", llama_model_n_head(model));
  info.Set("kvHeadCount", llama_model_n_head_kv(model));
  info.Set("vocabularySize", loaded.vocabulary_size);
  info.Set("slidingWindowTokens", llama_model_n_swa(model));
  info.Set("isRecurrent", Napi::Boolean::New(env, llama_model_is_recurrent(model)));
  info.Set("isHybrid", Napi::Boolean::New(env, llama_model_is_hybrid(model)));
  info.Set("hasEncoder", Napi::Boolean::New(env, llama_model_has_encoder(model)));
  info.Set("hasDecoder", Napi::Boolean::New(env, llama_model_has_decoder(model)));
  info.Set("canTrim", Napi::Boolean::New(env, loaded.can_trim));
  const char* chat_template = llama_model_chat_template(model, nullptr);
  info.Set("chatTemplate",
           chat_template == nullptr ? env.Null() : Napi::String::New(env, chat_template).As<Napi::Value>());
  info.Set("metadata", AllMetadata(env, model));
  return info;
}

} // namespace plimsoll
