// A loaded model's vocabulary, attached by handle from any thread. It keeps the model in memory.
#pragma once

#include "addon-data.h"
#include "backend.h"
#include "model.h"

#include <napi.h>

#include <memory>

namespace plimsoll {

class ChatTemplate;

class Vocabulary : public Napi::ObjectWrap<Vocabulary> {
public:
  static Napi::Function Define(Napi::Env env);

  // new Vocabulary(handle: number)
  explicit Vocabulary(const Napi::CallbackInfo& info);
  ~Vocabulary() override;

  void Release();

private:
  Napi::Value Describe(const Napi::CallbackInfo& info);
  Napi::Value Tokenize(const Napi::CallbackInfo& info);
  Napi::Value Pieces(const Napi::CallbackInfo& info);
  Napi::Value IsEndOfGeneration(const Napi::CallbackInfo& info);
  Napi::Value ApplyTemplate(const Napi::CallbackInfo& info);
  Napi::Value CheckGrammar(const Napi::CallbackInfo& info);
  Napi::Value Close(const Napi::CallbackInfo& info);

  const LoadedModel& NeedModel() const;

  std::shared_ptr<AddonData> data_;
  std::shared_ptr<LoadedModel> loaded_;
  // Made at its first use: parsing a template takes milliseconds.
  std::unique_ptr<ChatTemplate> template_;
};

} // namespace plimsoll
