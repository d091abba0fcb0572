#include "sampler-pool.h"

#include <algorithm>
#include <system_error>

namespace plimsoll {
namespace {

// Logits a run must touch before waking threads pays: waking one takes some 20 µs, a pass over this many about 30 µs.
// Chosen.
constexpr int64_t kAloneLogits = 200'000;

} // namespace

SamplerPool::SamplerPool(int threads) {
  for (int index = 0; index < std::max(1, threads); index++)
    workspaces_.push_back(std::make_unique<Workspace>());
  for (int index = 1; index < threads; index++) {
    try {
      threads_.emplace_back([this, index] { Loop(*workspaces_[static_cast<size_t>(index)]); });
    } catch (const std::system_error&) {
      // No more threads can be had: those that are there do it.
      break;
    }
  }
}

SamplerPool::~SamplerPool() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  begin_.notify_all();
  for (std::thread& thread : threads_)
    thread.join();
}

void SamplerPool::Work(Workspace& workspace) {
  for (int index = next_.fetch_add(1); index < count_; index = next_.fetch_add(1))
    (*task_)(index, workspace);
}

void SamplerPool::Run(int count, int64_t cost, const std::function<void(int, Workspace&)>& task) {
  int helpers = cost * count < kAloneLogits ? 0 : std::min(static_cast<int>(threads_.size()), count - 1);
  if (helpers <= 0) {
    for (int index = 0; index < count; index++)
      task(index, *workspaces_[0]);
    return;
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    task_ = &task;
    count_ = count;
    next_.store(0);
    invited_ = helpers;
    run_++;
  }
  for (int index = 0; index < helpers; index++)
    begin_.notify_one();
  Work(*workspaces_[0]);
  std::unique_lock<std::mutex> lock(mutex_);
  // Who has not joined by now finds nothing to do and must not join the next run by mistake.
  invited_ = 0;
  end_.wait(lock, [this] { return inside_ == 0; });
  task_ = nullptr;
}

void SamplerPool::Loop(Workspace& workspace) {
  uint64_t seen = 0;
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    begin_.wait(lock, [&] { return stopping_ || (run_ != seen && invited_ > 0); });
    if (stopping_)
      return;
    seen = run_;
    invited_--;
    inside_++;
    lock.unlock();
    Work(workspace);
    lock.lock();
    if (--inside_ == 0)
      end_.notify_one();
  }
}

} // namespace plimsoll
