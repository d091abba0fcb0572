#include "engine.h"

#include "addon-data.h"
#include "errors.h"
#include "file-cache.h"
#include "stream-state.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace plimsoll {
namespace {

// Measured on 16 cores, 64 greedy rows of 152k logits beside a decode of 12.4 ms: 0.84 ms with 8 threads, 0.57 ms
// with 16.
constexpr int kSamplerThreadsMax = 16;
// Larger counts are no longer exact as a JavaScript number.
constexpr double kBytesMax = 9007199254740992.0;

int SamplerThreads() {
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kSamplerThreadsMax);
}

Napi::Object NeedObject(const Napi::CallbackInfo& info, const char* what) {
  if (info.Length() < 1 || !info[0].IsObject())
    throw AddonError("invalid_argument", std::string(what) + " takes an object");
  return info[0].As<Napi::Object>();
}

Napi::Int32Array NeedWords(const Napi::Value& value, const char* what) {
  if (!value.IsTypedArray() || value.As<Napi::TypedArray>().TypedArrayType() != napi_int32_array) {
    throw AddonError("invalid_argument", std::string(what) + " must be an Int32Array");
  }
  return value.As<Napi::Int32Array>();
}

std::string NeedPath(const Napi::Value& value) {
  if (!value.IsString())
    throw AddonError("invalid_argument", "a file's path must be a string");
  return value.As<Napi::String>().Utf8Value();
}

size_t NeedBytes(const Napi::Value& value) {
  double bytes = value.IsNumber() ? value.As<Napi::Number>().DoubleValue() : -1;
  if (!(bytes >= 0) || bytes > kBytesMax)
    throw AddonError("invalid_argument", "a count of bytes must be a number from 0 to 2^53");
  return static_cast<size_t>(bytes);
}

// What this host can ever hold for one process; 0 when it cannot be read.
double HostLimitBytes(plimsoll_host_reader* host) {
  plimsoll_host_readings readings{};
  if (host == nullptr || plimsoll_host_reader_read(host, &readings) != 0)
    return 0;
  double limit = readings.system_total_bytes;
  return readings.cgroup_limit_bytes > 0 ? std::min(limit, readings.cgroup_limit_bytes) : limit;
}

} // namespace

Napi::Function Engine::Define(Napi::Env env) {
  return DefineClass(env, "Engine",
                     {
                         InstanceMethod("loadModel", &Engine::Load),
                         InstanceMethod("freeModel", &Engine::FreeModel),
                         InstanceMethod("measure", &Engine::Measure),
                         InstanceMethod("createContext", &Engine::CreateContext),
                         InstanceMethod("freeContext", &Engine::FreeContext),
                         InstanceMethod("step", &Engine::RunStep),
                         InstanceMethod("saveSequence", &Engine::SaveSequence),
                         InstanceMethod("restoreSequence", &Engine::RestoreSequence),
                         InstanceMethod("releaseState", &Engine::ReleaseState),
                         InstanceMethod("writeSequence", &Engine::WriteSequence),
                         InstanceMethod("readSequence", &Engine::ReadSequence),
                         InstanceMethod("readings", &Engine::GetReadings),
                         InstanceMethod("setAbortFlag", &Engine::SetAbortFlag),
                         InstanceMethod("close", &Engine::Close),
                     });
}

Engine::Engine(const Napi::CallbackInfo& info) : Napi::ObjectWrap<Engine>(info) {
  Guarded(info.Env(), [&] {
    data_ = AddonData::Of(info.Env());
    if (data_->lease == nullptr)
      throw AddonError("wrong_state", "backendInit has not been called");
    pool_ = std::make_unique<SamplerPool>(SamplerThreads());
    host_ = plimsoll_host_reader_open(nullptr);
    data_->engines.insert(this);
  });
}

Engine::~Engine() {
  if (data_ != nullptr)
    data_->engines.erase(this);
  Release();
}

void Engine::Release() {
  context_.reset();
  measuring_.reset();
  loaded_.reset();
  pool_.reset();
  abort_flag_.word = nullptr;
  if (host_ != nullptr)
    plimsoll_host_reader_close(host_);
  host_ = nullptr;
  closed_ = true;
}

LoadedModel& Engine::NeedModel() {
  if (loaded_ == nullptr)
    throw AddonError("wrong_state", "no model is loaded");
  return *loaded_;
}

Context& Engine::NeedContext() {
  if (context_ == nullptr)
    throw AddonError("wrong_state", "there is no context");
  return *context_;
}

int Engine::NeedSequence(const Napi::Value& value) {
  double number = value.IsNumber() ? value.As<Napi::Number>().DoubleValue() : -1;
  if (!(number >= 0 && number < NeedContext().spec.sequences))
    throw AddonError("invalid_argument", "the context has no such sequence");
  return static_cast<int>(number);
}

Napi::Value Engine::Load(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  return Guarded(env, [&]() -> Napi::Value {
    if (closed_)
      throw AddonError("wrong_state", "the engine is closed");
    if (loaded_ != nullptr)
      throw AddonError("wrong_state", "a model is loaded; free it first");
    ModelOptions options = ReadModelOptions(NeedObject(info, "loadModel"));
    Napi::Value callback = info[1];
    // A throw must not cross the engine's frames: it is kept until they have returned.
    std::unique_ptr<Napi::Error> thrown;
    LoadProgress progress = [&](float fraction) {
      if (!callback.IsFunction())
        return true;
      try {
        Napi::HandleScope scope(env);
        Napi::Value answer = callback.As<Napi::Function>().Call({Napi::Number::New(env, fraction)});
        return !answer.IsBoolean() || answer.As<Napi::Boolean>().Value();
      } catch (const Napi::Error& error) {
        thrown = std::make_unique<Napi::Error>(error);
        return false;
      }
    };
    try {
      loaded_ = LoadModel(options, progress);
    } catch (const AddonError&) {
      if (thrown != nullptr)
        throw *thrown;
      throw;
    }
    return DescribeModel(env, *loaded_);
  });
}

Napi::Value Engine::FreeModel(const Napi::CallbackInfo& info) {
  return Guarded(info.Env(), [&]() -> Napi::Value {
    context_.reset();
    measuring_.reset();
    loaded_.reset();
    return info.Env().Undefined();
  });
}

std::vector<DeviceBytes> Engine::MeasureSpec(const ContextSpec& spec) {
  CheckContextSpec(spec, NeedModel().model);
  if (measuring_ == nullptr)
    measuring_ = std::make_unique<MeasuringModel>(NeedModel());
  return measuring_->Measure(spec);
}

// Linux grants more than it has and kills whoever touches it, so what can never be there is refused before.
void Engine::RefuseWhatCannotFit(const ContextSpec& spec) {
  const double limit = HostLimitBytes(host_);
  if (limit <= 0)
    return;
  // The measurement's model takes a while to load the first time, so it is asked only where a rough guess comes near
  // the limit.
  const llama_model* model = NeedModel().model;
  const double cells = static_cast<double>(spec.cells) * (spec.is_shared ? 1 : spec.sequences);
  const double rough =
      cells * llama_model_n_layer(model) * llama_model_n_embd(model) * 2 * sizeof(float) +
      static_cast<double>(spec.ubatch_tokens) * (cells + llama_model_n_embd(model)) * 4 * sizeof(float);
  if (rough < limit / 8)
    return;
  for (const DeviceBytes& device : MeasureSpec(spec)) {
    const double bytes = device.context_bytes + device.compute_bytes;
    if (!device.is_host || bytes <= limit)
      continue;
    throw AddonError("out_of_memory", "a context of this size needs " + std::to_string(static_cast<int64_t>(bytes)) +
                                          " bytes; this host has " + std::to_string(static_cast<int64_t>(limit)));
  }
}

Napi::Value Engine::Measure(const Napi::CallbackInfo& info) {
  return Guarded(info.Env(), [&]() -> Napi::Value {
    return ToJavaScript(info.Env(), MeasureSpec(ReadContextSpec(NeedObject(info, "measure"))));
  });
}

Napi::Value Engine::CreateContext(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  return Guarded(env, [&]() -> Napi::Value {
    ContextSpec spec = ReadContextSpec(NeedObject(info, "createContext"));
    CheckContextSpec(spec, NeedModel().model);
    context_.reset();
    auto begin = std::chrono::steady_clock::now();
    RefuseWhatCannotFit(spec);
    context_ = std::make_unique<Context>(loaded_, spec, &abort_flag_);
    auto micros =
        std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin).count();
    Napi::Object result = Napi::Object::New(env);
    result.Set("cells", context_->rounded_cells);
    result.Set("sequences", spec.sequences);
    result.Set("batchTokens", static_cast<double>(llama_n_batch(context_->engine)));
    result.Set("ubatchTokens", static_cast<double>(llama_n_ubatch(context_->engine)));
    result.Set("breakdown", ToJavaScript(env, MeasureContext(context_->engine)));
    result.Set("createMicros", static_cast<double>(micros));
    return result;
  });
}

Napi::Value Engine::FreeContext(const Napi::CallbackInfo& info) {
  return Guarded(info.Env(), [&]() -> Napi::Value {
    context_.reset();
    return info.Env().Undefined();
  });
}

Napi::Value Engine::RunStep(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  return Guarded(env, [&]() -> Napi::Value {
    Napi::Int32Array words = NeedWords(info[0], "step's words");
    Napi::Int32Array output = NeedWords(info[2], "step's output");
    double at = info[1].IsNumber() ? info[1].As<Napi::Number>().DoubleValue() : -1;
    if (!(at >= 0 && at <= static_cast<double>(words.ElementLength())))
      throw AddonError("invalid_argument", "step's record begins outside its words");
    int64_t begin = static_cast<int64_t>(at);
    step_.Run(NeedContext(), *pool_, words.Data() + begin, static_cast<int64_t>(words.ElementLength()) - begin,
              output.Data(), static_cast<int64_t>(output.ElementLength()));
    return env.Undefined();
  });
}

int Engine::NeedSavable(Context& context, const Napi::Value& value) {
  int sequence = NeedSequence(value);
  if (context.has_pending_copy)
    throw AddonError("wrong_state", "a copied stream can be saved after the next decode only");
  return sequence;
}

void Engine::NeedRestorable(Context& context, int index) {
  if (context.has_pending_copy)
    throw AddonError("wrong_state", "a sequence can be restored after the next decode only: a copy is pending");
  if (context.sequences[static_cast<size_t>(index)].length != 0)
    throw AddonError("wrong_state", "a sequence can be restored only where nothing is");
}

Napi::Value Engine::Restored(Napi::Env env, Context& context, int index, bool restored) {
  // A state that did not fit may have left a part behind.
  if (!restored)
    llama_memory_seq_rm(context.memory, index, -1, -1);
  Sequence& sequence = context.sequences[static_cast<size_t>(index)];
  sequence.length = llama_memory_seq_pos_max(context.memory, index) + 1;
  sequence.last_token = -1;
  context.cells.Extend(index, sequence.length);
  return Napi::Boolean::New(env, restored);
}

Napi::Value Engine::SaveSequence(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  return Guarded(env, [&]() -> Napi::Value {
    Context& context = NeedContext();
    int sequence = NeedSavable(context, info[0]);
    size_t bytes = llama_state_seq_get_size(context.engine, sequence);
    if (bytes == 0)
      throw AddonError("failed", "the engine could not save the sequence");
    size_t tail = loaded_->can_trim ? kStateTailBytes : 0;
    Napi::Uint8Array state = states_->Allocate(env, bytes + tail);
    size_t written = llama_state_seq_get_data(context.engine, state.Data(), bytes, sequence);
    if (written != bytes) {
      states_->Release(state);
      throw AddonError("failed", "the engine could not save the sequence");
    }
    if (!loaded_->can_trim)
      return state;
    StatePart part = AsOneStream(state.Data(), bytes);
    return Napi::Uint8Array::New(env, part.bytes, state.ArrayBuffer(), part.offset);
  });
}

Napi::Value Engine::RestoreSequence(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  return Guarded(env, [&]() -> Napi::Value {
    Context& context = NeedContext();
    int index = NeedSequence(info[0]);
    if (!info[1].IsTypedArray() || info[1].As<Napi::TypedArray>().TypedArrayType() != napi_uint8_array) {
      throw AddonError("invalid_argument", "a sequence's state must be a Uint8Array");
    }
    NeedRestorable(context, index);
    Napi::Uint8Array state = info[1].As<Napi::Uint8Array>();
    bool has_streams = loaded_->can_trim && state.ElementLength() > kStateHeaderBytes + kStateTailBytes;
    if (has_streams)
      SetStreams(state.Data(), context.StreamCount());
    bool restored = llama_state_seq_set_data(context.engine, state.Data(), state.ElementLength(), index) > 0;
    if (has_streams)
      SetStreams(state.Data(), 1);
    return Restored(env, context, index, restored);
  });
}

Napi::Value Engine::WriteSequence(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  return Guarded(env, [&]() -> Napi::Value {
    Context& context = NeedContext();
    int sequence = NeedSavable(context, info[0]);
    std::string path = NeedPath(info[1]);
    size_t cached_bytes = NeedBytes(info[2]);
    WriteBehind behind(path.c_str(), cached_bytes);
    size_t written = llama_state_seq_save_file(context.engine, path.c_str(), sequence, nullptr, 0);
    if (written == 0)
      throw AddonError("failed", "the engine could not write the sequence");
    return Napi::Number::New(env, static_cast<double>(written));
  });
}

Napi::Value Engine::ReadSequence(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  return Guarded(env, [&]() -> Napi::Value {
    Context& context = NeedContext();
    int index = NeedSequence(info[0]);
    NeedRestorable(context, index);
    std::string path = NeedPath(info[1]);
    // Its tokens are none (stream-state.h). Without a place for them nothing else would be read.
    llama_token tokens[kStreamsMax];
    size_t count = 0;
    bool suits = !loaded_->can_trim || SetFileStreams(path.c_str(), context.StreamCount());
    bool restored =
        suits && llama_state_seq_load_file(context.engine, path.c_str(), index, tokens, kStreamsMax, &count) > 0;
    return Restored(env, context, index, restored);
  });
}

Napi::Value Engine::ReleaseState(const Napi::CallbackInfo& info) {
  return Guarded(info.Env(), [&]() -> Napi::Value {
    if (!info[0].IsTypedArray())
      throw AddonError("invalid_argument", "a sequence's state must be a Uint8Array");
    states_->Release(info[0].As<Napi::Uint8Array>());
    return info.Env().Undefined();
  });
}

Napi::Value Engine::GetReadings(const Napi::CallbackInfo& info) {
  return Guarded(info.Env(), [&]() -> Napi::Value { return ReadAll(info.Env(), loaded_.get(), host_); });
}

Napi::Value Engine::SetAbortFlag(const Napi::CallbackInfo& info) {
  return Guarded(info.Env(), [&]() -> Napi::Value {
    Napi::Int32Array words = NeedWords(info[0], "the abort flag");
    double index = info[1].IsNumber() ? info[1].As<Napi::Number>().DoubleValue() : -1;
    if (!(index >= 0 && index < static_cast<double>(words.ElementLength())))
      throw AddonError("invalid_argument", "the abort flag lies outside its words");
    abort_words_ = Napi::Persistent(words);
    abort_flag_.word = words.Data() + static_cast<size_t>(index);
    return info.Env().Undefined();
  });
}

Napi::Value Engine::Close(const Napi::CallbackInfo& info) {
  return Guarded(info.Env(), [&]() -> Napi::Value {
    Release();
    abort_words_.Reset();
    return info.Env().Undefined();
  });
}

} // namespace plimsoll
