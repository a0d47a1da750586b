// SPDX-License-Identifier: Apache-2.0
#include "comparators/relate/relations.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "comparators/relate/distance.h"
#include "comparators/relate/held_tensors.h"
#include "comparators/relate/row_pairs.h"
#include "core/tensor/element_number.h"

namespace repro_check::comparators {
namespace {

using core::Dtype;

/// The dtype in which a value of the sender and one of the receiver can be equal; kUnknown: none.
/// @param domain  what both are rounded to
bool is_in_domain(Dtype dtype, Dtype domain) noexcept {
  if (dtype == domain) return true;
  return core::is_floating(dtype) && core::is_conversion_target(domain) &&
         core::element_size(dtype) > core::element_size(domain);
}

/// Rows of many tensors, found by their key.
class RowIndex {
 public:
  struct Form {
    std::size_t weight = 0;
    std::size_t version = 0;
    Rows rows;
  };
  struct Place {
    std::uint64_t key = 0;
    std::uint32_t form = 0;
    std::uint32_t row = 0;
  };

  void add(std::size_t weight, std::size_t version, std::vector<Rows> rows) {
    for (Rows& each : rows) {
      const auto form = static_cast<std::uint32_t>(forms_.size());
      for (std::uint32_t row = 0; row < each.keys.size(); ++row) {
        if (!each.constant[row]) places_.push_back({each.keys[row], form, row});
      }
      forms_.push_back({weight, version, std::move(each)});
    }
  }
  void sort() {
    std::ranges::sort(places_, [](const Place& one, const Place& other) {
      return std::tie(one.key, one.form, one.row) < std::tie(other.key, other.form, other.row);
    });
  }
  [[nodiscard]] std::span<const Place> find(std::uint64_t key) const {
    return {std::ranges::lower_bound(places_, key, {}, &Place::key),
            std::ranges::upper_bound(places_, key, {}, &Place::key)};
  }
  [[nodiscard]] const Form& form(const Place& place) const { return forms_[place.form]; }

 private:
  std::vector<Form> forms_;
  std::vector<Place> places_;
};

/// What one weight of the receiver looks like along one of its axes, and what is known of it.
struct AxisSearch {
  Rows rows;
  std::vector<bool> covered;
  std::vector<Segment> found;
  std::uint64_t count = 0;  ///< rows covered

  void cover(const Segment& segment) {
    std::fill_n(covered.begin() + static_cast<std::ptrdiff_t>(segment.begin), segment.rows, true);
    count += segment.rows;
    found.push_back(segment);
  }
};

bool tells(const Rows& rows, std::uint64_t begin, std::uint64_t count) {
  if (count * rows.width < kTellingElements) return false;
  const auto first = rows.keys.begin() + static_cast<std::ptrdiff_t>(begin);
  return rows.width > 1 || std::any_of(first,
                                       first + static_cast<std::ptrdiff_t>(count),
                                       [&](std::uint64_t key) { return key != *first; });
}

/// In root mean square, relative to what is rounded.
double merged_bound(Dtype dtype) { return kMergedUlps * roundoff(dtype); }

/// The rows of a matrix of the receiver, to be explained as sums of a weight and its adapter.
class Sums {
 public:
  /// @param axis  0, or 1 for the columns
  Sums(const HeldTensor& tensor, std::size_t axis)
      : dtype_(tensor.dtype),
        rows_(row_count(tensor.shape, axis)),
        width_(row_count(tensor.shape, 1 - axis)),
        numbers_(core::numbers_of(tensor.dtype, tensor.bytes)) {
    if (axis == 0) return;
    std::vector<double> turned(numbers_.size());
    for (std::uint64_t row = 0; row < rows_; ++row) {
      for (std::uint64_t j = 0; j < width_; ++j) {
        turned[(row * width_) + j] = numbers_[(j * rows_) + row];
      }
    }
    numbers_ = std::move(turned);
  }

  [[nodiscard]] std::uint64_t rows() const noexcept { return rows_; }
  [[nodiscard]] std::uint64_t width() const noexcept { return width_; }

  /// The factor of least squares with which the product of `up` and `down`, added to `base`, gives
  /// the rows from `begin` on; 0 where none does.
  /// @param base  [n, width], n rows from `begin` on being there
  /// @param down  [rank, width]
  /// @param up    [n, rank]
  [[nodiscard]] double scale_of(std::uint64_t begin,
                                const std::vector<double>& base,
                                const std::vector<double>& down,
                                const std::vector<double>& up) const {
    const std::size_t rank = down.size() / width_;
    const double* const sum = numbers_.data() + (begin * width_);
    std::vector<double> product(base.size());
    for (std::size_t row = 0; row < base.size() / width_; ++row) {
      for (std::size_t k = 0; k < rank; ++k) {
        const double factor = up[(row * rank) + k];
        for (std::size_t j = 0; j < width_; ++j) {
          product[(row * width_) + j] += factor * down[(k * width_) + j];
        }
      }
    }
    double along = 0;
    double square = 0;
    double size = 0;
    for (std::size_t e = 0; e < base.size(); ++e) {
      along += (sum[e] - base[e]) * product[e];
      square += product[e] * product[e];
      size += sum[e] * sum[e];
    }
    if (!(square > 0)) return 0;
    const double scale = along / square;
    double rest = 0;
    for (std::size_t e = 0; e < base.size(); ++e) {
      const double off = sum[e] - base[e] - (scale * product[e]);
      rest += off * off;
    }
    const double bound = merged_bound(dtype_);
    // What it explains stands out of the rounding, by ten standard errors.
    const bool is_seen = scale * scale * square * static_cast<double>(base.size()) > 100 * rest;
    return is_seen && rest <= bound * bound * size ? scale : 0;
  }

 private:
  Dtype dtype_;
  std::uint64_t rows_;
  std::uint64_t width_;
  std::vector<double> numbers_;
};

/// Whether each row of `b` is that of `a` times a number, up to the rounding of `dtype`.
bool have_row_factors(std::span<const double> a,
                      std::span<const double> b,
                      std::size_t width,
                      Dtype dtype) {
  const double bound = merged_bound(dtype);
  for (std::size_t begin = 0; begin < a.size(); begin += width) {
    double along = 0;
    double square = 0;
    double size = 0;
    for (std::size_t e = begin; e < begin + width; ++e) {
      along += a[e] * b[e];
      square += a[e] * a[e];
      size += b[e] * b[e];
    }
    const double factor = square > 0 ? along / square : 0;
    double rest = 0;
    for (std::size_t e = begin; e < begin + width; ++e) {
      const double off = b[e] - (factor * a[e]);
      rest += off * off;
    }
    if (!(rest <= bound * bound * size)) return false;
  }
  return true;
}

bool names_adapter(std::string_view name) {
  return name.find("lora") != std::string_view::npos ||
         name.find("adapter") != std::string_view::npos;
}

class Relator {
 public:
  Relator(const WeightSide& sender, const WeightSide& receiver)
      : sender_(sender), receiver_(receiver), sent_(sender), received_(receiver) {
    for (std::size_t i = 0; i < sender.weights.size(); ++i) {
      by_name_.emplace(sender.weights[i].name, i);
      versions_ = std::max(versions_, sender.weights[i].versions.size());
      for (std::size_t v = 0; v < sender.weights[i].versions.size(); ++v) {
        by_content_[sender.weights[i].versions[v].content].emplace_back(i, v);
      }
    }
  }

  std::vector<RelatedWeight> relate(bool with_factors) {
    related_.resize(receiver_.weights.size());
    for (std::size_t i = 0; i < related_.size(); ++i) begin(i);
    for (std::size_t back = 0; back < versions_ && !all_related(); ++back) {
      for (const Dtype domain : domains()) look_in(back, domain);
    }
    const std::vector<Adapter> adapters = adapters_of(sender_);
    for (std::size_t i = 0; i < related_.size(); ++i) {
      if (is_open(i)) look_for_sums(i, adapters);
      if (is_open(i) && related_[i].segments.empty()) go_by_neighbours(i);
      if (with_factors && is_open(i) && related_[i].segments.empty()) look_for_factors(i);
    }
    return std::move(related_);
  }

 private:
  [[nodiscard]] const WeightVersion& last(std::size_t receiver) const {
    return receiver_.weights[receiver].last();
  }
  [[nodiscard]] bool is_open(std::size_t i) const {
    return related_[i].is_readable && related_[i].related_rows() < related_[i].rows;
  }
  [[nodiscard]] bool all_related() const {
    for (std::size_t i = 0; i < related_.size(); ++i) {
      if (is_open(i)) return false;
    }
    return true;
  }

  /// What equal digests say.
  void begin(std::size_t i) {
    RelatedWeight& related = related_[i];
    related.receiver = i;
    const WeightVersion& held = last(i);
    const std::vector<std::int64_t>& shape = held.content.shape;
    related.rows = shape.empty() ? 1 : row_count(shape, 0);
    if (core::element_count(shape) == 0) related.rows = 0;
    if (const auto same = by_content_.find(held.content); same != by_content_.end()) {
      // Its own name first, then the latest values.
      const auto best = std::ranges::min_element(same->second, {}, [&](const auto& one) {
        const Weight& weight = sender_.weights[one.first];
        return std::pair(weight.name != receiver_.weights[i].name,
                         weight.versions.size() - one.second);
      });
      const Weight& source = sender_.weights[best->first];
      const bool is_last = best->second + 1 == source.versions.size();
      // A bias of zeros was any bias once.
      if (is_last || source.name == receiver_.weights[i].name || tells_alone(i)) {
        related.segments.push_back(
            {0, related.rows, best->first, best->second, 0, 0, Dtype::kUnknown});
        return;
      }
    }
    const bool can_be_sent = std::ranges::any_of(sender_.weights, [](const Weight& weight) {
      return std::ranges::any_of(weight.versions, &WeightVersion::stored);
    });
    related.is_readable = held.stored && can_be_sent;
  }

  /// Whether a value is one weight's, as far as anybody can know without its bytes.
  bool tells_alone(std::size_t i) {
    const WeightVersion& held = last(i);
    const auto elements = static_cast<std::uint64_t>(core::element_count(held.content.shape));
    if (elements < kTellingElements || !held.stored) return elements >= kTellingElements;
    return !received_.of(i, receiver_.weights[i].versions.size() - 1).is_constant();
  }

  /// What the values of both sides may have been rounded to, the widest first.
  [[nodiscard]] std::vector<Dtype> domains() const {
    std::set<Dtype> asked{Dtype::kBFloat16, Dtype::kFloat16};
    for (std::size_t i = 0; i < related_.size(); ++i) {
      if (is_open(i)) asked.insert(last(i).content.dtype);
    }
    for (const Weight& weight : sender_.weights) asked.insert(weight.last().content.dtype);
    std::vector<Dtype> list(asked.begin(), asked.end());
    std::ranges::stable_sort(list, std::ranges::greater{}, core::element_size);
    return list;
  }

  /// Looks for rows of the sender's values that many before the last, as `domain` has them.
  void look_in(std::size_t back, Dtype domain) {
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < related_.size(); ++i) {
      if (is_open(i) && is_in_domain(last(i).content.dtype, domain)) open.push_back(i);
    }
    if (open.empty()) return;
    RowIndex index;
    for (std::size_t i = 0; i < sender_.weights.size(); ++i) {
      const Weight& weight = sender_.weights[i];
      if (weight.versions.size() <= back) continue;
      const std::size_t version = weight.versions.size() - 1 - back;
      const WeightVersion& held = weight.versions[version];
      if (!held.stored || !is_in_domain(held.content.dtype, domain)) continue;
      index.add(i, version, rows_of(sent_.of(i, version).as(domain).view()));
    }
    index.sort();
    for (const std::size_t i : open) look_for(i, index, domain);
  }

  void look_for(std::size_t i, const RowIndex& index, Dtype domain) {
    RelatedWeight& related = related_[i];
    const std::size_t version = receiver_.weights[i].versions.size() - 1;
    const HeldTensor tensor = received_.of(i, version);
    std::optional<AxisSearch> best;
    for (Rows& rows : rows_of(tensor.as(domain).view())) {
      // What is cut along one axis is cut along it everywhere.
      if (!related.segments.empty() && rows.axis != related.axis) continue;
      AxisSearch search{std::move(rows), {}, {}, 0};
      search.covered.resize(search.rows.keys.size());
      for (const Segment& segment : related.segments) search.cover(segment);
      find(tensor, index, domain, search);
      const auto share = [](const AxisSearch& of) {
        return static_cast<double>(of.count) / static_cast<double>(of.covered.size());
      };
      if (!best || share(search) > share(*best) ||
          (share(search) == share(*best) && search.found.size() < best->found.size())) {
        best = std::move(search);
      }
    }
    if (!best || best->found.size() == related.segments.size()) return;
    related.axis = best->rows.axis;
    related.rows = best->rows.keys.size();
    related.segments = std::move(best->found);
    std::ranges::sort(related.segments, {}, &Segment::begin);
  }

  /// The longest runs of rows that lie in a row in one tensor of the sender.
  void find(const HeldTensor& tensor, const RowIndex& index, Dtype domain, AxisSearch& search) {
    constexpr std::size_t kMostPlaces = 64;
    constexpr std::size_t kMostRefuted = 16;  // rows with the same elements in another order
    std::size_t refuted = 0;
    const Rows& rows = search.rows;
    for (std::uint64_t row = 0; row < rows.keys.size() && refuted < kMostRefuted;) {
      std::optional<Segment> best;
      if (!search.covered[row] && !rows.constant[row]) {
        const auto places = index.find(rows.keys[row]);
        for (const RowIndex::Place& place : places.first(std::min(places.size(), kMostPlaces))) {
          const Segment segment = run(search, row, index.form(place), place.row);
          if (segment.rows > (best ? best->rows : 0)) best = segment;
        }
      }
      if (!best || !tells(rows, best->begin, best->rows)) {
        ++row;
      } else if (prove(tensor, rows.axis, domain, *best)) {
        search.cover(*best);
        row = best->begin + best->rows;
      } else {
        ++row;
        ++refuted;
      }
    }
  }

  /// From two equal rows on, both ways.
  static Segment run(const AxisSearch& search,
                     std::uint64_t row,
                     const RowIndex::Form& form,
                     std::uint64_t source_row) {
    const Rows& rows = search.rows;
    const Rows& source = form.rows;
    Segment segment{row, 0, form.weight, form.version, source.axis, source_row, Dtype::kUnknown};
    if (source.width != rows.width) return segment;
    const auto is_same = [&](std::uint64_t one, std::uint64_t other) {
      return !search.covered[one] && rows.keys[one] == source.keys[other];
    };
    std::uint64_t end = row;
    for (std::uint64_t other = source_row;
         end < rows.keys.size() && other < source.keys.size() && is_same(end, other);
         ++end, ++other) {
    }
    while (segment.begin > 0 && segment.from > 0 && is_same(segment.begin - 1, segment.from - 1)) {
      --segment.begin;
      --segment.from;
    }
    segment.rows = end - segment.begin;
    return segment;
  }

  /// Whether the bytes are equal; says in the segment what the sender's were rounded to.
  bool prove(const HeldTensor& tensor, std::size_t axis, Dtype domain, Segment& segment) {
    const HeldTensor& sent = sent_.of(segment.source, segment.version);
    if (!is_in_domain(sent.dtype, domain) || !is_in_domain(tensor.dtype, domain)) return false;
    segment.rounded = sent.dtype == domain ? Dtype::kUnknown : domain;
    const bool is_plain = sent.dtype == domain && tensor.dtype == domain;
    const HeldTensor rounded = is_plain ? HeldTensor() : sent.as(domain).as(tensor.dtype);
    if (tensor.shape.empty() || sent.shape.empty()) {
      return sent.shape == tensor.shape && (is_plain ? sent : rounded).bytes == tensor.bytes;
    }
    return RowPairs::of_equal((is_plain ? sent : rounded).view(),
                              {segment.axis, segment.from},
                              tensor.view(),
                              {axis, segment.begin},
                              segment.rows)
        .has_value();
  }

  /// Looks in the rows that are nobody's yet for weights of the sender with their adapters added.
  void look_for_sums(std::size_t i, std::span<const Adapter> adapters) {
    const HeldTensor& tensor = received_.of(i, receiver_.weights[i].versions.size() - 1);
    if (!core::is_floating(tensor.dtype) || tensor.shape.size() != 2 || adapters.empty()) return;
    RelatedWeight& related = related_[i];
    for (const std::size_t axis : {std::size_t{0}, std::size_t{1}}) {
      if (!related.segments.empty() && related.axis != axis) continue;
      const Sums sums(tensor, axis);
      std::vector<Segment> found = related.segments;
      for (std::uint64_t row = 0; row < sums.rows();) {
        const auto taken = std::ranges::find_if(found, [&](const Segment& segment) {
          return row >= segment.begin && row < segment.begin + segment.rows;
        });
        if (taken != found.end()) {
          row = taken->begin + taken->rows;
          continue;
        }
        const auto segment = sum_at(sums, row, adapters);
        row += segment ? segment->rows : 1;
        if (segment) found.push_back(*segment);
      }
      if (found.size() == related.segments.size()) continue;
      std::ranges::sort(found, {}, &Segment::begin);
      related.axis = axis;
      related.rows = sums.rows();
      related.segments = std::move(found);
    }
  }

  std::optional<Segment> sum_at(const Sums& sums,
                                std::uint64_t row,
                                std::span<const Adapter> adapters) {
    for (Adapter adapter : adapters) {
      const Weight& base = sender_.weights[adapter.base];
      const std::vector<std::int64_t>& shape = base.last().content.shape;
      const bool are_stored = base.last().stored && sender_.weights[adapter.up].last().stored &&
                              sender_.weights[adapter.down].last().stored;
      const std::uint64_t rows = row_count(shape, 0);
      if (!are_stored || row_count(shape, 1) != sums.width() || row + rows > sums.rows()) continue;
      adapter.scale =
          sums.scale_of(row, numbers(adapter.base), numbers(adapter.down), numbers(adapter.up));
      if (adapter.scale == 0) continue;
      return Segment{
          row, rows, adapter.base, base.versions.size() - 1, 0, 0, Dtype::kUnknown, adapter};
    }
    return std::nullopt;
  }

  /// Tried: the weight of its name, then the next ones of its shape.
  void look_for_factors(std::size_t i) {
    constexpr std::size_t kMostTries = 8;
    constexpr std::size_t kLeastWidth = 3;
    // Of pairs that are tried, together: two large models without a common weight would take hours.
    constexpr std::uint64_t kMostTried = std::uint64_t{1} << 28U;
    const HeldTensor& tensor = received_.of(i, receiver_.weights[i].versions.size() - 1);
    if (!core::is_floating(tensor.dtype) || tensor.shape.size() < 2) return;
    const std::uint64_t rows = row_count(tensor.shape, 0);
    const auto elements = static_cast<std::uint64_t>(core::element_count(tensor.shape));
    if (rows == 0 || elements / rows < kLeastWidth || elements < kTellingElements) return;
    std::vector<std::size_t> tried;
    const auto propose = [&](std::size_t source) {
      const WeightVersion& held = sender_.weights[source].last();
      if (held.stored && held.content.shape == tensor.shape &&
          core::is_floating(held.content.dtype))
        tried.push_back(source);
    };
    if (const auto same = by_name_.find(receiver_.weights[i].name); same != by_name_.end()) {
      propose(same->second);
    }
    for (std::size_t source = 0; source < sender_.weights.size(); ++source) {
      if (tried.size() < kMostTries && !scaled_.contains(source)) propose(source);
    }
    const std::vector<double> own = core::numbers_of(tensor.dtype, tensor.bytes);
    for (const std::size_t source : tried) {
      tried_elements_ += elements;
      if (tried_elements_ > kMostTried) return;
      if (!have_row_factors(numbers(source), own, elements / rows, tensor.dtype)) continue;
      scaled_.insert(source);
      Segment segment{
          0, rows, source, sender_.weights[source].versions.size() - 1, 0, 0, Dtype::kUnknown};
      segment.has_factors = true;
      related_[i].rows = rows;
      related_[i].segments.push_back(segment);
      return;
    }
  }

  std::vector<double> numbers(std::size_t source) {
    const HeldTensor& tensor = sent_.of(source, sender_.weights[source].versions.size() - 1);
    return core::numbers_of(tensor.dtype, tensor.bytes);
  }

  /// Of a weight that no value of its own places: its name, or where its module's other weights
  /// come from; else any of the sender's last weights that is the same.
  void go_by_neighbours(std::size_t i) {
    std::vector<std::vector<Segment>> proposals;
    const std::string& name = receiver_.weights[i].name;
    const std::vector<std::int64_t>& shape = last(i).content.shape;
    const std::uint64_t rows = shape.empty() ? 1 : row_count(shape, 0);
    const auto has_shape = [&](std::size_t source) {
      return sender_.weights[source].last().content.shape == shape;
    };
    if (const auto same = by_name_.find(name); same != by_name_.end() && has_shape(same->second)) {
      proposals.push_back({{0, rows, same->second, 0, 0, 0, Dtype::kUnknown}});
    }
    for (const RelatedWeight& other : related_) {
      const std::string& neighbour = receiver_.weights[other.receiver].name;
      if (other.segments.empty() || name_above(neighbour) != name_above(name)) continue;
      std::vector<Segment> segments = along(other, last_name(name));
      if (other.rows == rows && !segments.empty()) proposals.push_back(std::move(segments));
    }
    if (!proposals.empty()) related_[i].counterpart = proposals.front().front().source;
    const std::size_t likely = proposals.size();
    for (std::size_t source = 0; source < sender_.weights.size(); ++source) {
      if (has_shape(source)) proposals.push_back({{0, rows, source, 0, 0, 0, Dtype::kUnknown}});
    }
    for (std::size_t k = 0; k < proposals.size(); ++k) {
      if (take(i, proposals[k], 0)) return;
      for (std::size_t back = 1; k < likely && back < versions_; ++back) {
        if (take(i, proposals[k], back)) return;
      }
    }
  }

  /// The weights that are called `leaf` in the modules that a neighbour comes from, cut as it is.
  [[nodiscard]] std::vector<Segment> along(const RelatedWeight& neighbour,
                                           std::string_view leaf) const {
    std::vector<Segment> segments;
    for (Segment segment : neighbour.segments) {
      const std::string_view module = name_above(sender_.weights[segment.source].name);
      const auto found = by_name_.find(std::string(module) + "." + std::string(leaf));
      if (found == by_name_.end()) return {};
      const std::vector<std::int64_t>& shape = sender_.weights[found->second].last().content.shape;
      if (shape.empty() || row_count(shape, 0) < segment.from + segment.rows) return {};
      segment.source = found->second;
      segment.axis = 0;
      segments.push_back(segment);
    }
    return segments;
  }

  /// Takes segments, if the sender's values that many before the last stand there, as they are or
  /// rounded to the receiver's dtype.
  bool take(std::size_t i, std::vector<Segment> segments, std::size_t back) {
    const HeldTensor& tensor = received_.of(i, receiver_.weights[i].versions.size() - 1);
    std::uint64_t rows = 0;
    for (Segment& segment : segments) {
      const std::vector<WeightVersion>& versions = sender_.weights[segment.source].versions;
      if (versions.size() <= back) return false;
      segment.version = versions.size() - 1 - back;
      const WeightVersion& held = versions[segment.version];
      const Dtype sent = held.content.dtype;
      const Dtype domain =
          core::element_size(sent) > core::element_size(tensor.dtype) ? tensor.dtype : sent;
      if (!held.stored || !prove(tensor, 0, domain, segment)) return false;
      rows += segment.rows;
    }
    if (rows != related_[i].rows) return false;
    related_[i].segments = std::move(segments);
    return true;
  }

  const WeightSide& sender_;
  const WeightSide& receiver_;
  HeldTensors sent_;
  HeldTensors received_;
  std::map<std::string, std::size_t> by_name_;
  std::map<core::ContentKey, std::vector<std::pair<std::size_t, std::size_t>>> by_content_;
  std::size_t versions_ = 0;  ///< of the weight that has most
  std::uint64_t tried_elements_ = 0;
  std::set<std::size_t> scaled_;  ///< weights of the sender that were found with factors
  std::vector<RelatedWeight> related_;
};

const std::vector<std::int64_t>& shape_in(const WeightSide& side, std::size_t weight) {
  return side.weights[weight].last().content.shape;
}

/// @param parts  weights of all adapters
std::optional<Adapter> adapter_of(const WeightSide& side,
                                  std::size_t base,
                                  const std::vector<std::size_t>& parts) {
  // `q.weight` beside `q.lora_A.weight`, `q.base_layer.weight` beside `q.lora_A.default.weight`.
  const std::string_view module = name_above(side.weights[base].name);
  const std::string_view wrapper =
      last_name(module).starts_with("base") ? name_above(module) : module;
  const auto is_below = [&](std::string_view own) {
    return own.size() > wrapper.size() && own.starts_with(wrapper) && own[wrapper.size()] == '.';
  };
  const auto& whole = shape_in(side, base);
  std::optional<std::size_t> down;
  std::optional<std::size_t> up;
  for (const std::size_t part : parts) {
    if (!is_below(side.weights[part].name)) continue;
    const auto& shape = shape_in(side, part);
    if (shape[1] == whole[1] && shape[0] <= shape[1] && !down) {
      down = part;
    } else if (shape[0] == whole[0] && shape[1] <= shape[0] && !up) {
      up = part;
    }
  }
  if (!down || !up || shape_in(side, *down)[0] != shape_in(side, *up)[1]) return std::nullopt;
  return Adapter{base, *down, *up, 0};
}

}  // namespace

std::string_view name_above(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
}

std::string_view last_name(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

std::uint64_t RelatedWeight::related_rows() const {
  return std::accumulate(segments.begin(),
                         segments.end(),
                         std::uint64_t{0},
                         [](std::uint64_t sum, const Segment& each) { return sum + each.rows; });
}

std::vector<Adapter> adapters_of(const WeightSide& side) {
  std::vector<std::size_t> bases;
  std::vector<std::size_t> parts;
  for (std::size_t i = 0; i < side.weights.size(); ++i) {
    if (shape_in(side, i).size() != 2) continue;
    (names_adapter(side.weights[i].name) ? parts : bases).push_back(i);
  }
  std::vector<Adapter> adapters;
  for (const std::size_t base : bases) {
    if (const auto adapter = adapter_of(side, base, parts)) adapters.push_back(*adapter);
  }
  return adapters;
}

std::vector<RelatedWeight> relate_weights(const WeightSide& sender,
                                          const WeightSide& receiver,
                                          bool with_factors) {
  return Relator(sender, receiver).relate(with_factors);
}

}  // namespace repro_check::comparators
