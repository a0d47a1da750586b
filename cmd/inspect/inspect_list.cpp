// SPDX-License-Identifier: Apache-2.0
#include "cmd/inspect/inspect_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <unordered_map>

#include "cmd/options/command_line.h"
#include "cmd/render/text.h"
#include "core/tensor/dtype.h"
#include "core/tensor/tensor_record.h"
#include "core/text/text.h"

namespace repro_check::cmd {
namespace {

using core::NonFinite;
using core::TensorRecord;
using core::TensorStats;

void append_item(std::string& list, const std::string& item) {
  list.append(list.empty() ? "" : ", ").append(item);
}

std::string outputs_text(const core::OpRecord& op, bool with_digests) {
  std::string text;
  for (const core::TensorRecord& tensor : op.tensors) {
    if (tensor.role != core::TensorRole::kOutput) continue;
    const bool shows = with_digests && tensor.state == core::ContentState::kHashed;
    append_item(text,
                format_tensor_type(tensor.dtype, tensor.shape) +
                    (shows ? " " + core::to_hex(tensor.digest) : ""));
  }
  for (const core::Value& result : op.results) {
    if (std::holds_alternative<core::TensorSlot>(result.data)) continue;
    append_item(text, escape_name(core::to_text(result)));
  }
  return text;
}

std::string module_text(const core::OpRecord& op) {
  return op.site ? escape_name(op.site->module_path) : "";
}

bool draws(const core::OpRecord& op) { return op.generator || (op.op && op.op->seeded); }

std::string draw_text(const core::OpRecord& op, Form form) {
  const bool tabs = form == Form::kTabs;
  const std::string tab = tabs ? "\t" : "  ";
  std::string text = tabs ? "\t\t\t\t0" : "not moved";
  if (op.generator) {
    const core::GeneratorUse& use = *op.generator;
    text = escape_name(use.device) + tab + std::to_string(use.seed) + tab +
           fmt::format("{:016x}{}{:016x}", use.position_before, tab, use.position_after) + tab +
           (use.drawn < 0 ? "?" : std::to_string(use.drawn));
  }
  std::string changes;
  for (const core::Substitution& change : op.substitutions) {
    append_item(changes,
                escape_name(change.argument) + ": " + escape_name(change.from) + " -> " +
                    escape_name(change.to));
  }
  return text + (tabs || !changes.empty() ? tab + changes : "");
}

/// Of the members of op_json() those that a ledger needs.
std::string draw_json(const core::OpRecord& op) {
  Json whole = op_json(op);
  for (const char* key : {"arguments", "results", "inputs", "outputs", "wall_ns"}) whole.erase(key);
  return json_piece(whole, false);
}

/// `train.py:12`, and which thread or worker stands there, but for the main one.
std::string place_text(const core::OpRecord& op) {
  std::string source = escape_name(core::line_text(op.site.get()));
  if (op.lane == core::kMainLane) return source;
  return source + (source.empty() ? "" : ", ") + core::lane_text(op.lane);
}

/// @param place  only on a terminal: two recordings may have been made in two folders
std::string cells(Form form,
                  const std::string& index,
                  const std::string& name,
                  const std::string& module,
                  const std::string& place,
                  const std::string& last) {
  if (form == Form::kTabs) return fmt::format("{}\t{}\t{}\t{}\n", index, name, module, last);
  return fmt::format("{:>6}  {:<28}  {:<32}  {:<20}  {}\n", index, name, module, place, last);
}

/// @param last  what stands in the last column
std::string heading(Form form, const std::string& last) {
  return cells(form, "op", "operator", "module", "line", last);
}

/// @param depth  by which the name is indented on a terminal
std::string line(const core::OpRecord& op, Form form, std::size_t depth, const std::string& last) {
  const std::size_t indent = form == Form::kTabs ? 0 : 2 * std::min<std::size_t>(depth, 8);
  return cells(form,
               std::to_string(op.index),
               std::string(indent, ' ') + escape_name(full_name(op)),
               module_text(op),
               place_text(op),
               last);
}

bool matches_head(const OpSelection& selection, const core::OpRecord& op) {
  if (selection.operators && !(op.op && (selection.operators->matches(op.op->name) ||
                                         selection.operators->matches(op.op->full_name())))) {
    return false;
  }
  return !selection.modules ||
         selection.modules->matches(op.site ? std::string_view(op.site->module_path) : "");
}

/// A row of what is selected, where row(record) is not empty. What stops it is in the outcome when
/// part of the document has left already, and thrown when not.
template <typename Row>
ListOutcome list_selected(const core::DumpSource& dump,
                          const OpSelection& selection,
                          const char* name,
                          const std::string& heading,
                          Form form,
                          const TextSink& sink,
                          Row row) {
  Json head = inspect_document(dump);
  head["total"] = dump.op_count();
  RowDocument document(head, name, form, sink, heading);
  ListOutcome outcome;
  Json tail = Json::object();
  const bool filters_heads = selection.operators || selection.modules;
  try {
    const std::uint64_t end = std::min(selection.end, dump.op_count());
    for (std::uint64_t index = selection.first; index < end; ++index) {
      if (filters_heads && !matches_head(selection, dump.op_head(index))) continue;
      const core::OpRecord op = dump.op(index);
      // A condition is asked of operators, and what a call returned is none.
      if (selection.where && core::is_returned(op)) continue;
      const Answer answer = selection.where ? selection.where->of(op) : Answer::kYes;
      if (answer == Answer::kUnknown) ++outcome.unknown;
      if (answer != Answer::kYes) continue;
      const std::string text = row(op);
      if (!text.empty()) document.add(text);
    }
  } catch (const core::Error& error) {
    if (!document.begun()) throw;
    outcome.failure = error;
    tail["failed"] = clean_utf8(error.what());
  }
  outcome.shown = document.rows();
  tail["shown"] = outcome.shown;
  if (selection.where) tail["unknown"] = outcome.unknown;
  document.finish(tail);
  return outcome;
}

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

constexpr std::array kOutputFields{
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

struct Sign {
  std::string_view sign;
  bool (*holds)(double, double);
  bool takes_words = false;
};
// Longer signs first: `>` is the beginning of `>=`.
constexpr std::array kRelations{Sign{">=", [](double a, double b) { return a >= b; }},
                                Sign{"<=", [](double a, double b) { return a <= b; }},
                                Sign{"==", [](double a, double b) { return a == b; }, true},
                                Sign{"!=", [](double a, double b) { return a != b; }, true},
                                Sign{">", [](double a, double b) { return a > b; }},
                                Sign{"<", [](double a, double b) { return a < b; }},
                                Sign{"=", [](double a, double b) { return a == b; }, true}};

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
    throw core::usage_error(fmt::format("--where {}: {} {}", core::printable(text_, 80), what, at),
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
    const auto* found = std::ranges::find(kOutputFields, name, &Field::name);
    if (found == kOutputFields.end()) {
      std::vector<std::string> names;
      names.reserve(kOutputFields.size());
      for (const Field& known : kOutputFields) names.emplace_back(known.name);
      refuse(name.empty() ? "expected a field" : "there is no such field",
             near_hint(std::string(name), names, "fields: " + joined(names, ", ")));
    }
    rest_.remove_prefix(name.size());
    return *found;
  }

  const Sign& relation(const Field& field) {
    for (const Sign& known : kRelations) {
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
    const auto number = core::parse_number<double>(digits);
    if (!number) refuse("expected a number");
    if (std::isnan(*number)) refuse("nothing is equal to NaN", "NaN are counted: --where 'nan>0'");
    return *number;
  }

  const std::string& text_;
  std::string_view rest_;
};

std::optional<std::uint64_t> parse_index(std::string_view text, std::uint64_t when_empty) {
  return text.empty() ? when_empty : core::parse_number<std::uint64_t>(text);
}

/// Of operators, by what their outputs hold.
struct Tally {
  std::uint64_t operators = 0;
  std::uint64_t nan = 0;      ///< with a NaN in an output
  std::uint64_t inf = 0;      ///< with an infinity
  std::uint64_t unknown = 0;  ///< with an output in which nobody counted them

  void add(const Tally& other) {
    operators += other.operators;
    nan += other.nan;
    inf += other.inf;
    unknown += other.unknown;
  }
};

struct Module {
  std::string path;   ///< empty for the root
  std::string label;  ///< its last part
  std::string type = {};
  std::size_t depth = 0;
  Tally own = {};    ///< called by the module itself
  Tally total = {};  ///< and by those inside it
  std::vector<Module*> inside = {};
};

Tally tally_of(const core::OpRecord& op) {
  Tally tally{1};
  for (const core::TensorRecord& tensor : op.tensors) {
    if (tensor.role != core::TensorRole::kOutput) continue;
    const auto counts = tensor.non_finite();
    if (tensor.state == core::ContentState::kHashed && !counts) tally.unknown = 1;
    if (counts && counts->nans > 0) tally.nan = 1;
    if (counts && counts->infs() > 0) tally.inf = 1;
  }
  return tally;
}

class ModuleTree {
 public:
  ModuleTree() { by_path_.emplace("", &modules_.emplace_back()); }

  void see(const core::OpRecord& op) {
    Module& module = find(op.site ? op.site->module_path : "");
    if (op.site && module.type.empty()) module.type = op.site->module_type;
    module.own.add(tally_of(op));
  }

  /// The root first, each before those inside it.
  std::vector<Module*> finish() {
    std::vector<Module*> open{&modules_.front()};
    std::vector<Module*> order;
    while (!open.empty()) {
      order.push_back(open.back());
      open.pop_back();
      const std::vector<Module*>& inside = order.back()->inside;
      open.insert(open.end(), inside.rbegin(), inside.rend());
    }
    // NOLINTNEXTLINE(modernize-loop-convert): clang 14 cannot read GCC's std::views
    for (auto module = order.rbegin(); module != order.rend(); ++module) {
      (*module)->total.add((*module)->own);
      for (const Module* inner : (*module)->inside) (*module)->total.add(inner->total);
    }
    return order;
  }

 private:
  Module& find(const std::string& path) {
    /// What lies deeper is one module: a path of a damaged dump may be all dots.
    constexpr std::size_t kDeepest = 256;
    const auto found = by_path_.find(path);
    if (found != by_path_.end()) return *found->second;
    Module* at = &modules_.front();
    std::size_t begin = 0;
    while (at->depth < kDeepest) {
      const std::size_t dot = at->depth + 1 < kDeepest ? path.find('.', begin) : std::string::npos;
      Module*& place = by_path_[path.substr(0, dot)];
      if (place == nullptr) {
        place = &modules_.emplace_back(
            Module{path.substr(0, dot), path.substr(begin, dot - begin), {}, at->depth + 1});
        at->inside.push_back(place);
      }
      at = place;
      if (dot == std::string::npos) break;
      begin = dot + 1;
    }
    return *at;
  }

  std::deque<Module> modules_;
  std::unordered_map<std::string, Module*> by_path_;
};

std::string line_of(const Module& module, Form form) {
  const Tally& total = module.total;
  const std::string path = module.path.empty() ? "(root)" : escape_name(module.path);
  const std::string type = escape_name(module.type);
  if (form == Form::kTabs) {
    // Nothing is said of NaN where nobody counted.
    const auto known = [&](std::uint64_t count) {
      return count == 0 && total.unknown > 0 ? "?" : std::to_string(count);
    };
    return fmt::format("{}\t{}\t{}\t{}\t", path, type, total.operators, module.own.operators) +
           known(total.nan) + "\t" + known(total.inf) + "\n";
  }
  constexpr std::size_t kMostIndent = 32;
  std::string text =
      fmt::format("{:>9}  {:{}}", total.operators, "", 2 * std::min(module.depth, kMostIndent));
  text += module.path.empty() ? path : escape_name(module.label);
  if (!type.empty()) text += " (" + type + ")";
  if (total.nan > 0) text += fmt::format("  NaN in {}", total.nan);
  if (total.inf > 0) text += fmt::format("  Inf in {}", total.inf);
  if (total.unknown > 0) text += fmt::format("  unknown in {}", total.unknown);
  return text + "\n";
}

Json module_json(const Module& module) {
  const auto known = [&](std::uint64_t count) {
    return count == 0 && module.total.unknown > 0 ? Json(nullptr) : Json(count);
  };
  return {{"path", json_text(module.path)},
          {"type", json_text(module.type)},
          {"depth", module.depth},
          {"operators", module.total.operators},
          {"own_operators", module.own.operators},
          {"nan", known(module.total.nan)},
          {"inf", known(module.total.inf)},
          {"uncounted", module.total.unknown}};
}

}  // namespace

ListOutcome list_operators(const core::DumpSource& dump,
                           const OpSelection& selection,
                           Form form,
                           const TextSink& sink) {
  const std::string head = heading(form, "outputs");
  return list_selected(dump, selection, "ops", head, form, sink, [&](const core::OpRecord& op) {
    return is_json(form) ? op_text(op)
                         : line(op, form, op.depth, outputs_text(op, form == Form::kTabs));
  });
}

ListOutcome list_generators(const core::DumpSource& dump,
                            const OpSelection& selection,
                            Form form,
                            const TextSink& sink) {
  const std::string gap = form == Form::kTabs ? "\t" : "  ";
  const std::string head = heading(
      form,
      joined({"device", "seed", "position before", "position after", "drawn", "replaced"}, gap));
  const auto row = [&](const core::OpRecord& op) {
    if (!draws(op)) return std::string();
    return is_json(form) ? draw_json(op) : line(op, form, 0, draw_text(op, form));
  };
  return list_selected(dump, selection, "generators", head, form, sink, row);
}

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
  throw core::usage_error("--range " + text + ": expected FIRST:END with FIRST before END",
                          "--range 40:60 is op 40 to op 59; either number may be left out");
}

void list_modules(const core::DumpSource& dump, Form form, const TextSink& sink) {
  ModuleTree tree;
  for (std::uint64_t i = 0; i < dump.op_count(); ++i) {
    const core::OpRecord op = dump.op(i);
    if (!core::is_returned(op)) tree.see(op);
  }
  RowDocument document(inspect_document(dump), "modules", form, sink);
  for (const Module* module : tree.finish()) {
    document.add(is_json(form) ? json_piece(module_json(*module), false) : line_of(*module, form));
  }
  document.finish();
}

}  // namespace repro_check::cmd
