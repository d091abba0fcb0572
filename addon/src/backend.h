// The one process-wide state of the addon: the engine's backends, initialised once and counted, and the table of loaded
// models by which threads other than the loading one find a vocabulary.
#pragma once

#include "llama.h"

#include <memory>
#include <string>

namespace plimsoll {

struct LoadedModel;

// Holds the engine's backends open while it lives. `path`: a folder that is searched for backends that are separate
// libraries, or the file of one; empty when they are linked in. Only the first of a process counts: a backend cannot be
// loaded twice.
class BackendLease {
public:
  explicit BackendLease(const std::string& path);
  ~BackendLease();
  BackendLease(const BackendLease&) = delete;
  BackendLease& operator=(const BackendLease&) = delete;
};

// Registers a model under a new handle, from 1. The table does not keep it alive.
int RegisterModel(const std::shared_ptr<LoadedModel>& model);

// Null when the handle is unknown or its model is gone.
std::shared_ptr<LoadedModel> FindModel(int handle);

} // namespace plimsoll
