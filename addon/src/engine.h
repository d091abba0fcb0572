// The object behind NativeEngine (src/workers/native-engine.ts): one a forward worker, used from that worker's thread
// only.
#pragma once

#include "addon-data.h"
#include "context.h"
#include "devices.h"
#include "memory-measure.h"
#include "sampler-pool.h"
#include "state-memory.h"
#include "step.h"

#include <napi.h>

#include <memory>

namespace plimsoll {

class Engine : public Napi::ObjectWrap<Engine> {
public:
  static Napi::Function Define(Napi::Env env);

  // new Engine()
  explicit Engine(const Napi::CallbackInfo& info);
  ~Engine() override;

  // Frees context, model and threads. Again and again is fine.
  void Release();

private:
  Napi::Value Load(const Napi::CallbackInfo& info);
  Napi::Value FreeModel(const Napi::CallbackInfo& info);
  Napi::Value Measure(const Napi::CallbackInfo& info);
  Napi::Value CreateContext(const Napi::CallbackInfo& info);
  Napi::Value FreeContext(const Napi::CallbackInfo& info);
  Napi::Value RunStep(const Napi::CallbackInfo& info);
  Napi::Value SaveSequence(const Napi::CallbackInfo& info);
  Napi::Value RestoreSequence(const Napi::CallbackInfo& info);
  Napi::Value WriteSequence(const Napi::CallbackInfo& info);
  Napi::Value ReadSequence(const Napi::CallbackInfo& info);
  Napi::Value ReleaseState(const Napi::CallbackInfo& info);
  Napi::Value GetReadings(const Napi::CallbackInfo& info);
  Napi::Value SetAbortFlag(const Napi::CallbackInfo& info);
  Napi::Value Close(const Napi::CallbackInfo& info);

  LoadedModel& NeedModel();
  Context& NeedContext();
  int NeedSequence(const Napi::Value& value);
  int NeedSavable(Context& context, const Napi::Value& value);
  void NeedRestorable(Context& context, int index);
  Napi::Value Restored(Napi::Env env, Context& context, int index, bool restored);
  std::vector<DeviceBytes> MeasureSpec(const ContextSpec& spec);
  void RefuseWhatCannotFit(const ContextSpec& spec);

  std::shared_ptr<AddonData> data_;
  std::shared_ptr<LoadedModel> loaded_;
  std::unique_ptr<MeasuringModel> measuring_;
  std::unique_ptr<Context> context_;
  std::unique_ptr<SamplerPool> pool_;
  std::shared_ptr<StateMemory> states_ = std::make_shared<StateMemory>();
  plimsoll_host_reader* host_ = nullptr;
  bool closed_ = false;
  Step step_;
  AbortFlag abort_flag_;
  // Keeps the shared memory of the abort word alive.
  Napi::Reference<Napi::Int32Array> abort_words_;
};

} // namespace plimsoll
