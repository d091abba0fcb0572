#pragma once

#include <napi.h>

namespace plimsoll {

// quantize(from: string, to: string, ftype: number, threads: number): writes `to` in llama.cpp's file type `ftype` (2:
// Q4_0, 7: Q8_0 …). An already quantized model is taken too: for tests and benchmarks that speed matters to, not
// quality.
Napi::Value Quantize(const Napi::CallbackInfo& info);

} // namespace plimsoll
