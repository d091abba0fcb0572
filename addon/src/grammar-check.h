// Checks a GBNF grammar before the engine's parser sees it: that parser prints what it refuses (a user's text) to
// stderr, recurses without a limit, and accepts grammars that later take exponential time or never end.
#pragma once

#include "llama.h"

#include <string>

namespace plimsoll {

// Empty when the grammar is sound; else one sentence that says where and why. Takes milliseconds for the largest
// grammar.
std::string FindGrammarProblem(const llama_vocab* vocabulary, const std::string& text);

} // namespace plimsoll
