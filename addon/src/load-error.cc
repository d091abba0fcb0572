#include "load-error.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace plimsoll {
namespace {

// The last problem that says something: the engine ends with a generic "failed to load model". Its lines begin with the
// name of a function, which means nothing to a user.
std::string Reason(const LogCapture& log) {
  std::string reason;
  for (const std::string& problem : log.problems()) {
    if (problem.find("failed to load model") != std::string::npos && !reason.empty())
      continue;
    reason = problem;
  }
  for (const char* prefix : {"llama_model_load: error loading model: ", "llama_model_load_from_file_impl: "}) {
    if (reason.rfind(prefix, 0) == 0)
      reason = reason.substr(std::strlen(prefix));
  }
  return reason.empty() ? "the engine gave no reason" : reason;
}

bool ContainsAny(const LogCapture& log, std::initializer_list<const char*> parts) {
  for (const char* part : parts) {
    if (log.Contains(part))
      return true;
  }
  return false;
}

} // namespace

void CheckModelFile(const std::string& path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) {
    throw AddonError("model_not_found", "there is no model file at " + path + " (" + std::strerror(errno) + ")");
  }
  if (!S_ISREG(status.st_mode))
    throw AddonError("model_not_found", path + " is not a file; give the path of a GGUF file");
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) {
    throw AddonError("model_not_found", "the model file " + path + " cannot be read (" + std::strerror(errno) + ")");
  }
  char magic[4] = {0, 0, 0, 0};
  size_t read = std::fread(magic, 1, sizeof magic, file);
  std::fclose(file);
  if (read != sizeof magic || std::memcmp(magic, "GGUF", sizeof magic) != 0) {
    throw AddonError("model_invalid", path + " is not a GGUF file");
  }
}

AddonError ExplainLoadFailure(const std::string& path, const LogCapture& log) {
  if (ContainsAny(log, {"unknown model architecture", "unknown pre-tokenizer type", "unknown tokenizer"})) {
    return AddonError("model_unsupported", path + " cannot be served: " + Reason(log));
  }
  if (ContainsAny(log, {"is not within the file bounds", "not within file bounds", "failed to read tensor data",
                        "unexpectedly reached end of file"})) {
    return AddonError("model_invalid", path + " is incomplete, fetch it again: " + Reason(log));
  }
  if (ContainsAny(log, {"unable to allocate", "failed to allocate", "out of memory"})) {
    return AddonError("out_of_memory", "the weights of " + path + " do not fit: " + Reason(log));
  }
  return AddonError("model_invalid", path + " cannot be loaded: " + Reason(log));
}

} // namespace plimsoll
