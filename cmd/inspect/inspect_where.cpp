// SPDX-License-Identifier: Apache-2.0
// Which operators are meant.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <utility>

#include "cmd/inspect/inspect_list.h"
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

/// Longer ones come from nobody's keyboard.
constexpr std::size_t kLongest = 4096;

using Number = std::optional<double>;  ///< empty where nobody recorded it

template <auto kMember>
Number of_counts(const TensorRecord& tensor) {
  const auto counts = tensor.non_finite();
  return counts ? Number(static_cast<double>(std::invoke(kMember, *counts))) : std::nullopt;
}

template <auto kMember>
Number of_stats(const TensorRecord& tensor) {
  const auto& stats = tensor.stats;
  return stats ? Number(static_cast<double>(std::invoke(kMember, *stats))) : std::nullopt;
}

Number elements(const TensorRecord& tensor) {
  return static_cast<double>(core::element_count(tensor.shape));
}

/// Of a number or of a word.
struct Field {
  std::string_view name;
  Number (*number)(const TensorRecord&) = nullptr;
  std::string (*word)(const TensorRecord&) = nullptr;
};

constexpr std::array kFields{
    Field{"nan", of_counts<&NonFinite::nans>},
    Field{"inf", of_counts<&NonFinite::infs>},
    Field{"positive_inf", of_counts<&NonFinite::positive_infs>},
    Field{"negative_inf", of_counts<&NonFinite::negative_infs>},
    Field{"zero", of_stats<&TensorStats::zeros>},
    Field{"subnormal", of_stats<&TensorStats::subnormals>},
    Field{"min", of_stats<&TensorStats::min>},
    Field{"max", of_stats<&TensorStats::max>},
    Field{"mean", of_stats<&TensorStats::mean>},
    Field{"std", of_stats<&TensorStats::std>},
    Field{"l2", of_stats<&TensorStats::l2>},
    Field{"elements", elements},
    Field{"dtype",
          nullptr,
          [](const TensorRecord& t) { return std::string(core::dtype_name(t.dtype)); }},
    Field{"device", nullptr, [](const TensorRecord& t) { return t.device; }},
};

std::vector<std::string_view> field_names() {
  std::vector<std::string_view> names;
  for (const Field& field : kFields) names.push_back(field.name);
  return names;
}

struct Relation {
  std::string_view sign;
  bool (*holds)(double, double);
  bool takes_words = false;
};
// Longer signs first: `>` is the beginning of `>=`.
constexpr std::array kRelations{Relation{">=", [](double a, double b) { return a >= b; }},
                                Relation{"<=", [](double a, double b) { return a <= b; }},
                                Relation{"==", [](double a, double b) { return a == b; }, true},
                                Relation{"!=", [](double a, double b) { return a != b; }, true},
                                Relation{">", [](double a, double b) { return a > b; }},
                                Relation{"<", [](double a, double b) { return a < b; }},
                                Relation{"=", [](double a, double b) { return a == b; }, true}};

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// What may stand in a number, a dtype or a device.
bool is_value(char c) {
  return is_word(c) || std::string_view(".+-:*?").find(c) != std::string_view::npos;
}

Answer as_answer(bool yes) { return yes ? Answer::kYes : Answer::kNo; }

class ConditionParser {
 public:
  explicit ConditionParser(const std::string& text) : text_(text), rest_(text) {}

  std::vector<std::vector<OutputCondition::Comparison>> parse() {
    if (text_.size() > kLongest) refuse("it is too long");
    std::vector<std::vector<OutputCondition::Comparison>> any(1);
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
  [[noreturn]] void refuse(
      const std::string& what,
      const std::string& hint =
          "for example --where 'nan>0' or --where 'max>=65504 and dtype=float16'") const {
    const std::string at =
        rest_.empty() ? "at its end" : "at \"" + core::printable(rest_, 20) + "\"";
    throw core::Error(core::ErrorKind::kUsage,
                      fmt::format("--where {}: {} {}", core::printable(text_, 80), what, at),
                      hint);
  }

  void skip_spaces() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t"), rest_.size()));
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

  OutputCondition::Comparison comparison() {
    skip_spaces();
    const Field& named = field();
    skip_spaces();
    const auto holds = relation(named).holds;
    skip_spaces();
    const std::string_view value = run_of(is_value);
    if (value.empty()) refuse("expected a value");
    if (named.word != nullptr) {
      const std::string wanted = word(named, value);
      rest_.remove_prefix(value.size());
      return [get = named.word, holds, wanted](const TensorRecord& tensor) {
        return as_answer(holds(core::glob_match(wanted, get(tensor)) ? 1 : 0, 1));
      };
    }
    const double bound = finite_or_infinite(value);
    rest_.remove_prefix(value.size());
    return [get = named.number, holds, bound](const TensorRecord& tensor) {
      const Number found = get(tensor);
      if (found) return as_answer(!std::isnan(*found) && holds(*found, bound));
      // Without values there is nothing that could be NaN; with values somebody did not look.
      return tensor.state == core::ContentState::kHashed ? Answer::kUnknown : Answer::kNo;
    };
  }

  const Field& field() {
    const std::string_view name = run_of(is_word);
    const auto* found = std::ranges::find(kFields, name, &Field::name);
    if (found == kFields.end()) {
      const std::vector<std::string_view> names = field_names();
      const auto near = core::near_miss(name, names);
      refuse(name.empty() ? "expected a field" : "there is no such field",
             near ? fmt::format("did you mean {}?", *near)
                  : fmt::format("fields: {}", fmt::join(names, ", ")));
    }
    rest_.remove_prefix(name.size());
    return *found;
  }

  const Relation& relation(const Field& field) {
    for (const Relation& known : kRelations) {
      if (!rest_.starts_with(known.sign)) continue;
      if (field.word != nullptr && !known.takes_words) {
        refuse(fmt::format("{} is compared by = and != alone", field.name));
      }
      rest_.remove_prefix(known.sign.size());
      return known;
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
    const std::string_view digits = value.substr(value.starts_with('+') ? 1 : 0);
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

std::optional<std::uint64_t> parse_index(std::string_view text, std::uint64_t when_empty) {
  if (text.empty()) return when_empty;
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stopped != end) return std::nullopt;
  return value;
}

}  // namespace

NameSelector::NameSelector(const std::string& text) : glob_(text) {
  if (text.size() < 2 || !text.starts_with('/') || !text.ends_with('/')) return;
  pattern_.emplace(text.substr(1, text.size() - 2));
}

bool NameSelector::matches(std::string_view name) const {
  return pattern_ ? pattern_->matches(name) : core::glob_match(glob_, name);
}

OutputCondition::OutputCondition(const std::string& text)
    : any_of_all_(ConditionParser(text).parse()) {}

Answer OutputCondition::of(const TensorRecord& tensor) const {
  Answer any = Answer::kNo;
  for (const std::vector<Comparison>& comparisons : any_of_all_) {
    Answer all = Answer::kYes;
    for (const Comparison& comparison : comparisons) all = std::min(all, comparison(tensor));
    any = std::max(any, all);
  }
  return any;
}

Answer OutputCondition::of(const core::OpRecord& op) const {
  Answer any = Answer::kNo;
  for (const TensorRecord& tensor : op.tensors) {
    if (tensor.role == core::TensorRole::kOutput) any = std::max(any, of(tensor));
  }
  return any;
}

void parse_range(const std::string& text, OpSelection& selection) {
  const std::size_t colon = text.find(':');
  if (colon != std::string::npos) {
    const std::string_view view = text;
    const auto first = parse_index(view.substr(0, colon), 0);
    const auto end = parse_index(view.substr(colon + 1), std::numeric_limits<std::uint64_t>::max());
    if (first && end && *first < *end) {
      selection.first = *first;
      selection.end = *end;
      return;
    }
  }
  throw core::Error(core::ErrorKind::kUsage,
                    "--range " + text + ": expected FIRST:END with FIRST before END",
                    "--range 40:60 is op 40 to op 59; either number may be left out");
}

}  // namespace repro_check::cmd
