#include "grammar-rules.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

namespace plimsoll {
namespace {

// The engine's parser recurses once a parenthesis. Chosen: schemas nest rules, not parentheses.
constexpr int kNestingMax = 128;
// Chosen: the largest grammars made from JSON schemas have some hundreds.
constexpr size_t kRulesMax = 8192;
// The engine's own limit for what a repetition may expand to (MAX_REPETITION_THRESHOLD).
constexpr uint64_t kRepetitionMax = 2000;

class Parser {
public:
  Parser(const llama_vocab* vocabulary, const std::string& text) : vocabulary_(vocabulary), text_(text) {}

  std::vector<GrammarRule> Parse() {
    if (text_.find('\0') != std::string::npos)
      throw GrammarProblem("it contains a zero byte");
    SkipSpace(true);
    while (At() != 0)
      ParseRule();
    for (const GrammarRule& rule : rules_) {
      if (!rule.is_defined)
        throw GrammarProblem("rule '" + rule.name + "' is used but not defined");
    }
    if (by_name_.count("root") == 0)
      throw GrammarProblem("it has no rule named root");
    return std::move(rules_);
  }

private:
  char At(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  [[noreturn]] void Fail(const std::string& what) const {
    size_t line = 1 + static_cast<size_t>(std::count(
                          text_.begin(), text_.begin() + static_cast<int64_t>(std::min(at_, text_.size())), '\n'));
    throw GrammarProblem("line " + std::to_string(line) + ": " + what);
  }

  void SkipSpace(bool across_lines) {
    for (;; at_++) {
      char c = At();
      if (c == '#') {
        while (At() != 0 && At() != '\r' && At() != '\n')
          at_++;
        c = At();
        if (c == 0)
          return;
      }
      bool is_space = c == ' ' || c == '\t' || (across_lines && (c == '\r' || c == '\n'));
      if (!is_space)
        return;
    }
  }

  static bool IsDigit(char c) { return c >= '0' && c <= '9'; }
  static bool IsWord(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || IsDigit(c); }

  std::string ParseName() {
    size_t begin = at_;
    while (IsWord(At()))
      at_++;
    if (at_ == begin)
      Fail("a rule's name is expected");
    return text_.substr(begin, at_ - begin);
  }

  int NewRule(const std::string& name) {
    if (rules_.size() >= kRulesMax)
      Fail("it has more than " + std::to_string(kRulesMax) + " rules");
    rules_.push_back({name, false, {}});
    return static_cast<int>(rules_.size()) - 1;
  }

  int RuleNamed(const std::string& name) {
    auto [entry, is_new] = by_name_.emplace(name, 0);
    if (is_new) {
      entry->second = NewRule(name);
      symbols_++;
    }
    return entry->second;
  }

  void ParseRule() {
    int rule = RuleNamed(ParseName());
    SkipSpace(false);
    if (At() != ':' || At(1) != ':' || At(2) != '=')
      Fail("'::=' is expected after a rule's name");
    at_ += 3;
    SkipSpace(true);
    ParseAlternates(rule, 0);
    if (At() != 0 && At() != '\r' && At() != '\n')
      Fail("a newline or the end is expected");
    SkipSpace(true);
  }

  void ParseAlternates(int rule, int nesting) {
    if (nesting > kNestingMax)
      Fail("parentheses are nested more than " + std::to_string(kNestingMax) + " deep");
    std::vector<std::vector<GrammarItem>> alternates;
    for (;;) {
      alternates.push_back(ParseSequence(nesting));
      if (At() != '|')
        break;
      at_++;
      SkipSpace(true);
    }
    rules_[rule].alternates = std::move(alternates);
    rules_[rule].is_defined = true;
  }

  std::vector<GrammarItem> ParseSequence(int nesting) {
    std::vector<GrammarItem> items;
    // Symbols that a repetition of the last item multiplies, as the engine counts them; 0 when there is nothing to
    // repeat.
    uint64_t last_symbols = 0;
    for (;;) {
      char c = At();
      if (c == '"' || c == '[') {
        bool is_empty = c == '"' ? ParseLiteral() : ParseClass();
        last_symbols = is_empty ? 0 : 1;
        if (!is_empty)
          items.push_back({});
      } else if (c == '<' || c == '!') {
        ParseToken();
        items.push_back({});
        last_symbols = 1;
      } else if (IsWord(c)) {
        items.push_back({RuleNamed(ParseName()), 1, 1});
        last_symbols = 1;
      } else if (c == '(') {
        at_++;
        SkipSpace(true);
        uint64_t before = symbols_++;
        int group = NewRule("");
        ParseAlternates(group, nesting + 1);
        if (At() != ')')
          Fail("')' is expected");
        at_++;
        items.push_back({group, 1, 1});
        last_symbols = std::max<uint64_t>(1, symbols_ - before);
      } else if (c == '.') {
        at_++;
        items.push_back({});
        last_symbols = 1;
      } else if (c == '*' || c == '+' || c == '?' || c == '{') {
        ParseRepetition(items, last_symbols, nesting);
      } else {
        return items;
      }
      SkipSpace(nesting > 0);
    }
  }

  void ParseRepetition(std::vector<GrammarItem>& items, uint64_t& symbols, int nesting) {
    if (symbols == 0)
      Fail("there is nothing before the repetition that it could repeat");
    uint64_t least = At() == '+' ? 1 : 0;
    uint64_t most = At() == '?' ? 1 : kUnbounded;
    if (At() != '{') {
      at_++;
    } else {
      at_++;
      SkipSpace(nesting > 0);
      least = ParseCount();
      most = least;
      SkipSpace(nesting > 0);
      if (At() == ',') {
        at_++;
        SkipSpace(nesting > 0);
        most = IsDigit(At()) ? ParseCount() : kUnbounded;
        SkipSpace(nesting > 0);
      }
      if (At() != '}')
        Fail("'}' is expected");
      at_++;
      if (most < least)
        Fail("a repetition's upper bound is below its lower one");
    }
    if (most != kUnbounded && most > kRepetitionMax)
      most = kUnbounded;
    uint64_t copies = most != kUnbounded && most > 0 ? most : std::max<uint64_t>(1, least);
    if (least > kRepetitionMax || symbols * copies >= kRepetitionMax)
      Fail("repetitions expand to more than " + std::to_string(kRepetitionMax) + " items");
    symbols_ += most == kUnbounded ? 1 : most - least;
    symbols *= copies;
    GrammarItem repeated = items.back();
    if (repeated.least != 1 || repeated.most != 1) {
      // A repetition of a repetition: the inner one becomes a rule of its own.
      int inner = NewRule("");
      rules_[inner].alternates = {{repeated}};
      rules_[inner].is_defined = true;
      repeated.rule = inner;
    }
    items.back() = {repeated.rule, least, most};
  }

  uint64_t ParseCount() {
    size_t begin = at_;
    while (IsDigit(At()))
      at_++;
    if (at_ == begin || at_ - begin > 9)
      Fail("a number of repetitions is expected");
    return std::stoull(text_.substr(begin, at_ - begin));
  }

  // One character of a literal or class, escapes included.
  void ParseChar() {
    if (At() == 0)
      Fail("the text ends inside a literal or character class");
    if (At() != '\\') {
      at_++;
      while ((At() & 0xc0) == 0x80)
        at_++;
      return;
    }
    char kind = At(1);
    size_t digits = kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
    if (digits == 0 && (kind == 0 || std::strchr("trn\\\"[]-", kind) == nullptr))
      Fail("unknown escape");
    at_ += 2;
    for (size_t digit = 0; digit < digits; digit++, at_++) {
      char c = At();
      if (!(IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')))
        Fail(std::to_string(digits) + " hexadecimal digits are expected");
    }
  }

  // Each returns whether it was empty.
  bool ParseLiteral() {
    at_++;
    size_t begin = at_;
    while (At() != '"')
      ParseChar();
    return at_++ == begin;
  }

  bool ParseClass() {
    at_++;
    if (At() == '^')
      at_++;
    size_t begin = at_;
    while (At() != ']') {
      ParseChar();
      if (At() != '-' || At(1) == ']')
        continue;
      at_++;
      ParseChar();
    }
    return at_++ == begin;
  }

  void ParseToken() {
    if (At() == '!')
      at_++;
    if (At() != '<')
      Fail("'<' is expected");
    size_t begin = at_;
    while (At() != 0 && At() != '>')
      at_++;
    if (At() == 0)
      Fail("'>' is expected");
    at_++;
    std::string name = text_.substr(begin, at_ - begin);
    if (name[1] == '[') {
      std::string digits = name.substr(2, name.size() - 4 < name.size() ? name.size() - 4 : 0);
      bool is_number = name.size() >= 5 && name[name.size() - 2] == ']' && digits.size() <= 9 &&
                       std::all_of(digits.begin(), digits.end(), IsDigit);
      if (!is_number || std::stol(digits) >= llama_vocab_n_tokens(vocabulary_))
        Fail(name + " is not a token");
      return;
    }
    llama_token tokens[2];
    if (llama_tokenize(vocabulary_, name.data(), static_cast<int32_t>(name.size()), tokens, 2, false, true) != 1)
      Fail(name + " is not a token");
  }

  const llama_vocab* const vocabulary_;
  const std::string& text_;
  size_t at_ = 0;
  uint64_t symbols_ = 0;
  std::vector<GrammarRule> rules_;
  std::unordered_map<std::string, int> by_name_;
};

} // namespace

std::vector<GrammarRule> ParseGrammar(const llama_vocab* vocabulary, const std::string& text) {
  return Parser(vocabulary, text).Parse();
}

} // namespace plimsoll
