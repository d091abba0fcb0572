// What one environment (the main thread or a worker) has of the addon. Its cleanup hook frees what holds memory of a
// device, also when the worker is terminated.
#pragma once

#include "backend.h"
#include "host-readings.h"

#include <napi.h>

#include <memory>
#include <set>

namespace plimsoll {

class Engine;
class Vocabulary;

struct AddonData {
  // Given up last: everything below needs the backends.
  std::unique_ptr<BackendLease> lease;
  std::set<Engine*> engines;
  std::set<Vocabulary*> vocabularies;
  // Its files stay open: readings are taken ten times a second, and opening them is five sixths of the work.
  std::unique_ptr<plimsoll_host_reader, void (*)(plimsoll_host_reader*)> host{nullptr, plimsoll_host_reader_close};

  // Objects keep it: at the end of an environment Node may finalize them after its own reference.
  static std::shared_ptr<AddonData> Of(Napi::Env env) { return *env.GetInstanceData<std::shared_ptr<AddonData>>(); }
};

} // namespace plimsoll
