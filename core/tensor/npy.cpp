// SPDX-License-Identifier: Apache-2.0
#include "core/tensor/npy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/text/text.h"

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
constexpr std::size_t kShownLetters = 60;

/// Closes a list or an object; Python may have a comma behind the last item.
void close(char bracket, std::string& json) {
  const std::size_t last = json.find_last_not_of(" \n");
  const bool comma = last != std::string::npos && last > 0 && json[last] == ',';
  if (comma && json[last - 1] != '[' && json[last - 1] != '{') json.resize(last);
  json += bracket;
}

/// The Python literal `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }` as JSON.
std::string as_json(std::string_view literal) {
  std::string json;
  char quote = '\0';
  for (const char c : literal) {
    const bool is_inside = quote != '\0';
    if (c == quote || (!is_inside && (c == '\'' || c == '"'))) {
      quote = is_inside ? '\0' : c;
      json += '"';
    } else if (!is_inside && (c == ')' || c == '}')) {
      close(c == ')' ? ']' : c, json);
    } else if (!is_inside && c == '(') {
      json += '[';
    } else if (!is_inside && (c == 'T' || c == 'F')) {
      json += c == 'T' ? 't' : 'f';
    } else if (is_inside || c != 'L') {  // Python 2 wrote long integers so
      json += c;
    }
  }
  return json;
}

/// Byte order and kind; `=` is the writer's own order, which on every machine we know is little.
void read_descr(const std::string& descr, NpyHeader& header) {
  std::string native = descr;
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
  throw usage_error(
      fmt::format("dtype \"{}\" has no counterpart in LibTorch", printable(descr, kShownLetters)));
}

/// Three keys, in any order, once each.
/// @throws Error{kUsage} without the file's name
NpyHeader parse_npy_header(std::string_view text) {
  using Json = nlohmann::json;
  std::size_t keys = 0;
  const auto count_keys = [&](int /*depth*/, Json::parse_event_t event, const Json& /*parsed*/) {
    keys += event == Json::parse_event_t::key ? 1 : 0;
    return true;
  };
  const Json json = Json::parse(as_json(text), count_keys, /*allow_exceptions=*/false);
  const auto member = [&](const char* name) {
    return json.is_object() && json.contains(name) ? json[name] : Json();
  };
  const Json descr = member("descr");
  const Json order = member("fortran_order");
  const Json shape = member("shape");
  if (descr.is_array()) throw usage_error("structured arrays are not supported");
  const bool sizes =
      shape.is_array() && std::ranges::all_of(shape, [](const Json& size) {
        return size.is_number_unsigned() && std::in_range<std::int64_t>(size.get<std::uint64_t>());
      });
  if (keys != 3 || !descr.is_string() || !order.is_boolean() || !sizes) {
    throw usage_error(
        fmt::format("malformed .npy header: {}: descr, fortran_order and shape must all be "
                    "given, once, and nothing else",
                    printable(text, kShownLetters)));
  }
  if (shape.size() > kMostDimensions) {
    throw usage_error("malformed .npy header: more than 64 dimensions");
  }
  NpyHeader header;
  read_descr(descr.get<std::string>(), header);
  header.fortran_order = order.get<bool>();
  header.shape = shape.get<std::vector<std::int64_t>>();
  return header;
}

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& what) {
  throw usage_error(fmt::format("{}: {}", printable(file.string()), what),
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
void read_exactly(std::istream& stream,
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
Prologue read_prologue(std::istream& stream, const std::filesystem::path& file) {
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
  return read_npy(stream, file_size, file);
}

HostTensor read_npy(std::istream& stream,
                    std::uintmax_t size,
                    const std::filesystem::path& origin) {
  const Prologue prologue = read_prologue(stream, origin);
  NpyHeader header;
  try {
    header = parse_npy_header(prologue.header);
  } catch (const Error& error) {
    refuse(origin, error.what());
  }
  const std::size_t wanted = content_size(header, origin);
  // More than needed is as wrong as less: several arrays saved into one file, or a wrong header.
  const std::uintmax_t present = size - std::min(size, prologue.data_offset);
  if (present != wanted) {
    refuse(origin,
           fmt::format("{} of shape {} needs {} bytes, the file holds {}",
                       dtype_name(header.dtype),
                       python_tuple(header.shape),
                       wanted,
                       present));
  }
  HostTensor tensor{header.dtype, header.shape, std::vector<std::byte>(wanted)};
  read_exactly(stream, tensor.bytes, origin);
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
    throw internal_error("write_npy: the content does not fill the shape");
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
    throw io_error(fmt::format("{}: cannot be written: {}",
                               printable(file.string()),
                               std::generic_category().message(errno)));
  }
}

}  // namespace repro_check::core
