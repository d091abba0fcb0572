// The engine logs from any thread. Lines go to a bounded process-wide queue that JavaScript drains; nothing is printed
// here.
#pragma once

#include <napi.h>

#include <string>
#include <vector>

namespace plimsoll {

struct LogLine {
  // ggml's levels: 1 debug, 2 info, 3 warning, 4 error.
  int level;
  std::string text;
};

// Routes the engine's log into the queue. Called once a process.
void InstallLogQueue();

// drainLogs(): { lines: { level, text }[], dropped: number }.
Napi::Value DrainLogs(const Napi::CallbackInfo& info);

// Collects what the engine logs on this thread while it lives, besides queueing it: the engine reports the reason of a
// failure only there. Does not nest.
class LogCapture {
public:
  LogCapture();
  ~LogCapture();
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  // Warnings and errors, in order.
  const std::vector<std::string>& problems() const { return problems_; }
  // True when any captured problem contains `part`.
  bool Contains(const char* part) const;
  void Add(int level, const std::string& text);

private:
  std::vector<std::string> problems_;
};

} // namespace plimsoll
