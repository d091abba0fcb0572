#pragma once

#include <napi.h>

namespace plimsoll {

// layout(): every constant of layout.h under its TypeScript name.
Napi::Value ExportLayout(const Napi::CallbackInfo& info);

} // namespace plimsoll
