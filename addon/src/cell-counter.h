// How many distinct KV cells the sequences use together. The engine does not tell (its count is private), and the sum
// of lengths counts a shared prefix once for each sequence that has it.
#pragma once

#include <cstdint>
#include <vector>

namespace plimsoll {

class CellCounter {
public:
  CellCounter(int sequences, bool copies_share_cells);

  // The sequence grew to `length` tokens.
  void Extend(int sequence, int32_t length);
  // The sequence was cut to `length` tokens.
  void Cut(int sequence, int32_t length);
  // Tokens [from, to) of `source` were copied to the end of `destination`, which had `from` tokens.
  void Copy(int source, int destination, int32_t from, int32_t to);

  int64_t used() const { return used_; }

private:
  uint32_t TakeCell();
  void ReleaseCell(uint32_t cell);

  const bool copies_share_cells_;
  // One entry a token of the sequence: a cell id of ours (the engine's own cell numbers do not matter here).
  std::vector<std::vector<uint32_t>> cells_of_;
  std::vector<uint16_t> users_of_;
  std::vector<uint32_t> free_;
  int64_t used_ = 0;
};

} // namespace plimsoll
