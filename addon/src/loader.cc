// Opens the engine's libraries into the process's global scope, so that the real addon, which is linked to none of
// them, finds its symbols there whatever the files are called. Nothing is ever closed: the engine's threads outlive any
// one environment.
#include <dlfcn.h>

#include <napi.h>

#include <string>

namespace {

// open(paths: string[]): string | null. The first failure as text, null when all are open.
Napi::Value Open(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  if (info.Length() < 1 || !info[0].IsArray())
    throw Napi::TypeError::New(env, "open(paths) takes an array of file names");
  Napi::Array paths = info[0].As<Napi::Array>();
  for (uint32_t index = 0; index < paths.Length(); index++) {
    Napi::Value path = paths[index];
    if (!path.IsString())
      throw Napi::TypeError::New(env, "open(paths) takes an array of file names");
    std::string name = path.As<Napi::String>().Utf8Value();
    if (dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
      const char* reason = dlerror();
      return Napi::String::New(env, reason == nullptr ? name + " could not be opened" : std::string(reason));
    }
  }
  return env.Null();
}

// version(): string | null. Of the engine that is open: its structs are laid out as its headers say, so another
// version's must not be called at all, and this one function is looked up by hand.
Napi::Value Version(const Napi::CallbackInfo& info) {
  auto* version = reinterpret_cast<const char* (*)()>(dlsym(RTLD_DEFAULT, "llama_version"));
  return version == nullptr ? info.Env().Null() : Napi::String::New(info.Env(), version()).As<Napi::Value>();
}

Napi::Object Init(Napi::Env env, Napi::Object exports) {
  exports.Set("open", Napi::Function::New(env, Open, "open"));
  exports.Set("version", Napi::Function::New(env, Version, "version"));
  return exports;
}

} // namespace

NODE_API_MODULE(plimsoll_loader, Init)
