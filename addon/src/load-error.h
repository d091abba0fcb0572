// What went wrong when the engine returned no model: it says so only in its log.
#pragma once

#include "errors.h"
#include "log-queue.h"

#include <string>

namespace plimsoll {

// Throws model_not_found or model_invalid for a path that cannot be a model, before the engine sees it.
void CheckModelFile(const std::string& path);

// The error for a load of `path` that failed after CheckModelFile had passed.
AddonError ExplainLoadFailure(const std::string& path, const LogCapture& log);

} // namespace plimsoll
