#include "quantize.h"

#include "backend.h"
#include "errors.h"
#include "load-error.h"
#include "log-queue.h"

namespace plimsoll {

Napi::Value Quantize(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  return Guarded(env, [&]() -> Napi::Value {
    if (!info[0].IsString() || !info[1].IsString() || !info[2].IsNumber() || !info[3].IsNumber()) {
      throw AddonError("invalid_argument", "quantize takes two paths, a file type and a number of threads");
    }
    std::string from = info[0].As<Napi::String>().Utf8Value();
    std::string to = info[1].As<Napi::String>().Utf8Value();
    CheckModelFile(from);
    llama_model_quantize_params parameters = llama_model_quantize_default_params();
    parameters.ftype = static_cast<llama_ftype>(info[2].As<Napi::Number>().Int32Value());
    parameters.nthread = info[3].As<Napi::Number>().Int32Value();
    parameters.allow_requantize = true;
    LogCapture log;
    if (llama_model_quantize(from.c_str(), to.c_str(), &parameters) == 0)
      return env.Undefined();
    throw AddonError("failed", from + " could not be quantized: " +
                                   (log.problems().empty() ? "no reason given" : log.problems().back()));
  });
}

} // namespace plimsoll
