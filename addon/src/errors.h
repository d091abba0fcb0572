// Errors that JavaScript sees as EngineError: a stable code (EngineErrorCode in src/shared/engine.ts) and one sentence.
#pragma once

#include <napi.h>

#include <new>
#include <stdexcept>
#include <string>
#include <utility>

namespace plimsoll {

class AddonError : public std::runtime_error {
public:
  AddonError(const char* code, const std::string& message) : std::runtime_error(message), code_(code) {}
  const char* code() const { return code_; }

private:
  const char* code_;
};

inline Napi::Error ToJavaScript(Napi::Env env, const char* code, const std::string& message) {
  Napi::Error error = Napi::Error::New(env, message);
  error.Value().Set("code", Napi::String::New(env, code));
  return error;
}

// Every entry from JavaScript runs inside this: no C++ exception of any kind may cross the boundary untyped.
template <class Body> auto Guarded(Napi::Env env, Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const AddonError& error) {
    throw ToJavaScript(env, error.code(), error.what());
  } catch (const Napi::Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw ToJavaScript(env, "out_of_memory", "the process has no memory left for this call");
  } catch (const std::exception& error) {
    throw ToJavaScript(env, "failed", error.what());
  } catch (...) {
    throw ToJavaScript(env, "failed", "the engine threw something that is not an exception");
  }
}

} // namespace plimsoll
