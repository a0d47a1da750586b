// SPDX-License-Identifier: Apache-2.0
#include "core/tensor/npy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/tensor/dtype_table.h"
#include "core/text/printable.h"

namespace repro_check::core {
namespace {

constexpr std::array<char, 6> kMagic{'\x93', 'N', 'U', 'M', 'P', 'Y'};
/// NumPy itself refuses to evaluate headers above 10,000 bytes.
constexpr std::size_t kLongestHeader = std::size_t{1} << 16U;
constexpr std::size_t kHeaderAlignment = 64;

/// What the header of a .npy file says.
struct NpyHeader {
  Dtype dtype = Dtype::kUnknown;
  bool big_endian = false;
  bool fortran_order = false;
  std::vector<std::int64_t> shape;  ///< no size is negative; their product is not checked
};

constexpr std::size_t kMostDimensions = 64;
constexpr std::size_t kShown = 60;

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
  for (const DtypeRow& row : kDtypes) {
    const std::string_view name = row.numpy;
    // The order mark of a one-byte type says nothing.
    if (!name.empty() && (native == name || (name[0] == '|' && !native.empty() &&
                                             native.substr(1) == name.substr(1)))) {
      header.dtype = row.dtype;
      header.big_endian = header.big_endian && name[0] != '|';
      return;
    }
  }
  throw Error(ErrorKind::kUsage,
              fmt::format("dtype \"{}\" has no counterpart in LibTorch", printable(descr, kShown)));
}

/// Reads the Python literal `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`: these
/// three keys, in any order, once each.
/// @throws Error{kUsage} without the file's name
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

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& what) {
  throw Error(ErrorKind::kUsage,
              fmt::format("{}: {}", printable(file.string()), what),
              "write it with numpy.save(file, array, allow_pickle=False)");
}

/// The size bounds what a header can make us allocate; a pipe has none.
std::uintmax_t size_of_regular_file(const std::filesystem::path& file) {
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  if (!std::filesystem::exists(status)) refuse(file, "no such file");
  if (!std::filesystem::is_regular_file(status)) refuse(file, "not a regular file");
  const std::uintmax_t size = std::filesystem::file_size(file, error);
  if (error) refuse(file, "cannot be read: " + error.message());
  return size;
}

/// Reads exactly `into.size()` bytes or refuses.
void read_exactly(std::ifstream& stream,
                  std::span<std::byte> into,
                  const std::filesystem::path& file) {
  // A stream reads into char; std::byte may alias it.
  stream.read(reinterpret_cast<char*>(into.data()), static_cast<std::streamsize>(into.size()));
  if (static_cast<std::size_t>(stream.gcount()) != into.size()) refuse(file, "truncated");
}

struct Prologue {
  std::string header;
  std::uintmax_t data_offset = 0;
};

/// Magic, version and header text.
Prologue read_prologue(std::ifstream& stream, const std::filesystem::path& file) {
  std::array<std::byte, 8> start{};
  read_exactly(stream, start, file);
  if (std::memcmp(start.data(), kMagic.data(), kMagic.size()) != 0) {
    refuse(file, "not a .npy file");
  }
  const auto major = std::to_integer<unsigned>(start[6]);
  const auto minor = std::to_integer<unsigned>(start[7]);
  if (major < 1 || major > 3 || minor != 0) {
    refuse(file, fmt::format("unknown .npy version {}.{}", major, minor));
  }
  std::array<std::byte, 4> length_bytes{};
  const std::span<std::byte> used(length_bytes.data(), major == 1 ? 2 : 4);
  read_exactly(stream, used, file);
  std::size_t length = 0;
  for (std::size_t i = 0; i < used.size(); ++i) {
    length |= std::to_integer<std::size_t>(used[i]) << (8 * i);
  }
  if (length > kLongestHeader) refuse(file, fmt::format("header of {} bytes", length));
  std::string header(length, '\0');
  read_exactly(stream, std::as_writable_bytes(std::span(header)), file);
  return {std::move(header), start.size() + used.size() + length};
}

/// Bytes of the tensor, checked against overflow before anything is allocated.
std::size_t content_size(const NpyHeader& header, const std::filesystem::path& file) {
  std::int64_t bytes = 0;
  bool possible = true;
  try {
    const auto element = static_cast<std::int64_t>(element_size(header.dtype));
    possible = !__builtin_mul_overflow(element_count(header.shape), element, &bytes);
  } catch (const Error&) {
    possible = false;
  }
  if (!possible) refuse(file, fmt::format("impossible shape ({})", fmt::join(header.shape, ", ")));
  return static_cast<std::size_t>(bytes);
}

/// @param word  bytes that belong together: a part of a complex number, not the whole
void swap_bytes(std::span<std::byte> bytes, std::size_t word) {
  for (std::size_t at = 0; at < bytes.size(); at += word) {
    std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                 bytes.begin() + static_cast<std::ptrdiff_t>(at + word));
  }
}

/// Column-major content in row-major order.
std::vector<std::byte> to_row_major(const std::vector<std::byte>& bytes,
                                    const std::vector<std::int64_t>& shape,
                                    std::size_t element) {
  std::vector<std::byte> result(bytes.size());
  std::vector<std::size_t> strides(shape.size(), element);
  for (std::size_t d = 1; d < shape.size(); ++d) {
    strides[d] = strides[d - 1] * static_cast<std::size_t>(shape[d - 1]);
  }
  std::vector<std::int64_t> index(shape.size(), 0);
  std::size_t from = 0;
  for (std::size_t to = 0; to < result.size(); to += element) {
    std::memcpy(result.data() + to, bytes.data() + from, element);
    for (std::size_t d = shape.size(); d-- > 0;) {
      from += strides[d];
      if (++index[d] < shape[d]) break;
      from -= strides[d] * static_cast<std::size_t>(shape[d]);
      index[d] = 0;
    }
  }
  return result;
}

/// `(3,)` for one size: without the comma Python reads a number.
std::string python_tuple(std::span<const std::int64_t> shape) {
  return fmt::format("({}{})", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
}

}  // namespace

HostTensor read_npy(const std::filesystem::path& file) {
  const std::uintmax_t file_size = size_of_regular_file(file);
  std::ifstream stream(file, std::ios::binary);
  if (!stream) refuse(file, "cannot be opened: " + std::generic_category().message(errno));
  const Prologue prologue = read_prologue(stream, file);
  NpyHeader header;
  try {
    header = parse_npy_header(prologue.header);
  } catch (const Error& error) {
    refuse(file, error.what());
  }
  const std::size_t wanted = content_size(header, file);
  // More than needed is as wrong as less: several arrays saved into one file, or a wrong header.
  const std::uintmax_t present = file_size - std::min(file_size, prologue.data_offset);
  if (present != wanted) {
    refuse(file,
           fmt::format("{} of shape {} needs {} bytes, the file holds {}",
                       dtype_name(header.dtype),
                       python_tuple(header.shape),
                       wanted,
                       present));
  }
  HostTensor tensor{header.dtype, header.shape, std::vector<std::byte>(wanted)};
  read_exactly(stream, tensor.bytes, file);
  const std::size_t element = element_size(header.dtype);
  if (header.big_endian) swap_bytes(tensor.bytes, is_complex(header.dtype) ? element / 2 : element);
  if (header.fortran_order && header.shape.size() > 1) {
    tensor.bytes = to_row_major(tensor.bytes, tensor.shape, element);
  }
  if (header.dtype == Dtype::kBool) {
    // Any other byte than 0 and 1 is undefined behaviour in whoever reads it as a C++ bool.
    for (std::byte& value : tensor.bytes) value = std::byte{value != std::byte{0}};
  }
  return tensor;
}

void write_npy(const std::filesystem::path& file, TensorView tensor) {
  const std::string_view descr = row_of(tensor.dtype).numpy;
  if (descr.empty()) {
    refuse(file, fmt::format("NumPy has no dtype for {}", dtype_name(tensor.dtype)));
  }
  const auto count = static_cast<std::uint64_t>(element_count(tensor.shape));
  if (tensor.bytes.size() / element_size(tensor.dtype) != count ||
      tensor.bytes.size() % element_size(tensor.dtype) != 0) {
    throw Error(ErrorKind::kInternal, "write_npy: the content does not fill the shape");
  }
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}",
                                   descr,
                                   python_tuple(tensor.shape));
  // NumPy pads so that the content can be mapped with alignment.
  const std::size_t unpadded = kMagic.size() + 4 + header.size() + 1;
  header.append((kHeaderAlignment - unpadded % kHeaderAlignment) % kHeaderAlignment, ' ');
  header += '\n';
  if (header.size() > std::numeric_limits<std::uint16_t>::max()) {
    refuse(file, fmt::format("{} dimensions are too many for NumPy", tensor.shape.size()));
  }
  const std::array<char, 4> version_and_length{'\x01',
                                               '\x00',
                                               static_cast<char>(header.size() & 0xffU),
                                               static_cast<char>(header.size() >> 8U)};
  std::ofstream stream(file, std::ios::binary | std::ios::trunc);
  stream.write(kMagic.data(), kMagic.size());
  stream.write(version_and_length.data(), version_and_length.size());
  stream.write(header.data(), static_cast<std::streamsize>(header.size()));
  stream.write(reinterpret_cast<const char*>(tensor.bytes.data()),
               static_cast<std::streamsize>(tensor.bytes.size()));
  stream.close();
  if (!stream) {
    throw Error(ErrorKind::kIo,
                fmt::format("{}: cannot be written: {}",
                            printable(file.string()),
                            std::generic_category().message(errno)));
  }
}

}  // namespace repro_check::core
