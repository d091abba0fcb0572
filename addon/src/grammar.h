// A GBNF grammar in progress: which tokens may come next. The parser and the automaton are the engine's; what could
// overflow its stack or print to stderr is refused before (grammar-check.h).
#pragma once

#include "llama.h"
#include "selection.h"

#include <memory>
#include <string>
#include <vector>

namespace plimsoll {

class Grammar {
public:
  // Throws AddonError invalid_argument, with the place and the reason.
  Grammar(const llama_vocab* vocabulary, const std::string& text);
  ~Grammar();
  Grammar(const Grammar&) = delete;
  Grammar& operator=(const Grammar&) = delete;

  bool Allows(llama_token token);
  // Drops the candidates that may not come next; keeps the order.
  void Filter(std::vector<Candidate>& candidates, Workspace& workspace);
  // Sets the logits of all tokens that may not come next to −inf.
  void Mask(float* row, int count, Workspace& workspace);
  // `token` is allowed.
  void Accept(llama_token token);

private:
  llama_sampler* sampler_;
};

} // namespace plimsoll
