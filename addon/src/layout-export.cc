#include "layout-export.h"

#include "errors.h"
#include "layout.h"

namespace plimsoll {

Napi::Value ExportLayout(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  return Guarded(env, [&]() -> Napi::Value {
    Napi::Object all = Napi::Object::New(env);
    Napi::Object block;
#define PLIMSOLL_EXPORT_FIELD(name, value) block.Set(#name, Napi::Number::New(env, value));
#define PLIMSOLL_EXPORT_BLOCK(block_name)                                                                              \
  block = Napi::Object::New(env);                                                                                      \
  PLIMSOLL_##block_name(PLIMSOLL_EXPORT_FIELD) all.Set(#block_name, block);
    PLIMSOLL_BLOCKS(PLIMSOLL_EXPORT_BLOCK)
#define PLIMSOLL_EXPORT_SCALAR(name, value) all.Set(#name, Napi::Number::New(env, value));
    PLIMSOLL_SCALARS(PLIMSOLL_EXPORT_SCALAR)
    return all;
  });
}

} // namespace plimsoll
