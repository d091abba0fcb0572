#include "backend.h"

#include "errors.h"
#include "log-queue.h"

#include <filesystem>
#include <map>
#include <mutex>

namespace plimsoll {
namespace {

struct ProcessState {
  std::mutex mutex;
  int leases = 0;
  bool backends_loaded = false;
  int next_handle = 1;
  std::map<int, std::weak_ptr<LoadedModel>> models;
};

// Never destroyed: environments may end in any order while the process exits.
ProcessState& State() {
  static ProcessState* state = new ProcessState();
  return *state;
}

} // namespace

BackendLease::BackendLease(const std::string& path) {
  ProcessState& state = State();
  std::lock_guard<std::mutex> lock(state.mutex);
  if (!state.backends_loaded) {
    InstallLogQueue();
    if (std::filesystem::is_directory(path)) {
      ggml_backend_load_all_from_path(path.c_str());
    } else if (!path.empty() && ggml_backend_load(path.c_str()) == nullptr) {
      throw AddonError("engine_not_found", path + " cannot be opened as a backend of the engine");
    }
    state.backends_loaded = true;
  }
  if (state.leases++ == 0)
    llama_backend_init();
}

BackendLease::~BackendLease() {
  ProcessState& state = State();
  std::lock_guard<std::mutex> lock(state.mutex);
  if (--state.leases == 0)
    llama_backend_free();
}

int RegisterModel(const std::shared_ptr<LoadedModel>& model) {
  ProcessState& state = State();
  std::lock_guard<std::mutex> lock(state.mutex);
  for (auto entry = state.models.begin(); entry != state.models.end();) {
    entry = entry->second.expired() ? state.models.erase(entry) : std::next(entry);
  }
  state.models.emplace(state.next_handle, model);
  return state.next_handle++;
}

std::shared_ptr<LoadedModel> FindModel(int handle) {
  ProcessState& state = State();
  std::lock_guard<std::mutex> lock(state.mutex);
  auto entry = state.models.find(handle);
  return entry == state.models.end() ? nullptr : entry->second.lock();
}

} // namespace plimsoll
