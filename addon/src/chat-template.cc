#include "chat-template.h"

#include "errors.h"

#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#endif
#include "chat.h"
#include "log.h"
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#include <mutex>

namespace plimsoll {
namespace {

// JSON nested deeper than this would be walked recursively by the template engine. Chosen: tool schemas of agents reach
// some 20.
constexpr int kNestingMax = 128;

// The library logs to stderr on a thread of its own unless nothing is loud enough to be logged.
void SilenceCommonLog() {
  static std::once_flag once;
  std::call_once(once, [] { common_log_set_verbosity_thold(-1000); });
}

void CheckNesting(const std::string& json) {
  int depth = 0;
  bool in_string = false;
  for (size_t at = 0; at < json.size(); at++) {
    char c = json[at];
    if (in_string) {
      if (c == '\\')
        at++;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kNestingMax)
        throw AddonError("invalid_argument", "the messages or tools are nested too deeply");
    } else if (c == '}' || c == ']') {
      depth--;
    }
  }
}

bool Flag(const common_json& inputs, const char* name, bool otherwise) {
  return inputs.contains(name) && inputs.at(name).is_boolean() ? inputs.at(name).get<bool>() : otherwise;
}

common_chat_templates_inputs ReadInputs(const std::string& text) {
  CheckNesting(text);
  common_json json = common_json::parse(text);
  if (!json.is_object() || !json.contains("messages") || !json.at("messages").is_array()) {
    throw AddonError("invalid_argument", "a template needs an array of messages");
  }
  common_chat_templates_inputs inputs;
  inputs.messages = common_chat_msgs_parse_oaicompat(json.at("messages"));
  inputs.add_generation_prompt = Flag(json, "addGenerationPrompt", true);
  if (Flag(json, "continueFinalMessage", false)) {
    inputs.continue_final_message = COMMON_CHAT_CONTINUATION_AUTO;
    inputs.add_generation_prompt = false;
  }
  if (json.contains("tools") && json.at("tools").is_array())
    inputs.tools = common_chat_tools_parse_oaicompat(json.at("tools"));
  if (json.contains("toolChoice") && json.at("toolChoice").is_string()) {
    inputs.tool_choice = common_chat_tool_choice_parse_oaicompat(json.at("toolChoice").get<std::string>());
  }
  if (json.contains("templateKwargs") && json.at("templateKwargs").is_object()) {
    for (const auto& [name, value] : json.at("templateKwargs").items()) {
      inputs.chat_template_kwargs[name] = value.dump();
      if (name == "enable_thinking" && value.is_boolean())
        inputs.enable_thinking = value.get<bool>();
    }
  }
  return inputs;
}

} // namespace

struct ChatTemplate::Parts {
  common_chat_templates_ptr templates;
};

ChatTemplate::ChatTemplate(const llama_model* model) : parts_(std::make_unique<Parts>()) {
  SilenceCommonLog();
  try {
    parts_->templates = common_chat_templates_init(model, "");
  } catch (const std::exception& error) {
    throw AddonError("invalid_argument", std::string("the model's chat template cannot be used: ") + error.what());
  }
}

ChatTemplate::~ChatTemplate() = default;

std::string ChatTemplate::Apply(const std::string& inputs_json) const {
  try {
    return common_chat_templates_apply(parts_->templates.get(), ReadInputs(inputs_json)).prompt;
  } catch (const AddonError&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    throw AddonError("invalid_argument", std::string("the chat template refuses this conversation: ") + error.what());
  }
}

} // namespace plimsoll
