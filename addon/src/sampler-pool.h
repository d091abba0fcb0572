// Standing threads that sample a step's rows. They sleep between steps: the engine's own threads and JavaScript need
// the cores then.
#pragma once

#include "selection.h"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace plimsoll {

class SamplerPool {
public:
  // `threads` take part in a run, the caller among them.
  explicit SamplerPool(int threads);
  ~SamplerPool();
  SamplerPool(const SamplerPool&) = delete;
  SamplerPool& operator=(const SamplerPool&) = delete;

  // Calls task(index, workspace) for every index below `count`, each once, on any thread; returns when all are done.
  // `task` does not throw. `cost`: about how many logits each touches.
  void Run(int count, int64_t cost, const std::function<void(int, Workspace&)>& task);

private:
  void Work(Workspace& workspace);
  void Loop(Workspace& workspace);

  std::vector<std::unique_ptr<Workspace>> workspaces_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable begin_;
  std::condition_variable end_;
  // Under the mutex: the run that threads may join, how many more may, and how many are inside it.
  uint64_t run_ = 0;
  int invited_ = 0;
  int inside_ = 0;
  bool stopping_ = false;
  // Of the current run.
  const std::function<void(int, Workspace&)>* task_ = nullptr;
  int count_ = 0;
  std::atomic<int> next_{0};
};

} // namespace plimsoll
