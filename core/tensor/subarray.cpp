// SPDX-License-Identifier: Apache-2.0
#include "core/tensor/subarray.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <string_view>

#include "core/error.h"
#include "core/tensor/tensor_record.h"
#include "core/text/text.h"

namespace repro_check::core {
namespace {

/// LibTorch has 64 at most.
constexpr std::size_t kMostParts = 1024;

class Parser {
 public:
  explicit Parser(const std::string& text) : text_(text) {}

  [[nodiscard]] Subscript parse() const {
    std::string_view rest = trimmed(text_);
    if (rest.starts_with('[') != rest.ends_with(']')) refuse("a bracket is not closed");
    if (rest.starts_with('[')) {
      if (rest.size() < 2) refuse("a bracket is not closed");
      rest = trimmed(rest.substr(1, rest.size() - 2));
    }
    Subscript parts;
    while (!rest.empty()) {
      const std::size_t comma = rest.find(',');
      parts.push_back(part(trimmed(rest.substr(0, comma))));
      if (parts.size() > kMostParts) refuse("no tensor has so many dimensions");
      rest = comma == std::string_view::npos ? std::string_view() : trimmed(rest.substr(comma + 1));
    }
    const auto ellipses = std::ranges::count(
        parts, SubscriptPart::Kind::kEllipsis, [](const auto& part) { return part.kind; });
    if (ellipses > 1) refuse("`...` may occur once");
    return parts;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw usage_error(fmt::format("slice {}: {}", printable(text_, 80), what),
                      "as in NumPy: integers, ranges and `...`, such as 0,:8 or ...,-1 or 1:8:2");
  }

  [[nodiscard]] SubscriptPart part(std::string_view text) const {
    SubscriptPart made;
    if (text == "...") {
      made.kind = SubscriptPart::Kind::kEllipsis;
    } else if (text.find(':') == std::string_view::npos) {
      made.kind = SubscriptPart::Kind::kIndex;
      const auto index = number(text);
      if (!index) refuse("expected an integer or a range between two commas");
      made.index = *index;
    } else {
      read_range(text, made);
    }
    return made;
  }

  void read_range(std::string_view text, SubscriptPart& into) const {
    const std::size_t first = text.find(':');
    const std::size_t second = text.find(':', first + 1);
    into.start = number(text.substr(0, first));
    into.stop = number(
        text.substr(first + 1, second == std::string_view::npos ? second : second - first - 1));
    if (second == std::string_view::npos) return;
    into.step = number(text.substr(second + 1)).value_or(1);
    if (into.step == 0) refuse("the step is 0");
    if (into.step == std::numeric_limits<std::int64_t>::min()) refuse("the step is out of range");
  }

  /// Empty for empty text.
  [[nodiscard]] std::optional<std::int64_t> number(std::string_view text) const {
    text = trimmed(text);
    if (text.empty()) return std::nullopt;
    std::string_view digits = text;
    if (digits.starts_with('+') && !digits.starts_with("+-")) digits.remove_prefix(1);
    std::int64_t value = 0;
    const char* end = digits.data() + digits.size();
    const auto [stopped, error] = std::from_chars(digits.data(), end, value);
    if (error == std::errc::result_out_of_range) refuse("a number is beyond 64 bits");
    if (error != std::errc{} || stopped != end) {
      refuse(fmt::format("\"{}\" is no integer", printable(text, 20)));
    }
    return value;
  }

  const std::string& text_;
};

/// A bound of a range, from the end where negative, cut to [low, high].
std::int64_t bound(std::int64_t given, std::int64_t size, std::int64_t low, std::int64_t high) {
  return std::clamp(given < 0 ? given + size : given, low, high);
}

struct Cut {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// What Python's slice.indices() gives.
Cut cut(const SubscriptPart& part, std::int64_t size) {
  const bool forward = part.step > 0;
  const std::int64_t low = forward ? 0 : -1;
  const std::int64_t high = forward ? size : size - 1;
  const std::int64_t start =
      part.start ? bound(*part.start, size, low, high) : (forward ? low : high);
  const std::int64_t stop = part.stop ? bound(*part.stop, size, low, high) : (forward ? high : low);
  const std::int64_t distance = forward ? stop - start : start - stop;
  if (distance <= 0) return {};
  return {start, (distance - 1) / (forward ? part.step : -part.step) + 1};
}

Subscript without_ellipsis(const Subscript& subscript, std::size_t dimensions) {
  const auto ellipsis =
      std::ranges::find(subscript, SubscriptPart::Kind::kEllipsis, &SubscriptPart::kind);
  const std::size_t named = subscript.size() - (ellipsis == subscript.end() ? 0 : 1);
  if (named > dimensions) {
    throw not_comparable(
        fmt::format("the slice names {} dimensions, the tensor has {}", named, dimensions));
  }
  Subscript parts(subscript.begin(), ellipsis);
  parts.resize(parts.size() + dimensions - named);
  if (ellipsis != subscript.end()) parts.insert(parts.end(), ellipsis + 1, subscript.end());
  return parts;
}

}  // namespace

Subscript parse_subscript(const std::string& text) { return Parser(text).parse(); }

Subarray::Subarray(std::span<const std::int64_t> whole) : Subarray(whole, {}) {}

Subarray::Subarray(std::span<const std::int64_t> whole, const Subscript& subscript) {
  const Subscript parts = without_ellipsis(subscript, whole.size());
  whole_elements_ = static_cast<std::uint64_t>(element_count(whole));
  for (std::size_t d = 0; d < whole.size(); ++d) {
    const SubscriptPart& part = parts[d];
    Dimension dimension;
    if (part.kind == SubscriptPart::Kind::kIndex) {
      if (part.index >= whole[d] || part.index < -whole[d]) {
        throw not_comparable(fmt::format(
            "there is no index {} in dimension {} of [{}]", part.index, d, fmt::join(whole, ", ")));
      }
      dimension.first = part.index < 0 ? part.index + whole[d] : part.index;
      dimension.count = 1;
      dimension.dropped = true;
    } else {
      const Cut range = cut(part, whole[d]);
      dimension.first = range.first;
      dimension.count = range.count;
      dimension.step = part.step;
    }
    is_whole_ = is_whole_ && !dimension.dropped && dimension.count == whole[d] &&
                (dimension.step == 1 || dimension.count <= 1);
    elements_ *= static_cast<std::uint64_t>(dimension.count);
    dimensions_.push_back(dimension);
  }
  std::int64_t stride = 1;
  for (std::size_t d = whole.size(); d-- > 0 && whole_elements_ > 0;) {
    dimensions_[d].stride = stride;
    stride *= whole[d];
  }
}

std::vector<std::int64_t> Subarray::shape() const {
  std::vector<std::int64_t> shape;
  for (const Dimension& dimension : dimensions_) {
    if (!dimension.dropped) shape.push_back(dimension.count);
  }
  return shape;
}

std::uint64_t Subarray::flat(std::uint64_t position) const {
  if (is_whole_) return position;
  std::int64_t flat = 0;
  for (std::size_t d = dimensions_.size(); d-- > 0;) {
    const Dimension& dimension = dimensions_[d];
    const auto count = static_cast<std::uint64_t>(dimension.count);
    const auto at = static_cast<std::int64_t>(position % count);
    position /= count;
    flat += (dimension.first + at * dimension.step) * dimension.stride;
  }
  return static_cast<std::uint64_t>(flat);
}

std::vector<std::byte> Subarray::take(std::span<const std::byte> content, std::size_t size) const {
  if (content.size() != whole_elements_ * size) {
    throw internal_error("a slice of content that does not fill the tensor");
  }
  if (is_whole_) return {content.begin(), content.end()};
  std::vector<std::byte> taken(elements_ * size);
  for (std::uint64_t i = 0; i < elements_; ++i) {
    std::memcpy(taken.data() + i * size, content.data() + flat(i) * size, size);
  }
  return taken;
}

}  // namespace repro_check::core
