// SPDX-License-Identifier: Apache-2.0
#include "cmd/inspect/inspect_where.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "core/error.h"
#include "core/tensor/dtype.h"
#include "core/tensor/tensor_view.h"
#include "core/text/glob.h"
#include "core/text/near_miss.h"
#include "core/text/printable.h"

namespace repro_check::cmd {
namespace {

using core::NonFinite;
using core::TensorRecord;
using core::TensorStats;
using Relation = OutputCondition::Relation;
using Comparison = OutputCondition::Comparison;

/// Longer ones come from nobody's keyboard.
constexpr std::size_t kLongest = 4096;

struct Field {
  std::string_view name;
  double (*of_counts)(const NonFinite&) = nullptr;
  double (*of_stats)(const TensorStats&) = nullptr;
  double (*of_tensor)(const TensorRecord&) = nullptr;
  std::string (*word)(const TensorRecord&) = nullptr;
};

double number(std::uint64_t count) { return static_cast<double>(count); }

constexpr std::array kFields{
    Field{.name = "nan", .of_counts = [](const NonFinite& n) { return number(n.nans); }},
    Field{.name = "inf", .of_counts = [](const NonFinite& n) { return number(n.infs()); }},
    Field{.name = "positive_inf",
          .of_counts = [](const NonFinite& n) { return number(n.positive_infs); }},
    Field{.name = "negative_inf",
          .of_counts = [](const NonFinite& n) { return number(n.negative_infs); }},
    Field{.name = "zero", .of_stats = [](const TensorStats& s) { return number(s.zeros); }},
    Field{.name = "subnormal",
          .of_stats = [](const TensorStats& s) { return number(s.subnormals); }},
    Field{.name = "min", .of_stats = [](const TensorStats& s) { return s.min; }},
    Field{.name = "max", .of_stats = [](const TensorStats& s) { return s.max; }},
    Field{.name = "mean", .of_stats = [](const TensorStats& s) { return s.mean; }},
    Field{.name = "std", .of_stats = [](const TensorStats& s) { return s.std; }},
    Field{.name = "l2", .of_stats = [](const TensorStats& s) { return s.l2; }},
    Field{.name = "elements",
          .of_tensor =
              [](const TensorRecord& t) {
                return static_cast<double>(core::element_count(t.shape));
              }},
    Field{.name = "dtype",
          .word = [](const TensorRecord& t) { return std::string(core::dtype_name(t.dtype)); }},
    Field{.name = "device", .word = [](const TensorRecord& t) { return t.device; }},
};

struct RelationName {
  std::string_view sign;
  Relation relation;
};
// Longer signs first: `>` is the beginning of `>=`.
constexpr std::array kRelations{RelationName{">=", Relation::kAtLeast},
                                RelationName{"<=", Relation::kAtMost},
                                RelationName{"==", Relation::kEqual},
                                RelationName{"!=", Relation::kOther},
                                RelationName{">", Relation::kAbove},
                                RelationName{"<", Relation::kBelow},
                                RelationName{"=", Relation::kEqual}};

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// What may stand in a number, a dtype or a device.
bool is_value(char c) {
  return is_word(c) || c == '.' || c == '+' || c == '-' || c == ':' || c == '*' || c == '?';
}

class Parser {
 public:
  explicit Parser(const std::string& text) : text_(text), rest_(text) {}

  std::vector<std::vector<Comparison>> parse() {
    if (text_.size() > kLongest) refuse("it is too long");
    std::vector<std::vector<Comparison>> any(1);
    while (true) {
      any.back().push_back(comparison());
      skip_spaces();
      if (rest_.empty()) return any;
      if (take("||") || take_word("or")) {
        any.emplace_back();
      } else if (!take("&&") && !take(",") && !take_word("and")) {
        refuse("expected `and` or `or`");
      }
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& what, const std::string& hint = {}) const {
    const std::string at =
        rest_.empty() ? "at its end" : "at \"" + core::printable(rest_, 20) + "\"";
    throw core::Error(core::ErrorKind::kUsage,
                      fmt::format("--where {}: {} {}", core::printable(text_, 80), what, at),
                      hint.empty()
                          ? "for example --where 'nan>0' or --where 'max>=65504 and dtype=float16'"
                          : hint);
  }

  void skip_spaces() {
    while (rest_.starts_with(' ') || rest_.starts_with('\t')) rest_.remove_prefix(1);
  }

  bool take(std::string_view sign) {
    if (!rest_.starts_with(sign)) return false;
    rest_.remove_prefix(sign.size());
    return true;
  }

  std::string_view run_of(bool (*belongs)(char)) const {
    const auto* end = std::find_if_not(rest_.begin(), rest_.end(), belongs);
    return rest_.substr(0, static_cast<std::size_t>(end - rest_.begin()));
  }

  bool take_word(std::string_view word) { return run_of(is_word) == word && take(word); }

  Comparison comparison() {
    skip_spaces();
    Comparison made;
    made.field = field();
    skip_spaces();
    made.relation = relation(kFields[made.field]);
    skip_spaces();
    const std::string_view value = run_of(is_value);
    if (value.empty()) refuse("expected a value");
    if (kFields[made.field].word != nullptr) {
      made.word = word(kFields[made.field], value);
    } else {
      made.number = finite_or_infinite(value);
    }
    rest_.remove_prefix(value.size());
    return made;
  }

  std::size_t field() {
    const std::string_view name = run_of(is_word);
    const auto* found = std::ranges::find(kFields, name, &Field::name);
    if (found == kFields.end()) {
      std::vector<std::string_view> names;
      names.reserve(kFields.size());
      for (const Field& known : kFields) names.push_back(known.name);
      const auto near = core::near_miss(name, names);
      refuse(name.empty() ? "expected a field" : "there is no such field",
             near ? fmt::format("did you mean {}?", *near) : "fields: " + condition_fields());
    }
    rest_.remove_prefix(name.size());
    return static_cast<std::size_t>(found - kFields.begin());
  }

  Relation relation(const Field& field) {
    for (const RelationName& known : kRelations) {
      if (!rest_.starts_with(known.sign)) continue;
      const bool equal = known.relation == Relation::kEqual || known.relation == Relation::kOther;
      if (field.word != nullptr && !equal) {
        refuse(fmt::format("{} is compared by = and != alone", field.name));
      }
      rest_.remove_prefix(known.sign.size());
      return known.relation;
    }
    refuse("expected one of > >= < <= = !=");
  }

  [[nodiscard]] std::string word(const Field& field, std::string_view value) const {
    const bool is_glob = value.find_first_of("*?") != std::string_view::npos;
    if (field.name != "dtype" || is_glob) return std::string(value);
    const auto dtype = core::parse_dtype(value);
    if (!dtype) refuse("there is no such dtype");
    return std::string(core::dtype_name(*dtype));
  }

  [[nodiscard]] double finite_or_infinite(std::string_view value) const {
    std::string_view digits = value;
    if (digits.starts_with('+')) digits.remove_prefix(1);
    double result = 0;
    const char* end = digits.data() + digits.size();
    const auto [stopped, error] = std::from_chars(digits.data(), end, result);
    if (error != std::errc{} || stopped != end) refuse("expected a number");
    if (std::isnan(result)) refuse("nothing is equal to NaN", "NaN are counted: --where 'nan>0'");
    return result;
  }

  const std::string& text_;
  std::string_view rest_;
};

bool holds(Relation relation, double left, double right) {
  if (std::isnan(left)) return false;
  switch (relation) {
    case Relation::kAbove:
      return left > right;
    case Relation::kAtLeast:
      return left >= right;
    case Relation::kBelow:
      return left < right;
    case Relation::kAtMost:
      return left <= right;
    case Relation::kEqual:
      return left == right;
    case Relation::kOther:
      return left != right;
  }
  return false;
}

Answer as_answer(bool yes) { return yes ? Answer::kYes : Answer::kNo; }

Answer judge(const Comparison& comparison, const TensorRecord& tensor) {
  const Field& field = kFields[comparison.field];
  if (field.word != nullptr) {
    const bool equal = core::glob_match(comparison.word, field.word(tensor));
    return as_answer(equal == (comparison.relation == Relation::kEqual));
  }
  if (field.of_tensor != nullptr) {
    return as_answer(holds(comparison.relation, field.of_tensor(tensor), comparison.number));
  }
  const std::optional<NonFinite> counts = tensor.non_finite();
  if (field.of_counts != nullptr && counts) {
    return as_answer(holds(comparison.relation, field.of_counts(*counts), comparison.number));
  }
  if (field.of_stats != nullptr && tensor.stats) {
    return as_answer(holds(comparison.relation, field.of_stats(*tensor.stats), comparison.number));
  }
  // Without values there is nothing that could be NaN; with values somebody did not look.
  return tensor.state == core::ContentState::kHashed ? Answer::kUnknown : Answer::kNo;
}

}  // namespace

OutputCondition::OutputCondition(const std::string& text) : any_of_all_(Parser(text).parse()) {}

Answer OutputCondition::of(const core::TensorRecord& tensor) const {
  Answer any = Answer::kNo;
  for (const std::vector<Comparison>& all : any_of_all_) {
    Answer answer = Answer::kYes;
    for (const Comparison& comparison : all) {
      const Answer one = judge(comparison, tensor);
      if (one == Answer::kNo) answer = Answer::kNo;
      if (answer == Answer::kNo) break;
      if (one == Answer::kUnknown) answer = Answer::kUnknown;
    }
    if (answer == Answer::kYes) return Answer::kYes;
    if (answer == Answer::kUnknown) any = Answer::kUnknown;
  }
  return any;
}

Answer OutputCondition::of(const core::OpRecord& op) const {
  Answer any = Answer::kNo;
  for (const TensorRecord& tensor : op.tensors) {
    if (tensor.role != core::TensorRole::kOutput) continue;
    const Answer one = of(tensor);
    if (one == Answer::kYes) return one;
    if (one == Answer::kUnknown) any = one;
  }
  return any;
}

std::string condition_fields() {
  std::string text;
  for (const Field& field : kFields) text.append(text.empty() ? "" : ", ").append(field.name);
  return text;
}

}  // namespace repro_check::cmd
