// What the addon knows of one sequence of the context, beside the cells that the engine holds.
#pragma once

#include "sampler.h"

#include <cstdint>
#include <memory>

namespace plimsoll {

struct Sequence {
  // Tokens computed: the position of the next one.
  int32_t length = 0;
  int32_t request = -1;
  // The token sampled last, whose position is `length`; −1 when there is none, or the sequence has been cut since.
  int32_t last_token = -1;
  // A request was bound to it by a start.
  bool started = false;
  // Its request is over (a final sample, or a stop): later placeholders are dropped.
  bool done = false;
  std::unique_ptr<Sampler> sampler;
};

} // namespace plimsoll
