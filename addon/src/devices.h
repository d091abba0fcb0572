// Devices as ggml names them, and live readings.
#pragma once

#include "host-readings.h"
#include "model.h"

#include <napi.h>

namespace plimsoll {

// devices(): DeviceInfo[] of src/shared/engine.ts.
Napi::Value ListDevices(const Napi::CallbackInfo& info);

// hostReadings(root?: string): the host's part of Readings and gpuWiredLimitBytes; `root` is put before every path, for
// tests.
Napi::Value HostReadings(const Napi::CallbackInfo& info);

// Readings of src/shared/engine.ts: the GPUs that `loaded` uses (all GPUs when null) together, 0 and 0 when it uses
// none; the host's part is 0 when it cannot be read.
Napi::Object ReadAll(Napi::Env env, const LoadedModel* loaded, plimsoll_host_reader* host);

} // namespace plimsoll
