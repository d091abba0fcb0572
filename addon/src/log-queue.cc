#include "log-queue.h"

#include "errors.h"
#include "llama.h"

#include <deque>
#include <mutex>

namespace plimsoll {
namespace {

// Chosen: a model load logs some 200 lines; more than two of them undrained are of no use to anyone.
constexpr size_t kQueueLines = 512;
// Chosen: the longest lines the engine writes (tokenizer warnings) are shorter.
constexpr size_t kLineBytes = 2048;
// Chosen: a failed load's reason is among its first problems; an engine that logs one problem a tensor must not grow
// this.
constexpr size_t kCapturedProblems = 64;

struct Queue {
  std::mutex mutex;
  std::deque<LogLine> lines;
  size_t dropped = 0;
};

// Part of the one process-wide state beside the backend's: the engine has a single log callback. Never destroyed,
// because the engine's threads may log while the process exits.
Queue& TheQueue() {
  static Queue* queue = new Queue();
  return *queue;
}

thread_local LogCapture* current_capture = nullptr;
// The engine writes some lines in pieces ("CONT"); a line is put together per thread.
thread_local std::string partial_line;
thread_local int partial_level = GGML_LOG_LEVEL_INFO;

void Push(int level, const std::string& text) {
  if (current_capture != nullptr)
    current_capture->Add(level, text);
  Queue& queue = TheQueue();
  std::lock_guard<std::mutex> lock(queue.mutex);
  if (queue.lines.size() >= kQueueLines) {
    queue.lines.pop_front();
    queue.dropped++;
  }
  queue.lines.push_back({level, text});
}

void OnLog(ggml_log_level level, const char* text, void*) noexcept {
  if (text == nullptr)
    return;
  try {
    if (level != GGML_LOG_LEVEL_CONT && level != GGML_LOG_LEVEL_NONE)
      partial_level = level;
    if (partial_level == GGML_LOG_LEVEL_DEBUG)
      return;
    for (const char* at = text; *at != 0; at++) {
      if (*at != '\n') {
        if (partial_line.size() < kLineBytes)
          partial_line.push_back(*at);
        continue;
      }
      if (!partial_line.empty())
        Push(partial_level, partial_line);
      partial_line.clear();
    }
  } catch (...) {
    // Out of memory for a log line: the line is lost, the engine goes on.
    partial_line.clear();
  }
}

} // namespace

void InstallLogQueue() {
  llama_log_set(OnLog, nullptr);
}

Napi::Value DrainLogs(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  return Guarded(env, [&]() -> Napi::Value {
    std::deque<LogLine> lines;
    size_t dropped = 0;
    {
      Queue& queue = TheQueue();
      std::lock_guard<std::mutex> lock(queue.mutex);
      lines.swap(queue.lines);
      std::swap(dropped, queue.dropped);
    }
    Napi::Array list = Napi::Array::New(env, lines.size());
    for (size_t index = 0; index < lines.size(); index++) {
      Napi::Object line = Napi::Object::New(env);
      line.Set("level", lines[index].level);
      line.Set("text", lines[index].text);
      list.Set(static_cast<uint32_t>(index), line);
    }
    Napi::Object result = Napi::Object::New(env);
    result.Set("lines", list);
    result.Set("dropped", static_cast<double>(dropped));
    return result;
  });
}

LogCapture::LogCapture() {
  current_capture = this;
}
LogCapture::~LogCapture() {
  current_capture = nullptr;
}

void LogCapture::Add(int level, const std::string& text) {
  if (level >= GGML_LOG_LEVEL_WARN && problems_.size() < kCapturedProblems)
    problems_.push_back(text);
}

bool LogCapture::Contains(const char* part) const {
  for (const std::string& problem : problems_) {
    if (problem.find(part) != std::string::npos)
      return true;
  }
  return false;
}

} // namespace plimsoll
