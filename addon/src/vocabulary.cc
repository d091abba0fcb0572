#include "vocabulary.h"

#include "addon-data.h"
#include "chat-template.h"
#include "errors.h"
#include "grammar.h"
#include "layout.h"

#include <cstring>
#include <string>
#include <vector>

namespace plimsoll {
namespace {

// Chosen: far above any context there is (a token has at least a byte), and below what the tokenizers' 32-bit lengths
// allow.
constexpr size_t kTextBytesMax = size_t{256} << 20;

std::string NeedText(const Napi::Value& value, const char* what) {
  if (!value.IsString())
    throw AddonError("invalid_argument", std::string(what) + " takes a text");
  std::string text = value.As<Napi::String>().Utf8Value();
  if (text.size() > kTextBytesMax)
    throw AddonError("invalid_argument", "the text is longer than " + std::to_string(kTextBytesMax) + " bytes");
  return text;
}

// The tokenizers assert that a token they are told to add exists.
bool CanAddSpecial(const llama_vocab* vocabulary) {
  if (llama_vocab_get_add_bos(vocabulary) && llama_vocab_bos(vocabulary) == LLAMA_TOKEN_NULL)
    return false;
  if (llama_vocab_get_add_eos(vocabulary) && llama_vocab_eos(vocabulary) == LLAMA_TOKEN_NULL)
    return false;
  return !llama_vocab_get_add_sep(vocabulary) || llama_vocab_sep(vocabulary) != LLAMA_TOKEN_NULL;
}

std::vector<llama_token> TokensOf(const llama_vocab* vocabulary, const std::string& text, bool add_special,
                                  bool parse_special) {
  // Most texts have fewer tokens than bytes / 2; the others are asked for twice.
  std::vector<llama_token> tokens(text.size() / 2 + 16);
  for (;;) {
    int32_t count = llama_tokenize(vocabulary, text.data(), static_cast<int32_t>(text.size()), tokens.data(),
                                   static_cast<int32_t>(tokens.size()), add_special, parse_special);
    if (count == INT32_MIN)
      throw AddonError("invalid_argument", "the text has too many tokens");
    if (count >= 0) {
      tokens.resize(static_cast<size_t>(count));
      return tokens;
    }
    tokens.resize(static_cast<size_t>(-static_cast<int64_t>(count)));
  }
}

} // namespace

Napi::Function Vocabulary::Define(Napi::Env env) {
  return DefineClass(env, "Vocabulary",
                     {
                         InstanceMethod("describe", &Vocabulary::Describe),
                         InstanceMethod("tokenize", &Vocabulary::Tokenize),
                         InstanceMethod("pieces", &Vocabulary::Pieces),
                         InstanceMethod("isEndOfGeneration", &Vocabulary::IsEndOfGeneration),
                         InstanceMethod("applyTemplate", &Vocabulary::ApplyTemplate),
                         InstanceMethod("checkGrammar", &Vocabulary::CheckGrammar),
                         InstanceMethod("close", &Vocabulary::Close),
                     });
}

Vocabulary::Vocabulary(const Napi::CallbackInfo& info) : Napi::ObjectWrap<Vocabulary>(info) {
  Guarded(info.Env(), [&] {
    if (info.Length() < 1 || !info[0].IsNumber())
      throw AddonError("invalid_argument", "Vocabulary takes a model's handle");
    loaded_ = FindModel(info[0].As<Napi::Number>().Int32Value());
    if (loaded_ == nullptr)
      throw AddonError("wrong_state", "the model of this handle is not loaded");
    data_ = AddonData::Of(info.Env());
    data_->vocabularies.insert(this);
  });
}

Vocabulary::~Vocabulary() {
  if (data_ != nullptr)
    data_->vocabularies.erase(this);
  Release();
}

void Vocabulary::Release() {
  template_.reset();
  loaded_.reset();
}

const LoadedModel& Vocabulary::NeedModel() const {
  if (loaded_ == nullptr)
    throw AddonError("wrong_state", "the vocabulary is closed");
  return *loaded_;
}

// { size, bos, eos, addsBos }
Napi::Value Vocabulary::Describe(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  return Guarded(env, [&]() -> Napi::Value {
    const LoadedModel& loaded = NeedModel();
    Napi::Object result = Napi::Object::New(env);
    result.Set("size", loaded.vocabulary_size);
    result.Set("bos", llama_vocab_bos(loaded.vocabulary));
    result.Set("eos", llama_vocab_eos(loaded.vocabulary));
    result.Set("addsBos",
               Napi::Boolean::New(env, CanAddSpecial(loaded.vocabulary) && llama_vocab_get_add_bos(loaded.vocabulary)));
    return result;
  });
}

Napi::Value Vocabulary::Tokenize(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  return Guarded(env, [&]() -> Napi::Value {
    const llama_vocab* vocabulary = NeedModel().vocabulary;
    std::string text = NeedText(info[0], "tokenize");
    bool add_special = info[1].ToBoolean().Value() && CanAddSpecial(vocabulary);
    std::vector<llama_token> tokens = TokensOf(vocabulary, text, add_special, info[2].ToBoolean().Value());
    Napi::Int32Array result = Napi::Int32Array::New(env, tokens.size());
    if (!tokens.empty())
      std::memcpy(result.Data(), tokens.data(), tokens.size() * sizeof(llama_token));
    return result;
  });
}

// { offsets: Int32Array(size + 1), bytes: Uint8Array }
Napi::Value Vocabulary::Pieces(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  return Guarded(env, [&]() -> Napi::Value {
    const LoadedModel& loaded = NeedModel();
    bool with_control = info[0].ToBoolean().Value();
    Napi::Int32Array offsets = Napi::Int32Array::New(env, static_cast<size_t>(loaded.vocabulary_size) + 1);
    std::string bytes;
    std::string piece(256, '\0');
    for (llama_token token = 0; token < loaded.vocabulary_size; token++) {
      offsets[static_cast<size_t>(token)] = static_cast<int32_t>(bytes.size());
      int32_t length = llama_token_to_piece(loaded.vocabulary, token, piece.data(), static_cast<int32_t>(piece.size()),
                                            0, with_control);
      if (length < 0) {
        piece.resize(static_cast<size_t>(-length));
        length = llama_token_to_piece(loaded.vocabulary, token, piece.data(), static_cast<int32_t>(piece.size()), 0,
                                      with_control);
      }
      if (length > 0)
        bytes.append(piece.data(), static_cast<size_t>(length));
    }
    offsets[static_cast<size_t>(loaded.vocabulary_size)] = static_cast<int32_t>(bytes.size());
    Napi::Uint8Array all = Napi::Uint8Array::New(env, bytes.size());
    if (!bytes.empty())
      std::memcpy(all.Data(), bytes.data(), bytes.size());
    Napi::Object result = Napi::Object::New(env);
    result.Set("offsets", offsets);
    result.Set("bytes", all);
    return result;
  });
}

Napi::Value Vocabulary::IsEndOfGeneration(const Napi::CallbackInfo& info) {
  return Guarded(info.Env(), [&]() -> Napi::Value {
    const LoadedModel& loaded = NeedModel();
    double token = info[0].IsNumber() ? info[0].As<Napi::Number>().DoubleValue() : -1;
    bool is_token = token >= 0 && token < loaded.vocabulary_size;
    return Napi::Boolean::New(info.Env(),
                              is_token && llama_vocab_is_eog(loaded.vocabulary, static_cast<llama_token>(token)));
  });
}

Napi::Value Vocabulary::ApplyTemplate(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  return Guarded(env, [&]() -> Napi::Value {
    const LoadedModel& loaded = NeedModel();
    std::string inputs = NeedText(info[0], "applyTemplate");
    if (template_ == nullptr)
      template_ = std::make_unique<ChatTemplate>(loaded.model);
    return Napi::String::New(env, template_->Apply(inputs));
  });
}

// checkGrammar(text): what is wrong with a GBNF grammar, null when nothing is.
Napi::Value Vocabulary::CheckGrammar(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  return Guarded(env, [&]() -> Napi::Value {
    const LoadedModel& loaded = NeedModel();
    std::string text = NeedText(info[0], "checkGrammar");
    if (text.size() > static_cast<size_t>(layout::GRAMMAR_MAX_BYTES)) {
      return Napi::String::New(env,
                               "the grammar is longer than " + std::to_string(layout::GRAMMAR_MAX_BYTES) + " bytes");
    }
    try {
      Grammar grammar(loaded.vocabulary, text);
      return env.Null();
    } catch (const AddonError& error) {
      return Napi::String::New(env, error.what());
    }
  });
}

Napi::Value Vocabulary::Close(const Napi::CallbackInfo& info) {
  return Guarded(info.Env(), [&]() -> Napi::Value {
    Release();
    return info.Env().Undefined();
  });
}

} // namespace plimsoll
