#pragma once

#include <napi.h>

namespace plimsoll {

// sampleLogits(logits: Float32Array, block: Int32Array, history: Int32Array, sampledBefore: number, endTokens:
// Int32Array): { token, flags, logprob, top: [token, logprob][] }. The sampler of a sequence, alone with a row of
// numbers: for tests.
Napi::Value SampleLogits(const Napi::CallbackInfo& info);

} // namespace plimsoll
