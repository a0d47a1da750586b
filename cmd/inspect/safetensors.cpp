// SPDX-License-Identifier: Apache-2.0
#include "cmd/inspect/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "cmd/render/text.h"
#include "cmd/terminal/new_file.h"
#include "core/error.h"

namespace repro_check::cmd {
namespace {

using core::Dtype;
using Shape = std::vector<std::int64_t>;

constexpr std::size_t kAlignment = 8;

constexpr std::array<std::pair<Dtype, std::string_view>, 17> kNames{{
    {Dtype::kBool, "BOOL"},
    {Dtype::kUInt8, "U8"},
    {Dtype::kInt8, "I8"},
    {Dtype::kUInt16, "U16"},
    {Dtype::kInt16, "I16"},
    {Dtype::kUInt32, "U32"},
    {Dtype::kInt32, "I32"},
    {Dtype::kUInt64, "U64"},
    {Dtype::kInt64, "I64"},
    {Dtype::kFloat16, "F16"},
    {Dtype::kBFloat16, "BF16"},
    {Dtype::kFloat32, "F32"},
    {Dtype::kFloat64, "F64"},
    {Dtype::kFloat8E5M2, "F8_E5M2"},
    {Dtype::kFloat8E4M3FN, "F8_E4M3"},
    {Dtype::kFloat8E8M0FNU, "F8_E8M0"},
    {Dtype::kComplex64, "C64"},
}};

std::string header_of(std::span<const SafeTensor> tensors,
                      const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header;
  if (!metadata.empty()) {
    nlohmann::ordered_json& entries = header["__metadata__"];
    for (const auto& [key, value] : metadata) entries[clean_utf8(key)] = clean_utf8(value);
  }
  std::uint64_t at = 0;
  for (const SafeTensor& entry : tensors) {
    const std::string_view dtype = safetensors_dtype(entry.tensor.dtype);
    if (dtype.empty()) {
      throw core::Error(core::ErrorKind::kUnsupportedDtype,
                        fmt::format("{}: .safetensors has no dtype for {}",
                                    entry.name,
                                    core::dtype_name(entry.tensor.dtype)),
                        "convert it, for example with --as float32");
    }
    const auto shape = entry.tensor.shape;
    const std::uint64_t end = at + entry.tensor.bytes.size();
    header[clean_utf8(entry.name)] = {{"dtype", dtype},
                                      {"shape", Shape(shape.begin(), shape.end())},
                                      {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text = header.dump();
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  return text;
}

}  // namespace

std::string_view safetensors_dtype(Dtype dtype) noexcept {
  const auto* found = std::ranges::find(kNames, dtype, &std::pair<Dtype, std::string_view>::first);
  return found == kNames.end() ? std::string_view() : found->second;
}

void write_safetensors(const std::filesystem::path& file,
                       std::span<const SafeTensor> tensors,
                       const std::map<std::string, std::string>& metadata) {
  const std::string header = header_of(tensors, metadata);
  std::string length;
  for (unsigned shift = 0; shift < 64; shift += 8) {
    length += static_cast<char>((static_cast<std::uint64_t>(header.size()) >> shift) & 0xFFU);
  }
  write_pieces(file, [&](const TextSink& sink) {
    sink(length);
    sink(header);
    for (const SafeTensor& entry : tensors) {
      // A file is made of characters, which may alias std::byte.
      sink({reinterpret_cast<const char*>(entry.tensor.bytes.data()), entry.tensor.bytes.size()});
    }
  });
}

}  // namespace repro_check::cmd
