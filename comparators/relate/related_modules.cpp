// SPDX-License-Identifier: Apache-2.0
#include "comparators/relate/related_modules.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "core/tensor/tensor_record.h"

namespace repro_check::comparators {
namespace {

/// `layers.#.mlp` and 3 of `layers.3.mlp`.
struct Pattern {
  std::string text;
  std::vector<std::int64_t> numbers;

  explicit Pattern(std::string_view path) {
    for (std::size_t i = 0; i < path.size();) {
      const bool begins = i == 0 || path[i - 1] == '.';
      std::size_t end = i;
      while (end < path.size() && path[end] >= '0' && path[end] <= '9') ++end;
      const bool is_number =
          begins && end > i && end - i < 10 && (end == path.size() || path[end] == '.');
      if (!is_number) {
        text += path[i++];
        continue;
      }
      text += '#';
      numbers.push_back(std::stoll(std::string(path.substr(i, end - i))));
      i = end;
    }
  }
};

/// Operators that do the same to their features.
std::string_view kind_of_maker(std::string_view maker) {
  constexpr std::array<std::string_view, 6> kProducts{
      "linear", "addmm", "mm", "matmul", "bmm", "baddbmm"};
  if (maker.ends_with('_')) maker.remove_suffix(1);
  if (std::ranges::find(kProducts, maker) != kProducts.end()) return "product";
  return maker;
}

class ModuleRelator {
 public:
  ModuleRelator(const ForwardPass& a,
                const WeightSide& weights_a,
                const ForwardPass& b,
                const WeightSide& weights_b,
                std::span<const RelatedWeight> relations)
      : a_(a), b_(b), weights_a_(weights_a), weights_b_(weights_b), relations_(relations) {
    for (std::size_t i = 0; i < weights_a.weights.size(); ++i) index_a_[name_a(i)] = i;
    for (std::size_t i = 0; i < weights_b.weights.size(); ++i) {
      index_b_[weights_b.weights[i].name] = i;
    }
    for (const RelatedWeight& relation : relations) by_weight_[relation.receiver] = &relation;
    for (std::size_t i = 0; i < a.calls.size(); ++i) {
      for (const std::string& name : a.calls[i].weights) {
        if (const auto at = index_a_.find(name); at != index_a_.end())
          readers_[at->second].insert(i);
      }
    }
  }

  RelatedModules relate() {
    by_fusion();
    by_content();
    by_pattern();
    by_order();
    for (auto& [call, module] : found_) note_weights(module);
    by_parts();
    by_name();
    return result();
  }

 private:
  using Key = std::pair<core::ContentKey, bool>;
  /// A call of B, and the segment of its telling weight.
  struct Part {
    std::size_t call = 0;
    const Segment* segment = nullptr;
  };

  [[nodiscard]] const std::string& name_a(std::size_t weight) const {
    return weights_a_.weights[weight].name;
  }

  static std::uint64_t elements(const Weight& weight) {
    return static_cast<std::uint64_t>(core::element_count(weight.last().content.shape));
  }

  /// The largest of the weights that a call reads.
  static std::optional<std::size_t> main_weight(const ModuleCall& call,
                                                const WeightSide& side,
                                                const std::map<std::string, std::size_t>& index) {
    std::optional<std::size_t> best;
    for (const std::string& name : call.weights) {
      const auto found = index.find(name);
      if (found == index.end()) continue;
      if (!best || elements(side.weights[found->second]) > elements(side.weights[*best])) {
        best = found->second;
      }
    }
    return best;
  }
  [[nodiscard]] std::optional<std::size_t> main_of_b(const ModuleCall& call) const {
    return main_weight(call, weights_b_, index_b_);
  }
  [[nodiscard]] std::optional<std::size_t> main_of_a(const ModuleCall& call) const {
    return main_weight(call, weights_a_, index_a_);
  }

  [[nodiscard]] const RelatedWeight* relation_of(std::size_t weight) const {
    const auto found = by_weight_.find(weight);
    return found == by_weight_.end() ? nullptr : found->second;
  }

  /// Calls of A that read what a call of B reads together; those of its largest weight alone where
  /// `only_main`.
  [[nodiscard]] std::set<std::size_t> readers_of(const ModuleCall& call, bool only_main) const {
    std::set<std::size_t> readers;
    const auto main = main_of_b(call);
    for (const std::string& name : call.weights) {
      const auto at = index_b_.find(name);
      const RelatedWeight* relation = at == index_b_.end() || (only_main && at->second != main)
                                          ? nullptr
                                          : relation_of(at->second);
      if (relation == nullptr) continue;
      for (const Segment& segment : relation->segments) {
        const auto known = readers_.find(segment.source);
        if (known != readers_.end()) readers.insert(known->second.begin(), known->second.end());
      }
    }
    return readers;
  }

  /// A call of B that computes with the weights of several layers of A: what the call around these
  /// gives, where it is around nothing else, or else the last of them.
  void by_fusion() {
    for (std::size_t i = 0; i < b_.calls.size(); ++i) {
      const ModuleCall& call = b_.calls[i];
      const std::set<std::size_t> readers = readers_of(call, false);
      if (!call.output || readers.size() == readers_of(call, true).size()) continue;
      const auto a = call_of_all(readers, i);
      if (!a) continue;
      RelatedModule module{i, {*a}, ModuleTie::kParts, whole(i, *a), {}};
      if (module.parts.empty()) continue;
      taken_.insert(readers.begin(), readers.end());
      take_a(module);
      found_.emplace(i, std::move(module));
    }
  }

  [[nodiscard]] std::optional<std::size_t> call_of_all(const std::set<std::size_t>& readers,
                                                       std::size_t b) const {
    const auto holds_all = [&](std::size_t outer) {
      return std::ranges::all_of(
          readers, [&](std::size_t each) { return each == outer || is_inside(a_, each, outer); });
    };
    const auto is_of_them = [&](std::size_t call) {
      return a_.calls[call].weights.empty() || readers.contains(call);
    };
    std::optional<std::size_t> around;  // the innermost
    for (std::size_t i = 0; i < a_.calls.size(); ++i) {
      if (holds_all(i)) around = i;
    }
    const auto final = *std::ranges::max_element(
        readers, {}, [&](std::size_t each) { return a_.calls[each].last; });
    bool is_around_more = !around || !is_of_them(*around);
    bool is_interrupted = false;
    for (std::size_t i = 0; i < a_.calls.size(); ++i) {
      if (is_of_them(i)) continue;
      is_around_more = is_around_more || is_inside(a_, i, *around);
      is_interrupted = is_interrupted || (a_.calls[i].first > a_.calls[*readers.begin()].first &&
                                          a_.calls[i].first < a_.calls[final].last);
    }
    if (!is_around_more && (b_.calls[b].is_fused || end_alike(*around, b))) return around;
    if (!is_interrupted && end_alike(final, b)) return final;
    return std::nullopt;
  }

  /// One weight of A may be cut over several modules of B: these are a group.
  static std::vector<std::vector<Part>> grouped(const std::vector<Part>& parts) {
    std::vector<std::vector<Part>> groups;
    for (const Part& part : parts) {
      const auto group = std::ranges::find_if(groups, [&](const std::vector<Part>& each) {
        return std::ranges::none_of(
            each, [&](const Part& other) { return overlap(*other.segment, *part.segment); });
      });
      if (group == groups.end()) {
        groups.push_back({part});
      } else {
        group->push_back(part);
      }
    }
    return groups;
  }

  /// The k-th call of B with a content belongs to the k-th of A.
  void by_content() {
    std::map<Key, std::vector<std::size_t>> calls_a;
    for (std::size_t i = 0; i < a_.calls.size(); ++i) {
      const ModuleCall& call = a_.calls[i];
      if (const auto main = main_of_a(call)) {
        calls_a[{weights_a_.weights[*main].last().content, call.looks_up}].push_back(i);
      }
    }
    std::map<Key, std::vector<Part>> parts_b;
    for (std::size_t i = 0; i < b_.calls.size(); ++i) {
      const ModuleCall& call = b_.calls[i];
      const auto main = main_of_b(call);
      const RelatedWeight* relation = main ? relation_of(*main) : nullptr;
      if (relation == nullptr) continue;
      std::set<std::size_t> seen;
      for (const Segment& segment : relation->segments) {
        if (!seen.insert(segment.source).second) continue;
        const core::ContentKey& content = weights_a_.weights[segment.source].last().content;
        parts_b[{content, call.looks_up}].push_back({i, &segment});
      }
    }
    std::map<std::size_t, std::map<std::size_t, std::size_t>>
        sources;  // by call of B: weight, call
    for (const auto& [key, parts] : parts_b) {
      const auto there = calls_a.find(key);
      if (there == calls_a.end()) continue;
      const std::vector<std::vector<Part>> groups = grouped(parts);
      if (groups.size() != there->second.size()) continue;
      for (std::size_t k = 0; k < groups.size(); ++k) {
        for (const Part& part : groups[k]) {
          sources[part.call][part.segment->source] = there->second[k];
        }
      }
    }
    for (const auto& [call, of_weight] : sources) {
      const std::size_t main = *main_of_b(b_.calls[call]);
      take_parts(call, *relation_of(main), weights_b_.weights[main], of_weight);
    }
  }

  static bool has_factors(const RelatedWeight& relation) {
    return std::ranges::any_of(relation.segments, &Segment::has_factors);
  }

  /// A normalisation was folded into the weight: the output is that of the call that normalises.
  void go_behind_norm(RelatedModule& module) {
    const auto& folded = a_.calls[module.a.front()].output;
    const auto norm = std::ranges::find_if(a_.calls, [&](const ModuleCall& call) {
      return folded && call.input && call.output && call.input->content == folded->content &&
             call.output->maker.find("norm") != std::string::npos;
    });
    if (module.a.size() != 1 || norm == a_.calls.end()) return;
    take_a(module);
    module.folded = module.a.front();
    module.a = {static_cast<std::size_t>(norm - a_.calls.begin())};
    module.parts = whole(module.b, module.a.front());
  }

  static bool overlap(const Segment& one, const Segment& other) {
    return one.axis != other.axis ||
           (one.from < other.from + other.rows && other.from < one.from + one.rows);
  }

  void take_parts(std::size_t call,
                  const RelatedWeight& relation,
                  const Weight& weight,
                  const std::map<std::size_t, std::size_t>& of_weight) {
    RelatedModule module{call, {}, ModuleTie::kWeights, {}, {}};
    for (const Segment& segment : relation.segments) {
      const auto found = of_weight.find(segment.source);
      if (found == of_weight.end()) continue;
      if (std::ranges::find(module.a, found->second) == module.a.end()) {
        module.a.push_back(found->second);
      }
    }
    if (has_factors(relation)) {
      go_behind_norm(module);
    } else {
      module.parts = features(module, relation, weight, of_weight);
    }
    take_a(module);
    found_.emplace(call, std::move(module));
  }

  [[nodiscard]] std::vector<FeatureRange> features(
      const RelatedModule& module,
      const RelatedWeight& relation,
      const Weight& weight,
      const std::map<std::size_t, std::size_t>& of_weight) const {
    const auto& output = b_.calls[module.b].output;
    if (!output) return {};
    if (module.a.size() == 1) {
      const Segment& first = relation.segments.front();
      const std::vector<std::int64_t>& source =
          weights_a_.weights[first.source].last().content.shape;
      const bool same_size =
          core::element_count(source) == core::element_count(weight.last().content.shape);
      if (same_size || b_.calls[module.b].looks_up) return whole(module.b, module.a.front());
    }
    // The axis that is cut has to be that of the features, on both sides.
    if (relation.rows != output->width()) return {};
    std::vector<FeatureRange> parts;
    for (const Segment& segment : relation.segments) {
      const auto found = of_weight.find(segment.source);
      if (found == of_weight.end()) continue;
      const auto& made = a_.calls[found->second].output;
      const std::vector<std::int64_t>& source =
          weights_a_.weights[segment.source].last().content.shape;
      if (!made || source.empty() || row_count(source, segment.axis) != made->width()) return {};
      parts.push_back({segment.begin, segment.rows, found->second, segment.from});
    }
    fill_gap(relation, weight, of_weight, parts);
    return parts;
  }

  /// Rows with other values lie where the source has rows that nothing else takes.
  void fill_gap(const RelatedWeight& relation,
                const Weight& weight,
                const std::map<std::size_t, std::size_t>& of_weight,
                std::vector<FeatureRange>& parts) const {
    if (of_weight.size() != 1 || relation.segments.empty()) return;
    const Segment& first = relation.segments.front();
    if (weights_a_.weights[first.source].last().content.shape != weight.last().content.shape)
      return;
    if (std::ranges::all_of(parts, [](const auto& part) { return part.begin == part.from; })) {
      parts = {{0, relation.rows, parts.front().call, 0}};
    }
  }

  [[nodiscard]] std::vector<FeatureRange> whole(std::size_t b, std::size_t a) const {
    const auto& one = a_.calls[a].output;
    const auto& other = b_.calls[b].output;
    if (!one || !other || one->width() != other->width()) return {};
    return {{0, other->width(), a, 0}};
  }

  void take_a(const RelatedModule& module) { taken_.insert(module.a.begin(), module.a.end()); }

  /// Whose siblings are related, as these are.
  void by_pattern() {
    std::map<std::string, std::vector<std::size_t>> siblings;
    for (const auto& [call, module] : found_) {
      siblings[Pattern(b_.calls[call].path).text].push_back(call);
    }
    for (std::size_t i = 0; i < b_.calls.size(); ++i) {
      if (found_.contains(i) || b_.calls[i].weights.empty()) continue;
      const Pattern own(b_.calls[i].path);
      const auto known = siblings.find(own.text);
      if (known == siblings.end()) continue;
      for (const std::size_t sibling : known->second) {
        if (auto module = like(found_.at(sibling), own, i)) {
          take_a(*module);
          found_.emplace(i, std::move(*module));
          break;
        }
      }
    }
  }

  [[nodiscard]] std::optional<RelatedModule> like(const RelatedModule& sibling,
                                                  const Pattern& own,
                                                  std::size_t call) const {
    const Pattern theirs(b_.calls[sibling.b].path);
    RelatedModule module{call, {}, ModuleTie::kPattern, sibling.parts, {}};
    for (const std::size_t of_sibling : sibling.a) {
      Pattern wanted(a_.calls[of_sibling].path);
      if (wanted.numbers.size() != own.numbers.size()) return std::nullopt;
      for (std::size_t k = 0; k < own.numbers.size(); ++k) {
        wanted.numbers[k] += own.numbers[k] - theirs.numbers[k];
      }
      const auto found = std::ranges::find_if(a_.calls, [&](const ModuleCall& each) {
        const Pattern pattern(each.path);
        return pattern.text == wanted.text && pattern.numbers == wanted.numbers;
      });
      if (found == a_.calls.end()) return std::nullopt;
      const auto index = static_cast<std::size_t>(found - a_.calls.begin());
      module.a.push_back(index);
      for (FeatureRange& part : module.parts) {
        if (part.call == of_sibling) part.call = index;
      }
    }
    // The sibling may be wider.
    if (!std::ranges::all_of(module.parts, [&](const auto& part) { return fits(part, call); })) {
      module.parts =
          module.a.size() == 1 ? whole(call, module.a.front()) : std::vector<FeatureRange>();
    }
    return module;
  }

  [[nodiscard]] bool fits(const FeatureRange& part, std::size_t b) const {
    const auto& one = a_.calls[part.call].output;
    const auto& other = b_.calls[b].output;
    return one && other && part.from + part.count <= one->width() &&
           part.begin + part.count <= other->width();
  }

  [[nodiscard]] std::vector<std::int64_t> main_shape(const ModuleCall& call, bool of_b) const {
    const auto main = of_b ? main_of_b(call) : main_of_a(call);
    if (!main) return {};
    return (of_b ? weights_b_ : weights_a_).weights[*main].last().content.shape;
  }

  /// Calls of A between two operators that nothing is related to, with a weight of this shape.
  [[nodiscard]] std::vector<std::size_t> open_calls(const std::vector<std::int64_t>& shape,
                                                    bool looks_up,
                                                    std::uint64_t from,
                                                    std::uint64_t to) const {
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < a_.calls.size(); ++i) {
      const ModuleCall& call = a_.calls[i];
      const bool is_open = !taken_.contains(i) && !call.weights.empty() && call.first >= from &&
                           call.last < to && call.looks_up == looks_up;
      if (is_open && main_shape(call, false) == shape) open.push_back(i);
    }
    return open;
  }

  /// Between two related modules, as many of one shape on both sides, in their order.
  void by_order() {
    std::map<std::size_t, RelatedModule> more;
    std::vector<std::size_t> open;
    const auto settle = [&](std::uint64_t from, std::uint64_t to) {
      std::map<std::vector<std::int64_t>, std::vector<std::size_t>> theirs;
      for (const std::size_t i : open) theirs[main_shape(b_.calls[i], true)].push_back(i);
      for (const auto& [shape, calls] : theirs) {
        const auto ours = open_calls(shape, b_.calls[calls.front()].looks_up, from, to);
        if (shape.empty() || ours.size() != calls.size()) continue;
        for (std::size_t k = 0; k < calls.size(); ++k) {
          more.emplace(
              calls[k],
              RelatedModule{calls[k], {ours[k]}, ModuleTie::kOrder, whole(calls[k], ours[k]), {}});
        }
      }
      open.clear();
    };
    std::uint64_t from = 0;
    for (std::size_t i = 0; i < b_.calls.size(); ++i) {
      if (b_.calls[i].weights.empty()) continue;
      const auto known = found_.find(i);
      if (known == found_.end()) {
        open.push_back(i);
        continue;
      }
      std::uint64_t first = std::numeric_limits<std::uint64_t>::max();
      std::uint64_t last = 0;
      for (const std::size_t call : known->second.a) {
        first = std::min(first, a_.calls[call].first);
        last = std::max(last, a_.calls[call].last);
      }
      settle(from, first);
      from = last;
    }
    settle(from, std::numeric_limits<std::uint64_t>::max());
    for (auto& [call, module] : more) {
      take_a(module);
      found_.emplace(call, std::move(module));
    }
  }

  void note_weights(RelatedModule& module) const {
    const auto main = main_of_b(b_.calls[module.b]);
    const RelatedWeight* of_main = main ? relation_of(*main) : nullptr;
    if (of_main != nullptr && has_factors(*of_main)) return;  // and so are the others
    for (const std::string& name : b_.calls[module.b].weights) {
      const auto index = index_b_.find(name);
      if (index == index_b_.end()) continue;
      const RelatedWeight* relation = relation_of(index->second);
      if (relation == nullptr) continue;
      const bool earlier = std::ranges::any_of(relation->segments, [&](const Segment& segment) {
        return segment.version + 1 < weights_a_.weights[segment.source].versions.size();
      });
      if (earlier || (relation->related_rows() < relation->rows && !is_extended(*relation))) {
        module.other_weights.push_back(index->second);
      }
    }
  }

  /// A vocabulary with more rows behind those of A, as padding makes it.
  [[nodiscard]] bool is_extended(const RelatedWeight& relation) const {
    if (relation.segments.size() != 1) return false;
    const Segment& only = relation.segments.front();
    const auto& source = weights_a_.weights[only.source].last().content.shape;
    return only.begin == 0 && only.from == 0 && !source.empty() &&
           row_count(source, only.axis) == only.rows;
  }

  static bool is_inside(const ForwardPass& pass, std::size_t call, std::size_t outer) {
    const ModuleCall& of = pass.calls[outer];
    return call > outer && pass.calls[call].first >= of.first && pass.calls[call].last <= of.last &&
           pass.calls[call].path.starts_with(of.path);
  }

  /// Related calls with weights inside of a call.
  static std::map<std::set<std::size_t>, std::vector<std::size_t>> contents_of(
      const ForwardPass& pass, const std::vector<std::pair<std::size_t, std::size_t>>& ties) {
    std::map<std::set<std::size_t>, std::vector<std::size_t>> calls;
    for (std::size_t i = 0; i < pass.calls.size(); ++i) {
      std::set<std::size_t> inside;
      for (const auto& [call, tie] : ties) {
        if (is_inside(pass, call, i)) inside.insert(tie);
      }
      if (!inside.empty()) calls[inside].push_back(i);
    }
    return calls;
  }

  /// Calls around the same related ones. Where these end in the same operator, their results are
  /// the same quantity.
  void by_parts() {
    std::vector<std::pair<std::size_t, std::size_t>> ties_a;
    std::vector<std::pair<std::size_t, std::size_t>> ties_b;
    // Modules of B that share one of A are one tie.
    std::map<std::size_t, std::size_t> tie_of_a;
    for (const auto& [call, module] : found_) {
      std::size_t tie = tie_of_a.size();
      for (const std::size_t one : module.a) {
        if (const auto known = tie_of_a.find(one); known != tie_of_a.end()) tie = known->second;
      }
      for (const std::size_t one : module.a) {
        if (tie_of_a.emplace(one, tie).second) ties_a.emplace_back(one, tie);
      }
      ties_b.emplace_back(call, tie);
    }
    const auto around_a = contents_of(a_, ties_a);
    std::map<std::size_t, RelatedModule> more;
    for (const auto& [inside, calls_b] : contents_of(b_, ties_b)) {
      const auto same = around_a.find(inside);
      if (same == around_a.end()) continue;
      std::set<std::size_t> used;
      for (const std::size_t call : calls_b) {
        if (found_.contains(call) || !b_.calls[call].output) continue;
        const auto fits = std::ranges::find_if(same->second, [&](std::size_t one) {
          return !used.contains(one) && !taken_.contains(one) && end_alike(one, call);
        });
        if (fits == same->second.end()) continue;
        used.insert(*fits);
        more.emplace(call, RelatedModule{call, {*fits}, ModuleTie::kParts, whole(call, *fits), {}});
      }
    }
    for (auto& [call, module] : more) {
      take_a(module);
      found_.emplace(call, std::move(module));
    }
  }

  [[nodiscard]] bool end_alike(std::size_t a, std::size_t b) const {
    const auto& one = a_.calls[a].output;
    const auto& other = b_.calls[b].output;
    return one && other && one->width() == other->width() &&
           kind_of_maker(one->maker) == kind_of_maker(other->maker);
  }

  /// The innermost call around a call.
  static std::optional<std::size_t> around(const ForwardPass& pass, std::size_t call) {
    for (std::size_t i = call; i-- > 0;) {
      if (pass.calls[i].last >= pass.calls[call].last &&
          pass.calls[i].path == name_above(pass.calls[call].path)) {
        return i;
      }
    }
    return std::nullopt;
  }

  void by_name() {
    for (std::size_t i = 0; i < b_.calls.size(); ++i) {
      const ModuleCall& call = b_.calls[i];
      if (found_.contains(i) || !call.output || !call.weights.empty()) continue;
      const auto outer = around(b_, i);
      const auto of_outer = outer ? found_.find(*outer) : found_.end();
      for (std::size_t k = 0; k < a_.calls.size(); ++k) {
        if (taken_.contains(k) || last_name(a_.calls[k].path) != last_name(call.path)) continue;
        const auto outer_a = around(a_, k);
        const bool same_path = a_.calls[k].path == call.path;
        const bool same_outer = of_outer != found_.end() && outer_a &&
                                of_outer->second.a == std::vector<std::size_t>{*outer_a};
        if (!(same_path || same_outer) || !end_alike(k, i)) continue;
        RelatedModule module{i, {k}, ModuleTie::kName, whole(i, k), {}};
        take_a(module);
        found_.emplace(i, std::move(module));
        break;
      }
    }
  }

  RelatedModules result() {
    RelatedModules result;
    std::set<std::string> counted;
    for (std::size_t i = 0; i < b_.calls.size(); ++i) {
      const auto found = found_.find(i);
      for (const std::string& name : b_.calls[i].weights) {
        const auto index = index_b_.find(name);
        if (index == index_b_.end() || !counted.insert(name).second) continue;
        const std::uint64_t size = elements(weights_b_.weights[index->second]);
        result.elements += size;
        if (found != found_.end()) result.related += size;
        const RelatedWeight* relation = relation_of(index->second);
        if (found == found_.end() || relation == nullptr || relation->rows == 0) continue;
        result.proved += size / relation->rows * relation->related_rows();
      }
      const bool is_module = b_.calls[i].is_leaf || !b_.calls[i].weights.empty();
      if (found == found_.end()) {
        if (b_.calls[i].output && is_module) result.unrelated.push_back(i);
        continue;
      }
      if (found->second.parts.empty() && is_module) result.unrelated.push_back(i);
      result.modules.push_back(std::move(found->second));
    }
    return result;
  }

  const ForwardPass& a_;
  const ForwardPass& b_;
  const WeightSide& weights_a_;
  const WeightSide& weights_b_;
  std::span<const RelatedWeight> relations_;
  std::map<std::string, std::size_t> index_a_;
  std::map<std::string, std::size_t> index_b_;
  std::map<std::size_t, const RelatedWeight*> by_weight_;
  std::map<std::size_t, std::set<std::size_t>> readers_;  ///< by weight of A
  std::map<std::size_t, RelatedModule> found_;            ///< by call of B
  std::set<std::size_t> taken_;                           ///< calls of A
};

}  // namespace

RelatedModules relate_modules(const ForwardPass& a,
                              const WeightSide& weights_a,
                              const ForwardPass& b,
                              const WeightSide& weights_b,
                              std::span<const RelatedWeight> relations) {
  return ModuleRelator(a, weights_a, b, weights_b, relations).relate();
}

}  // namespace repro_check::comparators
