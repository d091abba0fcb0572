#include "grammar-check.h"

#include "grammar-rules.h"

#include <algorithm>

namespace plimsoll {
namespace {

// Ways to begin a rule that the engine walks through at every character. Chosen: an object of a hundred optional
// properties has about five thousand, and ten times that still takes only milliseconds a token.
constexpr uint64_t kBeginningsMax = 50'000;
// Rules that begin with one another: the engine recurses once for each. Chosen: two hundred bytes of stack each.
constexpr int kChainMax = 1024;

// What a rule can begin with.
class Beginnings {
public:
  explicit Beginnings(const std::vector<GrammarRule>& rules) : rules_(rules), state_(rules.size()) { FindEmpty(); }

  void Check() {
    for (size_t rule = 0; rule < rules_.size(); rule++)
      Walk(static_cast<int>(rule), 0);
  }

private:
  struct State {
    bool may_be_empty = false;
    bool in_progress = false;
    bool is_done = false;
    uint64_t beginnings = 0;
    int chain = 0;
  };

  bool MayBeEmpty(const GrammarItem& item) const {
    return item.least == 0 || (item.rule != kTerminal && state_[item.rule].may_be_empty);
  }

  bool MayBeEmpty(const std::vector<GrammarItem>& sequence) const {
    return std::all_of(sequence.begin(), sequence.end(), [&](const GrammarItem& item) { return MayBeEmpty(item); });
  }

  void FindEmpty() {
    for (bool changed = true; changed;) {
      changed = false;
      // From the back: rules mostly refer to later ones.
      for (size_t rule = rules_.size(); rule-- > 0;) {
        if (state_[rule].may_be_empty)
          continue;
        const auto& alternates = rules_[rule].alternates;
        state_[rule].may_be_empty = std::any_of(alternates.begin(), alternates.end(),
                                                [&](const auto& sequence) { return MayBeEmpty(sequence); });
        changed = changed || state_[rule].may_be_empty;
      }
    }
  }

  std::string Name(int rule) const {
    return rules_[rule].name.empty() ? "a group" : "rule '" + rules_[rule].name + "'";
  }

  void Walk(int rule, int depth) {
    State& state = state_[rule];
    if (state.is_done)
      return;
    if (state.in_progress)
      throw GrammarProblem(Name(rule) + " begins with itself (left recursion)");
    if (depth > kChainMax)
      throw GrammarProblem("more than " + std::to_string(kChainMax) + " rules begin with one another");
    state.in_progress = true;
    uint64_t beginnings = 0;
    int chain = 0;
    for (const auto& sequence : rules_[rule].alternates) {
      beginnings++;
      for (const GrammarItem& item : sequence) {
        WalkItem(item, depth, beginnings, chain);
        if (beginnings > kBeginningsMax)
          throw GrammarProblem(Name(rule) + " can begin in more than " + std::to_string(kBeginningsMax) + " ways");
        if (!MayBeEmpty(item))
          break;
      }
    }
    if (chain + 1 > kChainMax)
      throw GrammarProblem("more than " + std::to_string(kChainMax) + " rules begin with one another");
    state.beginnings = beginnings;
    state.chain = chain + 1;
    state.in_progress = false;
    state.is_done = true;
  }

  void WalkItem(const GrammarItem& item, int depth, uint64_t& beginnings, int& chain) {
    if (item.most == 0)
      return;
    if (item.rule == kTerminal) {
      beginnings++;
      return;
    }
    Walk(item.rule, depth + 1);
    const State& state = state_[item.rule];
    uint64_t copies = 1;
    if (state.may_be_empty && item.most != 1) {
      if (item.most == kUnbounded)
        throw GrammarProblem("something that may be empty is repeated without end");
      copies = item.most;
    }
    beginnings += state.beginnings * copies;
    chain = std::max(chain, state.chain + static_cast<int>(copies));
  }

  const std::vector<GrammarRule>& rules_;
  std::vector<State> state_;
};

} // namespace

std::string FindGrammarProblem(const llama_vocab* vocabulary, const std::string& text) {
  try {
    std::vector<GrammarRule> rules = ParseGrammar(vocabulary, text);
    Beginnings(rules).Check();
    return "";
  } catch (const GrammarProblem& problem) {
    return problem.what();
  }
}

} // namespace plimsoll
