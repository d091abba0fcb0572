// A parsed GBNF grammar, only as far as its shape matters: which rule refers to which, and how often.
#pragma once

#include "llama.h"

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace plimsoll {

struct GrammarProblem : std::runtime_error {
  using std::runtime_error::runtime_error;
};

constexpr uint64_t kUnbounded = UINT64_MAX;
constexpr int kTerminal = -1;

struct GrammarItem {
  // Index of a rule, or kTerminal.
  int rule = kTerminal;
  uint64_t least = 1;
  uint64_t most = 1;
};

struct GrammarRule {
  // Empty for a group in parentheses.
  std::string name;
  bool is_defined = false;
  std::vector<std::vector<GrammarItem>> alternates;
};

// Rule 0 is not special; "root" is checked to exist. Throws GrammarProblem.
std::vector<GrammarRule> ParseGrammar(const llama_vocab* vocabulary, const std::string& text);

} // namespace plimsoll
