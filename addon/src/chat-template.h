// A model's chat template, through llama.cpp's `common` library: the only user of its C++ headers.
#pragma once

#include "llama.h"

#include <memory>
#include <string>

namespace plimsoll {

class ChatTemplate {
public:
  // The model's own template; ChatML where it has none. Throws AddonError invalid_argument when it does not parse.
  explicit ChatTemplate(const llama_model* model);
  ~ChatTemplate();
  ChatTemplate(const ChatTemplate&) = delete;
  ChatTemplate& operator=(const ChatTemplate&) = delete;

  // The prompt of a conversation. `inputs_json`: { messages, addGenerationPrompt, continueFinalMessage, tools?,
  // toolChoice?, templateKwargs? }. Throws AddonError invalid_argument with the template's own message.
  std::string Apply(const std::string& inputs_json) const;

private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

} // namespace plimsoll
