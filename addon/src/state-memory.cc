#include "state-memory.h"

#include <sys/mman.h>

#include "errors.h"

namespace plimsoll {
namespace {

#ifdef MAP_POPULATE
constexpr int populate = MAP_POPULATE;
#else
constexpr int populate = 0;
#endif

} // namespace

Napi::Uint8Array StateMemory::Allocate(Napi::Env env, size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | populate, -1, 0);
  if (data == MAP_FAILED)
    throw AddonError("out_of_memory", "there is no memory for a saved sequence of " + std::to_string(bytes) + " bytes");
  auto* block = new Block{shared_from_this(), data, bytes};
  blocks_[data] = block;
  Napi::ArrayBuffer buffer = Napi::ArrayBuffer::New(env, data, bytes, Finalize, block);
  return Napi::Uint8Array::New(env, bytes, buffer, 0);
}

void StateMemory::Release(Napi::Uint8Array state) {
  Napi::ArrayBuffer buffer = state.ArrayBuffer();
  if (buffer.IsDetached())
    return;
  auto found = blocks_.find(buffer.Data());
  Block* block = found == blocks_.end() ? nullptr : found->second;
  buffer.Detach();
  if (block != nullptr)
    Unmap(block);
}

void StateMemory::Unmap(Block* block) {
  munmap(block->data, block->bytes);
  blocks_.erase(block->data);
  block->is_released = true;
}

void StateMemory::Finalize(Napi::Env, void*, Block* block) {
  if (!block->is_released)
    block->owner->Unmap(block);
  delete block;
}

} // namespace plimsoll
