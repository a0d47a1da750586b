// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "cmd/inspect/inspect_tensor.h"
#include "cmd/options/command_line.h"
#include "cmd/render/text.h"
#include "cmd/terminal/logging.h"
#include "cmd/terminal/output.h"
#include "core/error.h"
#include "core/tensor/dtype.h"
#include "core/tensor/element_number.h"
#include "core/tensor/npy.h"

namespace repro_check::cmd {
namespace {

using core::Dtype;
using core::ErrorKind;
using core::TensorRecord;

struct FormatName {
  std::string_view ending;
  ExportFormat format;
};
constexpr std::array kFormats{FormatName{".npy", ExportFormat::kNpy},
                              FormatName{".safetensors", ExportFormat::kSafetensors},
                              FormatName{".csv", ExportFormat::kCsv},
                              FormatName{".jsonl", ExportFormat::kJsonl}};

constexpr std::array kTargets{Dtype::kFloat16,
                              Dtype::kBFloat16,
                              Dtype::kFloat32,
                              Dtype::kFloat64,
                              Dtype::kFloat8E4M3FN,
                              Dtype::kFloat8E5M2,
                              Dtype::kFloat8E4M3FNUZ,
                              Dtype::kFloat8E5M2FNUZ};

void write_npy(const std::filesystem::path& file, const TensorValues& values) {
  if (core::row_of(values.dtype).numpy.empty()) {
    const bool is_float = core::is_floating(values.dtype) && values.dtype != Dtype::kFloat4E2M1FNX2;
    throw core::Error(
        ErrorKind::kUnsupportedDtype,
        fmt::format("{}: NumPy has no dtype for {}", file.string(), core::dtype_name(values.dtype)),
        is_float ? "convert it with --as float32, or export to .safetensors"
                 : "export to .csv or .jsonl");
  }
  core::write_npy(file, values.view());
}

/// `i0,i1,` for two dimensions.
std::string index_columns(std::size_t dimensions) {
  std::string text;
  for (std::size_t d = 0; d < dimensions; ++d) text += fmt::format("i{},", d);
  return text;
}

/// A line an element.
/// @param cells  what follows the index in columns
void write_lines(const std::filesystem::path& file,
                 const TensorValues& values,
                 const std::string& columns,
                 const std::function<std::string(std::uint64_t)>& cells,
                 const std::function<Json(std::uint64_t)>& entry) {
  const bool is_csv = export_format(file) == ExportFormat::kCsv;
  write_pieces(file, [&](const TextSink& sink) {
    if (is_csv) sink(index_columns(values.whole.size()) + columns + "\n");
    for (std::uint64_t i = 0; i < values.count(); ++i) {
      if (!is_csv) {
        sink(to_document(entry(i), false));
        continue;
      }
      std::string line;
      for (const std::int64_t at : values.index(i)) line += std::to_string(at) + ",";
      sink(line + cells(i) + "\n");
    }
  });
}

struct SafeTensor {
  std::string name;
  core::TensorView tensor;  ///< borrowed
};

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

std::string safetensors_header(const core::OpRecord& op, std::span<const SafeTensor> tensors) {
  constexpr std::size_t kAlignment = 8;
  Json header;
  header["__metadata__"] = {{"op", std::to_string(op.index)},
                            {"operator", json_text(full_name(op))}};
  std::uint64_t at = 0;
  for (const auto& [name, tensor] : tensors) {
    const std::string_view dtype = safetensors_dtype(tensor.dtype);
    if (dtype.empty()) {
      throw core::Error(
          ErrorKind::kUnsupportedDtype,
          fmt::format("{}: .safetensors has no dtype for {}", name, core::dtype_name(tensor.dtype)),
          "convert it, for example with --as float32");
    }
    const std::uint64_t end = at + tensor.bytes.size();
    header[clean_utf8(name)] = {
        {"dtype", dtype},
        {"shape", std::vector<std::int64_t>(tensor.shape.begin(), tensor.shape.end())},
        {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text = header.dump();
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  return text;
}

/// Eight bytes with the length of a header, which is a JSON object with dtype, shape and place of
/// each tensor, padded to a multiple of eight bytes; then the contents in order without a gap.
/// Source: the format section of the safetensors README.
void write_safetensors(const std::filesystem::path& file,
                       const core::OpRecord& op,
                       std::span<const SafeTensor> tensors) {
  const std::string header = safetensors_header(op, tensors);
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

/// As `values` are where they need no conversion.
TensorValues as_asked(const TensorValues& values, std::optional<Dtype> as) {
  TensorValues made = values;
  if (!as || *as == values.dtype) return made;
  made.bytes = core::converted(values.dtype, values.bytes, *as);
  made.dtype = *as;
  return made;
}

}  // namespace

std::string_view safetensors_dtype(Dtype dtype) noexcept {
  const auto* found = std::ranges::find(kNames, dtype, &std::pair<Dtype, std::string_view>::first);
  return found == kNames.end() ? std::string_view() : found->second;
}

ExportFormat export_format(const std::filesystem::path& file) {
  const std::string ending = file.extension().string();
  const auto* found = std::ranges::find(kFormats, ending, &FormatName::ending);
  if (found != kFormats.end()) return found->format;
  if (ending == ".pt" || ending == ".pth") {
    throw core::Error(ErrorKind::kUsage,
                      "--export " + file.string() + ": that format is Python's pickle",
                      "export to .safetensors, which safetensors.torch.load_file() reads");
  }
  std::vector<std::string> endings;
  endings.reserve(kFormats.size());
  for (const FormatName& known : kFormats) endings.emplace_back(known.ending);
  throw core::Error(ErrorKind::kUsage,
                    "--export " + file.string() + ": the name says no format",
                    near_hint(ending, endings, "it ends in .npy, .safetensors, .csv or .jsonl"));
}

Dtype export_dtype(const std::string& name) {
  const auto dtype = core::parse_dtype(name);
  if (dtype && core::is_conversion_target(*dtype)) return *dtype;
  std::vector<std::string> names;
  names.reserve(kTargets.size());
  for (const Dtype target : kTargets) names.emplace_back(core::dtype_name(target));
  throw core::Error(
      ErrorKind::kUsage,
      "--as " + name + ": no values are converted to that",
      near_hint(name, names, "a floating dtype: float16, bfloat16, float32, float64 or float8_*"));
}

void export_values(const std::filesystem::path& file,
                   const core::OpRecord& op,
                   const TensorRecord& tensor,
                   const TensorValues& values,
                   const TensorQuery& query) {
  const TensorValues made = as_asked(values, query.as);
  switch (export_format(file)) {
    case ExportFormat::kNpy:
      write_npy(file, made);
      break;
    case ExportFormat::kSafetensors: {
      const SafeTensor entry{side_slot(tensor), made.view()};
      write_safetensors(file, op, {&entry, 1});
      break;
    }
    case ExportFormat::kCsv:
    case ExportFormat::kJsonl:
      write_lines(
          file,
          made,
          query.bits ? "value,bits" : "value",
          [&](std::uint64_t i) {
            return made.text(i) + (query.bits ? "," + bits_text(made.element(i)) : "");
          },
          [&](std::uint64_t i) { return made.json(i); });
      break;
  }
  log_info("wrote " + file.string());
  if (!values.stored.empty()) {
    log_warning(file.string() + " holds " + values.stored + ", in one dimension");
  }
}

void export_pair(const std::filesystem::path& file,
                 const TensorAgainst& pair,
                 const TensorQuery& query) {
  if (!pair.values || !pair.other_values) {
    throw core::Error(ErrorKind::kNotComparable,
                      file.string() + ": there are no two tensors to write: " + pair.difference,
                      "record both with dump.level \"tensor\", or leave out --export");
  }
  write_lines(
      file,
      *pair.values,
      std::string("baseline,candidate,abs_error,ulp") +
          (query.bits ? ",baseline_bits,candidate_bits" : ""),
      [&](std::uint64_t i) {
        const ElementPair e = element_pair(pair, i);
        return fmt::format("{},{},{},{}",
                           e.here,
                           e.there,
                           e.distance,
                           e.ulp ? std::to_string(*e.ulp) : "") +
               (query.bits ? "," + e.here_bits + "," + e.there_bits : "");
      },
      [&](std::uint64_t i) { return element_pair(pair, i).json(); });
  log_info("wrote " + file.string());
}

void export_op(const std::filesystem::path& file,
               const core::DumpSource& dump,
               std::uint64_t op,
               std::optional<Dtype> as) {
  const core::OpRecord record = dump.op(op);
  std::deque<TensorValues> kept;
  std::vector<SafeTensor> entries;
  std::vector<std::string> left_out;
  for (const TensorRecord& tensor : record.tensors) {
    if (!tensor.stored || tensor.state != core::ContentState::kHashed) {
      left_out.push_back(side_slot(tensor));
      continue;
    }
    const bool converts = as && core::is_floating(tensor.dtype);
    kept.push_back(as_asked(read_values(dump, tensor), converts ? as : std::nullopt));
    entries.push_back({side_slot(tensor), kept.back().view()});
  }
  if (entries.empty()) {
    throw core::Error(ErrorKind::kNotComparable,
                      fmt::format("the dump holds no values of op {}", op),
                      "record with dump.level \"tensor\"");
  }
  write_safetensors(file, record, entries);
  log_info(fmt::format("wrote {}: {}", file.string(), format_count(entries.size(), "tensor")));
  for (const std::string& slot : left_out) {
    log_warning(fmt::format("{} lacks {}: its values are not stored", file.string(), slot));
  }
}

}  // namespace repro_check::cmd
