// The addon's exports. The engine's symbols are resolved from the libraries that plimsoll_loader has opened.
#include "addon-data.h"
#include "devices.h"
#include "engine.h"
#include "errors.h"
#include "heap-trim.h"
#include "layout-export.h"
#include "log-queue.h"
#include "quantize.h"
#include "sample-logits.h"
#include "vocabulary.h"

#include <napi.h>

namespace {

using namespace plimsoll;

// Node runs cleanup hooks before it lets go of the objects, in a terminated worker too.
void OnEnvironmentEnd(AddonData* data) {
  for (Engine* engine : data->engines)
    engine->Release();
  for (Vocabulary* vocabulary : data->vocabularies)
    vocabulary->Release();
  data->lease.reset();
}

// backendInit(path: string): opens the engine's backends for this environment. `path`: the folder where backends that
// are libraries of their own lie, or the file of one; empty when they are linked in. A second call does nothing.
Napi::Value BackendInit(const Napi::CallbackInfo& info) {
  return Guarded(info.Env(), [&]() -> Napi::Value {
    if (!info[0].IsString())
      throw AddonError("invalid_argument", "backendInit takes a path");
    std::shared_ptr<AddonData> data = AddonData::Of(info.Env());
    if (data->lease == nullptr)
      data->lease = std::make_unique<BackendLease>(info[0].As<Napi::String>().Utf8Value());
    return info.Env().Undefined();
  });
}

Napi::Object Init(Napi::Env env, Napi::Object exports) {
  ReturnLargeBlocks();
  auto data = std::make_shared<AddonData>();
  env.SetInstanceData(new std::shared_ptr<AddonData>(data));
  env.AddCleanupHook(OnEnvironmentEnd, data.get());
  exports.Set("Engine", Engine::Define(env));
  exports.Set("Vocabulary", Vocabulary::Define(env));
  exports.Set("backendInit", Napi::Function::New(env, BackendInit, "backendInit"));
  exports.Set("devices", Napi::Function::New(env, ListDevices, "devices"));
  exports.Set("drainLogs", Napi::Function::New(env, DrainLogs, "drainLogs"));
  exports.Set("hostReadings", Napi::Function::New(env, HostReadings, "hostReadings"));
  exports.Set("layout", Napi::Function::New(env, ExportLayout, "layout"));
  exports.Set("quantize", Napi::Function::New(env, Quantize, "quantize"));
  exports.Set("sampleLogits", Napi::Function::New(env, SampleLogits, "sampleLogits"));
  return exports;
}

} // namespace

NODE_API_MODULE(plimsoll_addon, Init)
