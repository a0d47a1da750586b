// SPDX-License-Identifier: Apache-2.0
#include "cmd/inspect/inspect_export.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "cmd/inspect/inspect_json.h"
#include "cmd/inspect/safetensors.h"
#include "cmd/render/json/json_text.h"
#include "cmd/render/text.h"
#include "cmd/terminal/logging.h"
#include "cmd/terminal/new_file.h"
#include "core/error.h"
#include "core/tensor/element_number.h"
#include "core/tensor/npy.h"
#include "core/text/near_miss.h"

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

std::map<std::string, std::string> metadata_of(const core::OpRecord& op) {
  return {{"op", std::to_string(op.index)}, {"operator", op.op ? op.op->full_name() : ""}};
}

/// `i0,i1,` for two dimensions.
std::string index_columns(std::size_t dimensions) {
  std::string text;
  for (std::size_t d = 0; d < dimensions; ++d) text += fmt::format("i{},", d);
  return text;
}

std::string index_cells(const std::vector<std::int64_t>& index) {
  std::string text;
  for (const std::int64_t at : index) text += fmt::format("{},", at);
  return text;
}

void write_npy(const std::filesystem::path& file, const TensorValues& values) {
  if (!core::has_npy_dtype(values.dtype)) {
    const bool is_float = core::is_floating(values.dtype) && values.dtype != Dtype::kFloat4E2M1FNX2;
    throw core::Error(
        ErrorKind::kUnsupportedDtype,
        fmt::format("{}: NumPy has no dtype for {}", file.string(), core::dtype_name(values.dtype)),
        is_float ? "convert it with --as float32, or export to .safetensors"
                 : "export to .csv or .jsonl");
  }
  core::write_npy(file, values.view());
}

void write_csv(const TensorValues& values, bool bits, const TextSink& sink) {
  sink(index_columns(values.whole.size()) + (bits ? "value,bits\n" : "value\n"));
  for (std::uint64_t i = 0; i < values.count(); ++i) {
    std::string line = index_cells(values.index(i)) + element_text(values.dtype, values.element(i));
    if (bits) line.append(",").append(bits_text(values.element(i)));
    sink(line + "\n");
  }
}

void write_jsonl(const TensorValues& values, const TextSink& sink) {
  for (std::uint64_t i = 0; i < values.count(); ++i) {
    OrderedJson entry{{"index", values.index(i)}};
    entry.update(element_json(values.dtype, values.element(i)));
    sink(to_document(entry, false));
  }
}

void write_pair_csv(const TensorPair& pair, bool bits, const TextSink& sink) {
  sink(index_columns(pair.values->whole.size()) + "baseline,candidate,abs_error,ulp" +
       (bits ? ",baseline_bits,candidate_bits\n" : "\n"));
  for (std::uint64_t i = 0; i < pair.values->count(); ++i) {
    const ElementPair element = element_pair(pair, i);
    std::string line =
        index_cells(element.index) + fmt::format("{},{},{},{}",
                                                 element.here,
                                                 element.there,
                                                 element.distance,
                                                 element.ulp ? std::to_string(*element.ulp) : "");
    if (bits) line += "," + element.here_bits + "," + element.there_bits;
    sink(line + "\n");
  }
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

ExportFormat export_format(const std::filesystem::path& file) {
  const std::string ending = file.extension().string();
  const auto* found = std::ranges::find(kFormats, ending, &FormatName::ending);
  if (found != kFormats.end()) return found->format;
  if (ending == ".pt" || ending == ".pth") {
    throw core::Error(ErrorKind::kUsage,
                      "--export " + file.string() + ": that format is Python's pickle",
                      "export to .safetensors, which safetensors.torch.load_file() reads");
  }
  std::vector<std::string_view> endings;
  endings.reserve(kFormats.size());
  for (const FormatName& known : kFormats) endings.push_back(known.ending);
  const auto near = core::near_miss(ending, endings);
  throw core::Error(ErrorKind::kUsage,
                    "--export " + file.string() + ": the name says no format",
                    near ? fmt::format("did you mean {}?", *near)
                         : "it ends in .npy, .safetensors, .csv or .jsonl");
}

Dtype export_dtype(const std::string& name) {
  const auto dtype = core::parse_dtype(name);
  if (dtype && core::is_conversion_target(*dtype)) return *dtype;
  std::vector<std::string_view> names;
  names.reserve(kTargets.size());
  for (const Dtype target : kTargets) names.push_back(core::dtype_name(target));
  const auto near = core::near_miss(name, names);
  throw core::Error(ErrorKind::kUsage,
                    "--as " + name + ": no values are converted to that",
                    near ? fmt::format("did you mean {}?", *near)
                         : "a floating dtype: float16, bfloat16, float32, float64 or float8_*");
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
      write_safetensors(file, {&entry, 1}, metadata_of(op));
      break;
    }
    case ExportFormat::kCsv:
      write_pieces(file, [&](const TextSink& sink) { write_csv(made, query.bits, sink); });
      break;
    case ExportFormat::kJsonl:
      write_pieces(file, [&](const TextSink& sink) { write_jsonl(made, sink); });
      break;
  }
  log_info("wrote " + file.string());
  if (!values.stored.empty()) {
    log_warning(file.string() + " holds " + values.stored + ", in one dimension");
  }
}

void export_pair(const std::filesystem::path& file,
                 const TensorPair& pair,
                 const TensorQuery& query) {
  if (!pair.values || !pair.other_values) {
    throw core::Error(ErrorKind::kNotComparable,
                      file.string() + ": there are no two tensors to write: " + pair.difference,
                      "record both with dump.level \"tensor\", or leave out --export");
  }
  write_pieces(file, [&](const TextSink& sink) {
    if (export_format(file) == ExportFormat::kCsv) {
      write_pair_csv(pair, query.bits, sink);
      return;
    }
    for (std::uint64_t i = 0; i < pair.values->count(); ++i) {
      sink(to_document(element_pair_json(pair, i), false));
    }
  });
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
  write_safetensors(file, entries, metadata_of(record));
  log_info(fmt::format("wrote {}: {}", file.string(), format_count(entries.size(), "tensor")));
  for (const std::string& slot : left_out) {
    log_warning(fmt::format("{} lacks {}: its values are not stored", file.string(), slot));
  }
}

}  // namespace repro_check::cmd
