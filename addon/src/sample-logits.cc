#include "sample-logits.h"

#include "errors.h"
#include "sampler.h"

namespace plimsoll {
namespace {

template <class Array> Array Need(const Napi::Value& value, napi_typedarray_type type) {
  if (!value.IsTypedArray() || value.As<Napi::TypedArray>().TypedArrayType() != type) {
    throw AddonError("invalid_argument", "sampleLogits takes logits, block, history, sampledBefore and endTokens");
  }
  return value.As<Array>();
}

} // namespace

Napi::Value SampleLogits(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  return Guarded(env, [&]() -> Napi::Value {
    auto logits = Need<Napi::Float32Array>(info[0], napi_float32_array);
    auto block = Need<Napi::Int32Array>(info[1], napi_int32_array);
    auto history = Need<Napi::Int32Array>(info[2], napi_int32_array);
    auto ends = Need<Napi::Int32Array>(info[4], napi_int32_array);
    if (SamplingBlockWords(block.Data(), static_cast<int64_t>(block.ElementLength())) < 0) {
      throw AddonError("invalid_argument", "the sampling block is malformed");
    }
    std::vector<float> row(logits.Data(), logits.Data() + logits.ElementLength());
    std::vector<llama_token> end_tokens(ends.Data(), ends.Data() + ends.ElementLength());
    std::vector<llama_token> suppressed;
    SamplerModel model{nullptr, static_cast<int>(row.size()), &end_tokens, &suppressed};
    int32_t sampled_before = info[3].IsNumber() ? info[3].As<Napi::Number>().Int32Value() : 0;
    Sampler sampler(model, block.Data(), history.Data(), static_cast<int32_t>(history.ElementLength()), sampled_before);
    Workspace workspace;
    SampleResult sampled;
    sampler.Sample(row.data(), workspace, sampled);
    Napi::Array top = Napi::Array::New(env);
    for (const Candidate& alternative : sampled.alternatives) {
      Napi::Array pair = Napi::Array::New(env, 2);
      pair.Set(0u, Napi::Number::New(env, alternative.token));
      pair.Set(1u, Napi::Number::New(env, alternative.logit));
      top.Set(top.Length(), pair);
    }
    Napi::Object result = Napi::Object::New(env);
    result.Set("token", sampled.token);
    result.Set("flags", sampled.flags);
    result.Set("logprob", sampled.logprob);
    result.Set("top", top);
    return result;
  });
}

} // namespace plimsoll
