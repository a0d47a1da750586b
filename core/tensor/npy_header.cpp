// SPDX-License-Identifier: Apache-2.0
#include "core/tensor/npy_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/text/printable.h"

namespace repro_check::core::detail {
namespace {

constexpr std::size_t kMostDimensions = 64;
constexpr std::size_t kShown = 60;

constexpr std::array<std::pair<std::string_view, Dtype>, 14> kDescrs{{
    {"|b1", Dtype::kBool},
    {"|u1", Dtype::kUInt8},
    {"<u2", Dtype::kUInt16},
    {"<u4", Dtype::kUInt32},
    {"<u8", Dtype::kUInt64},
    {"|i1", Dtype::kInt8},
    {"<i2", Dtype::kInt16},
    {"<i4", Dtype::kInt32},
    {"<i8", Dtype::kInt64},
    {"<f2", Dtype::kFloat16},
    {"<f4", Dtype::kFloat32},
    {"<f8", Dtype::kFloat64},
    {"<c8", Dtype::kComplex64},
    {"<c16", Dtype::kComplex128},
}};

[[noreturn]] void malformed(std::string_view what) {
  throw Error(ErrorKind::kUsage, fmt::format("malformed .npy header: {}", what));
}

/// A cursor over the header; every read either consumes what it says or throws.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  /// Skips blanks, then takes `wanted` if it stands there.
  bool accept(std::string_view wanted) {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\n'))
      rest_.remove_prefix(1);
    if (!rest_.starts_with(wanted)) return false;
    rest_.remove_prefix(wanted.size());
    return true;
  }

  void expect(std::string_view wanted) {
    if (!accept(wanted)) {
      malformed(fmt::format("expected {} at \"{}\"", wanted, printable(rest_, kShown)));
    }
  }

  [[nodiscard]] bool at_end() {
    accept("");
    return rest_.empty();
  }

  /// A quoted string; escapes do not occur in the headers we take.
  std::string_view string() {
    const char quote = accept("'") ? '\'' : '"';
    if (quote == '"') expect("\"");
    const std::size_t end = rest_.find(quote);
    if (end == std::string_view::npos) malformed("a string does not end");
    const std::string_view text = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return text;
  }

  std::int64_t size() {
    accept("");
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc{} || value < 0) {
      malformed(fmt::format("no size at \"{}\"", printable(rest_, kShown)));
    }
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    accept("L");  // Python 2 wrote long integers so
    return value;
  }

 private:
  std::string_view rest_;
};

/// A tuple; the comma after the last size is Python's and may be missing.
std::vector<std::int64_t> read_shape(Scanner& scanner) {
  std::vector<std::int64_t> shape;
  scanner.expect("(");
  while (!scanner.accept(")")) {
    if (shape.size() == kMostDimensions) malformed("more than 64 dimensions");
    shape.push_back(scanner.size());
    if (!scanner.accept(",")) {
      scanner.expect(")");
      break;
    }
  }
  return shape;
}

bool read_bool(Scanner& scanner) {
  if (scanner.accept("True")) return true;
  scanner.expect("False");
  return false;
}

/// Byte order and kind; `=` is the writer's own order, which on every machine we know is little.
void read_descr(Scanner& scanner, NpyHeader& header) {
  if (scanner.accept("[")) throw Error(ErrorKind::kUsage, "structured arrays are not supported");
  const std::string_view descr = scanner.string();
  std::string native(descr);
  if (!native.empty() && (native[0] == '>' || native[0] == '=')) {
    header.big_endian = native[0] == '>';
    native[0] = '<';
  }
  for (const auto& [name, dtype] : kDescrs) {
    // The order mark of a one-byte type says nothing.
    if (native == name ||
        (name[0] == '|' && !native.empty() && native.substr(1) == name.substr(1))) {
      header.dtype = dtype;
      header.big_endian = header.big_endian && name[0] != '|';
      return;
    }
  }
  throw Error(ErrorKind::kUsage,
              fmt::format("dtype \"{}\" has no counterpart in LibTorch", printable(descr, kShown)));
}

}  // namespace

NpyHeader parse_npy_header(std::string_view text) {
  Scanner scanner(text);
  NpyHeader header;
  std::optional<bool> fortran_order;
  std::optional<std::vector<std::int64_t>> shape;
  scanner.expect("{");
  while (!scanner.accept("}")) {
    const std::string_view key = scanner.string();
    scanner.expect(":");
    if (key == "descr" && header.dtype == Dtype::kUnknown) {
      read_descr(scanner, header);
    } else if (key == "fortran_order" && !fortran_order) {
      fortran_order = read_bool(scanner);
    } else if (key == "shape" && !shape) {
      shape = read_shape(scanner);
    } else {
      malformed(fmt::format("unexpected key \"{}\"", printable(key, kShown)));
    }
    if (!scanner.accept(",")) {
      scanner.expect("}");
      break;
    }
  }
  if (!scanner.at_end()) malformed("something follows the dictionary");
  if (header.dtype == Dtype::kUnknown || !fortran_order || !shape) {
    malformed("descr, fortran_order and shape must all be given");
  }
  header.fortran_order = *fortran_order;
  header.shape = std::move(*shape);
  return header;
}

std::string_view npy_descr(Dtype dtype) noexcept {
  const auto* const found = std::find_if(
      kDescrs.begin(), kDescrs.end(), [&](const auto& entry) { return entry.second == dtype; });
  return found == kDescrs.end() ? std::string_view{} : found->first;
}

}  // namespace repro_check::core::detail
