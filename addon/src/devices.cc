#include "devices.h"

#include "addon-data.h"
#include "errors.h"

#include <algorithm>

namespace plimsoll {
namespace {

const char* KindName(ggml_backend_dev_t device) {
  switch (ggml_backend_dev_type(device)) {
  case GGML_BACKEND_DEVICE_TYPE_CPU:
    return "cpu";
  case GGML_BACKEND_DEVICE_TYPE_IGPU:
    return "integrated-gpu";
  case GGML_BACKEND_DEVICE_TYPE_ACCEL:
    return "accelerator";
  default:
    return "gpu";
  }
}

bool IsGpu(ggml_backend_dev_t device) {
  const auto type = ggml_backend_dev_type(device);
  return type == GGML_BACKEND_DEVICE_TYPE_GPU || type == GGML_BACKEND_DEVICE_TYPE_IGPU;
}

bool ReadHost(const Napi::CallbackInfo& info, struct plimsoll_host_readings* readings) {
  if (info[0].IsString())
    return plimsoll_host_readings_at(info[0].As<Napi::String>().Utf8Value().c_str(), readings) == 0;
  auto data = AddonData::Of(info.Env());
  if (data->host == nullptr)
    data->host.reset(plimsoll_host_reader_open(nullptr));
  return data->host != nullptr && plimsoll_host_reader_read(data->host.get(), readings) == 0;
}

bool IsUsed(ggml_backend_dev_t device, const LoadedModel* loaded) {
  if (!IsGpu(device))
    return false;
  if (loaded == nullptr || loaded->options.devices.empty())
    return loaded == nullptr || loaded->options.gpu_layers != 0;
  const std::vector<std::string>& names = loaded->options.devices;
  return std::find(names.begin(), names.end(), ggml_backend_dev_name(device)) != names.end();
}

Napi::Object HostObject(Napi::Env env, const struct plimsoll_host_readings& readings) {
  Napi::Object result = Napi::Object::New(env);
  result.Set("systemTotalBytes", readings.system_total_bytes);
  result.Set("systemAvailableBytes", readings.system_available_bytes);
  result.Set("cgroupLimitBytes", readings.cgroup_limit_bytes);
  result.Set("cgroupUsedBytes", readings.cgroup_used_bytes);
  result.Set("cgroupReclaimableBytes", readings.cgroup_reclaimable_bytes);
  result.Set("processFootprintBytes", readings.process_footprint_bytes);
  result.Set("pressureLevel", readings.pressure_level);
  return result;
}

} // namespace

Napi::Value ListDevices(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  return Guarded(env, [&]() -> Napi::Value {
    Napi::Array list = Napi::Array::New(env);
    for (size_t index = 0; index < ggml_backend_dev_count(); index++) {
      ggml_backend_dev_t device = ggml_backend_dev_get(index);
      size_t free_bytes = 0;
      size_t total_bytes = 0;
      ggml_backend_dev_memory(device, &free_bytes, &total_bytes);
      Napi::Object entry = Napi::Object::New(env);
      entry.Set("name", ggml_backend_dev_name(device));
      entry.Set("description", ggml_backend_dev_description(device));
      entry.Set("kind", KindName(device));
      entry.Set("totalBytes", static_cast<double>(total_bytes));
      entry.Set("freeBytes", static_cast<double>(free_bytes));
      list.Set(static_cast<uint32_t>(index), entry);
    }
    return list;
  });
}

Napi::Value HostReadings(const Napi::CallbackInfo& info) {
  return Guarded(info.Env(), [&]() -> Napi::Value {
    if (!info[0].IsUndefined() && !info[0].IsString())
      throw AddonError("invalid_argument", "hostReadings takes a folder");
    struct plimsoll_host_readings readings{};
    if (!ReadHost(info, &readings))
      throw AddonError("failed", "the system's memory cannot be read");
    Napi::Object result = HostObject(info.Env(), readings);
    result.Set("gpuWiredLimitBytes", readings.gpu_wired_limit_bytes);
    return result;
  });
}

Napi::Object ReadAll(Napi::Env env, const LoadedModel* loaded, plimsoll_host_reader* host) {
  double device_total = 0;
  double device_free = 0;
  for (size_t index = 0; index < ggml_backend_dev_count(); index++) {
    ggml_backend_dev_t device = ggml_backend_dev_get(index);
    if (!IsUsed(device, loaded))
      continue;
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    ggml_backend_dev_memory(device, &free_bytes, &total_bytes);
    device_free += static_cast<double>(free_bytes);
    device_total += static_cast<double>(total_bytes);
  }
  struct plimsoll_host_readings readings{};
  if (host != nullptr)
    plimsoll_host_reader_read(host, &readings);
  Napi::Object result = HostObject(env, readings);
  result.Set("deviceTotalBytes", device_total);
  result.Set("deviceFreeBytes", device_free);
  return result;
}

} // namespace plimsoll
