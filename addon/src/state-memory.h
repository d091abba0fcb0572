#pragma once

#include <napi.h>

#include <cstddef>
#include <memory>
#include <unordered_map>

namespace plimsoll {

// Memory of saved sequences: as large as the headroom allows, filled at once, gone in some hundred milliseconds. Its
// pages are made in one call, because a fault for each costs three times as much as the copy; and it goes back when
// told, because a garbage collection may be minutes away.
class StateMemory : public std::enable_shared_from_this<StateMemory> {
public:
  // `bytes` > 0. Throws AddonError out_of_memory.
  Napi::Uint8Array Allocate(Napi::Env env, size_t bytes);

  // Detaches `state` and gives its memory back. One that is released already is left alone.
  void Release(Napi::Uint8Array state);

private:
  struct Block {
    std::shared_ptr<StateMemory> owner;
    void* data;
    size_t bytes;
    bool is_released = false;
  };

  void Unmap(Block* block);
  static void Finalize(Napi::Env env, void* data, Block* block);

  std::unordered_map<void*, Block*> blocks_;
};

} // namespace plimsoll
