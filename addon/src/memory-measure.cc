#include "memory-measure.h"

#include "heap-trim.h"
#include "llama-ext.h"

#include <algorithm>

namespace plimsoll {

std::vector<DeviceBytes> MeasureContext(const llama_context* engine) {
  std::vector<DeviceBytes> devices;
  for (const auto& [buffer_type, bytes] : llama_get_memory_breakdown(engine)) {
    ggml_backend_dev_t device = ggml_backend_buft_get_device(buffer_type);
    // Memory pinned for a GPU is the host's memory, whoever made the buffer; so are weights that the CPU has laid out
    // its own way, which the engine does not call host memory because others cannot read them.
    bool is_host = ggml_backend_buft_is_host(buffer_type) || device == nullptr ||
                   ggml_backend_dev_type(device) == GGML_BACKEND_DEVICE_TYPE_CPU ||
                   ggml_backend_dev_type(device) == GGML_BACKEND_DEVICE_TYPE_ACCEL;
    std::string name = is_host ? "CPU" : ggml_backend_dev_name(device);
    bool is_repacked = is_host && device != nullptr && !ggml_backend_buft_is_host(buffer_type);
    auto found = std::find_if(devices.begin(), devices.end(), [&](const DeviceBytes& entry) {
      return entry.device == name && entry.is_repacked == is_repacked;
    });
    if (found == devices.end())
      found = devices.insert(devices.end(), DeviceBytes{name, is_host, is_repacked, 0, 0, 0});
    found->model_bytes += static_cast<double>(bytes.model);
    found->context_bytes += static_cast<double>(bytes.context);
    found->compute_bytes += static_cast<double>(bytes.compute);
  }
  // The engine's order is that of addresses.
  std::stable_partition(devices.begin(), devices.end(), [](const DeviceBytes& entry) { return !entry.is_repacked; });
  return devices;
}

Napi::Array ToJavaScript(Napi::Env env, const std::vector<DeviceBytes>& devices) {
  Napi::Array list = Napi::Array::New(env, devices.size());
  for (size_t index = 0; index < devices.size(); index++) {
    Napi::Object entry = Napi::Object::New(env);
    entry.Set("device", devices[index].device);
    entry.Set("isHost", Napi::Boolean::New(env, devices[index].is_host));
    entry.Set("isRepacked", Napi::Boolean::New(env, devices[index].is_repacked));
    entry.Set("modelBytes", devices[index].model_bytes);
    entry.Set("contextBytes", devices[index].context_bytes);
    entry.Set("computeBytes", devices[index].compute_bytes);
    list.Set(static_cast<uint32_t>(index), entry);
  }
  return list;
}

std::vector<DeviceBytes> MeasuringModel::Measure(const ContextSpec& spec) {
  llama_context* engine = MakeEngineContext(model_, EngineContextParameters(spec));
  std::vector<DeviceBytes> devices = MeasureContext(engine);
  llama_free(engine);
  TrimHeap();
  return devices;
}

} // namespace plimsoll
