// A sequence's saved state, made independent of how many streams its context has. The engine writes
//
//   | magic, sequence | streams | cells of stream 0, with their data | cells of stream 1 | … |
//
// where all streams but the sequence's own have no cells and are one word, 0; and it reads such a state only into a
// context of as many streams. Only for models whose sequences are cells and nothing else.
#pragma once

#include <cstddef>
#include <cstdint>

namespace plimsoll {

// Streams that a context can have at most (LLAMA_MAX_SEQ).
constexpr size_t kStreamsMax = 256;
// Words of 0 behind a state: the streams that come after its own, in whatever context it is restored into.
constexpr size_t kStateTailBytes = (kStreamsMax - 1) * sizeof(uint32_t);

// Magic and sequence; in a file it is magic, version, and the number of tokens that follow, of which the engine writes
// none.
constexpr size_t kStateHeaderBytes = 2 * sizeof(uint32_t);
constexpr size_t kStateFileHeaderBytes = 3 * sizeof(uint32_t);

struct StatePart {
  size_t offset;
  size_t bytes;
};

// The part of `state`, of `bytes` bytes with kStateTailBytes of 0 behind them, that is a state of one stream: with its
// tail.
StatePart AsOneStream(uint8_t* state, size_t bytes);

// Makes such a state one for a context of `streams` streams, or one again.
void SetStreams(uint8_t* state, uint32_t streams);

// The same for the file at `path`. False: it cannot be.
bool SetFileStreams(const char* path, uint32_t streams);

} // namespace plimsoll
