// What a context takes, byte for byte, by device. The only user of the engine's staging header.
#pragma once

#include "context.h"

#include <napi.h>

#include <memory>
#include <string>
#include <vector>

namespace plimsoll {

struct DeviceBytes {
  std::string device;
  bool is_host = false;
  // Weights that the CPU has laid out its own way: copies in this process's memory, whatever is mapped from the file.
  bool is_repacked = false;
  double model_bytes = 0;
  double context_bytes = 0;
  double compute_bytes = 0;
};

std::vector<DeviceBytes> MeasureContext(const llama_context* engine);

Napi::Array ToJavaScript(Napi::Env env, const std::vector<DeviceBytes>& devices);

// A model without weights, kept so that a measurement takes milliseconds. Nothing is allocated on any device.
class MeasuringModel {
public:
  explicit MeasuringModel(const LoadedModel& loaded) : model_(LoadModelShape(loaded)) {}
  ~MeasuringModel() { llama_model_free(model_); }
  MeasuringModel(const MeasuringModel&) = delete;
  MeasuringModel& operator=(const MeasuringModel&) = delete;

  std::vector<DeviceBytes> Measure(const ContextSpec& spec);

private:
  llama_model* const model_;
};

} // namespace plimsoll
