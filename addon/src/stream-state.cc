#include "stream-state.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace plimsoll {
namespace {

constexpr size_t kWord = sizeof(uint32_t);

// Streams without cells before the first one that has some; 0 where none has any.
uint32_t EmptyStreamsBefore(const uint32_t* words, size_t count) {
  uint32_t streams = words[0];
  for (uint32_t stream = 0; stream < streams && 1 + stream < count; stream++)
    if (words[1 + stream] != 0)
      return stream;
  return 0;
}

// Closes a file that may not have been opened.
struct File {
  explicit File(const char* path) : descriptor(open(path, O_RDWR | O_CLOEXEC)) {}
  ~File() {
    if (descriptor >= 0)
      close(descriptor);
  }
  const int descriptor;
};

} // namespace

StatePart AsOneStream(uint8_t* state, size_t bytes) {
  uint32_t words[1 + kStreamsMax] = {};
  std::memcpy(words, state + kStateHeaderBytes, std::min(bytes - kStateHeaderBytes, sizeof(words)));
  uint32_t streams = words[0];
  size_t offset = EmptyStreamsBefore(words, 1 + kStreamsMax) * kWord;
  std::memmove(state + offset, state, kStateHeaderBytes);
  SetStreams(state + offset, 1);
  // The empty streams behind are part of the tail.
  return {offset, bytes - (streams - 1) * kWord + kStateTailBytes};
}

void SetStreams(uint8_t* state, uint32_t streams) {
  std::memcpy(state + kStateHeaderBytes, &streams, kWord);
}

bool SetFileStreams(const char* path, uint32_t streams) {
  File file(path);
  uint32_t header[kStateFileHeaderBytes / kWord] = {};
  if (file.descriptor < 0 || pread(file.descriptor, header, sizeof(header), 0) != sizeof(header))
    return false;
  uint32_t& tokens = header[kStateFileHeaderBytes / kWord - 1];
  uint32_t words[1 + kStreamsMax] = {};
  off_t at = kStateFileHeaderBytes + static_cast<off_t>(tokens) * kWord;
  if (tokens > kStreamsMax || pread(file.descriptor, words, sizeof(words), at) < static_cast<ssize_t>(2 * kWord))
    return false;
  uint32_t before = EmptyStreamsBefore(words, 1 + kStreamsMax);
  if (words[0] > kStreamsMax || before >= words[0] || tokens + before > kStreamsMax)
    return false;
  // The streams before its own become tokens, which nobody looks at; those that it lacks behind are added.
  uint32_t behind = words[0] - 1 - before;
  struct stat status;
  if (fstat(file.descriptor, &status) != 0)
    return false;
  off_t more = streams - 1 > behind ? static_cast<off_t>(streams - 1 - behind) * kWord : 0;
  at += static_cast<off_t>(before) * kWord;
  tokens += before;
  return ftruncate(file.descriptor, status.st_size + more) == 0 &&
         pwrite(file.descriptor, &streams, kWord, at) == kWord &&
         pwrite(file.descriptor, header, sizeof(header), 0) == sizeof(header);
}

} // namespace plimsoll
