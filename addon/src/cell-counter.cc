#include "cell-counter.h"

#include <cassert>

namespace plimsoll {

CellCounter::CellCounter(int sequences, bool copies_share_cells)
    : copies_share_cells_(copies_share_cells), cells_of_(sequences) {}

uint32_t CellCounter::TakeCell() {
  used_++;
  if (!free_.empty()) {
    uint32_t cell = free_.back();
    free_.pop_back();
    users_of_[cell] = 1;
    return cell;
  }
  users_of_.push_back(1);
  return static_cast<uint32_t>(users_of_.size() - 1);
}

void CellCounter::ReleaseCell(uint32_t cell) {
  assert(users_of_[cell] > 0);
  if (--users_of_[cell] > 0)
    return;
  free_.push_back(cell);
  used_--;
}

void CellCounter::Extend(int sequence, int32_t length) {
  std::vector<uint32_t>& cells = cells_of_[sequence];
  while (static_cast<int32_t>(cells.size()) < length)
    cells.push_back(TakeCell());
}

void CellCounter::Cut(int sequence, int32_t length) {
  std::vector<uint32_t>& cells = cells_of_[sequence];
  while (static_cast<int32_t>(cells.size()) > length) {
    ReleaseCell(cells.back());
    cells.pop_back();
  }
}

void CellCounter::Copy(int source, int destination, int32_t from, int32_t to) {
  if (!copies_share_cells_) {
    Extend(destination, to);
    return;
  }
  const std::vector<uint32_t>& given = cells_of_[source];
  std::vector<uint32_t>& cells = cells_of_[destination];
  assert(static_cast<int32_t>(cells.size()) == from && static_cast<int32_t>(given.size()) >= to);
  for (int32_t position = from; position < to; position++) {
    users_of_[given[position]]++;
    cells.push_back(given[position]);
  }
}

} // namespace plimsoll
