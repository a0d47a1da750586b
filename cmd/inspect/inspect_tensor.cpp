// SPDX-License-Identifier: Apache-2.0
#include "cmd/inspect/inspect_tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <functional>
#include <utility>

#include "cmd/options/command_line.h"
#include "cmd/render/json/report_json.h"
#include "cmd/render/text.h"
#include "cmd/terminal/logging.h"
#include "cmd/terminal/output.h"
#include "comparators/align/pairing.h"
#include "comparators/measure/metrics.h"
#include "comparators/measure/policy.h"
#include "comparators/measure/samples.h"
#include "core/error.h"
#include "core/tensor/content.h"
#include "core/tensor/dtype.h"
#include "core/tensor/element_number.h"
#include "core/tensor/npy.h"
#include "core/tensor/tensor_stats.h"
#include "core/text/text.h"

namespace repro_check::cmd {
namespace {

using core::ContentState;
using core::Dtype;
using core::ErrorKind;
using core::TensorRecord;
using core::TensorRole;

constexpr std::size_t kBins = 16;
constexpr std::size_t kLongestBar = 40;
constexpr std::size_t kBesideBar = 39;  ///< columns that stand in front of it

double edge(const core::ValueHistogram& histogram, std::size_t bin) {
  // The last edge is the greatest number itself, not one that rounding has made of it.
  if (bin == histogram.counts.size()) return histogram.greatest;
  const double share = static_cast<double>(bin) / static_cast<double>(histogram.counts.size());
  return histogram.least * (1 - share) + histogram.greatest * share;
}

Json histogram_json(const core::ValueHistogram& histogram) {
  Json edges = Json::array();
  for (std::size_t bin = 0; bin <= histogram.counts.size() && !histogram.counts.empty(); ++bin) {
    edges.push_back(json_of(edge(histogram, bin)));
  }
  return {{"edges", std::move(edges)},
          {"counts", histogram.counts},
          {"not_finite", histogram.not_finite}};
}

/// What is said of the numbers as a whole. Recorded statistics are of the whole, and need no
/// values; a histogram does, and is null without them.
void add_numbers(const TensorRecord& tensor, const TensorValues& values, Json& described) {
  const bool is_part = !values.stored.empty();
  const bool is_recorded = tensor.stats && values.is_whole();
  // Those of the whole cannot be made of a part that happens to be stored.
  if (is_part && !is_recorded) {
    throw core::not_comparable(
        "of this tensor only " + values.stored + " are stored, and no statistics",
        "record with dump.level \"stats\", or without dump.slice");
  }
  const core::TensorStats stats =
      is_recorded ? *tensor.stats : core::tensor_stats(tensor.dtype, values.bytes);
  described["stats"] = stats_json(stats);
  described["nan"] = stats.nans;
  std::optional<core::ValueHistogram> histogram;
  if (values.dtype != core::Dtype::kUnknown && !is_part) {
    histogram = core::value_histogram(tensor.dtype, values.bytes, kBins);
  }
  described["histogram"] = histogram ? histogram_json(*histogram) : Json();
}

/// @param tensor  with its numbers, as the document has them
std::string numbers_text(const Json& tensor, std::size_t columns) {
  std::string text =
      say("  min {min:number}, max {max:number}, mean {mean:number}, std {std:number}, l2 "
          "{l2:number}\n  {zeros:count} zero, {nan:count} NaN, {positive_inf:count} +Inf, "
          "{negative_inf:count} -Inf, {subnormals:count} subnormal\n",
          tensor.at("stats"));
  if (tensor.at("histogram").is_null()) return text;
  const auto counts = tensor.at("histogram").at("counts").get<std::vector<std::uint64_t>>();
  const Json& edges = tensor.at("histogram").at("edges");
  const std::size_t room = columns == 0 ? kLongestBar : std::max(columns, kBesideBar) - kBesideBar;
  const auto longest = static_cast<double>(std::min(room, kLongestBar));
  for (std::size_t bin = 0; bin < counts.size(); ++bin) {
    const double share =
        static_cast<double>(counts[bin]) / static_cast<double>(*std::ranges::max_element(counts));
    const auto length = static_cast<std::size_t>(share * longest);
    const std::string line = fmt::format("  {:>10} to {:>10}  {:>9}  {:#<{}}",
                                         say("{:number}", edges.at(bin)),
                                         say("{:number}", edges.at(bin + 1)),
                                         format_count(counts[bin]),
                                         "",
                                         counts[bin] > 0 ? std::max<std::size_t>(length, 1) : 0);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

/// What the lines of values say of the tensor as a whole stands above them.
std::string text_view(const Json& document, const TensorValues& values, const TensorQuery& query) {
  const Json& tensor = document.at("tensor");
  std::string text = say("op {op} {operator} ", document) + escape_name(query.slot) +
                     say(": {dtype} {shape}, {content}\n", tensor);
  if (!values.stored.empty()) {
    text += "  stored: " + values.stored + "\n";
  } else if (!values.is_whole()) {
    text += say("  slice: {slice/shape}, {slice/elements:element}\n", document);
  }
  if (query.stats) text += numbers_text(tensor, query.columns);
  if (!query.values) return text;
  const std::uint64_t shown = std::min(*query.values, values.count());
  for (std::uint64_t i = 0; i < shown; ++i) {
    text += format_index(values.index(i)) + "\t" + values.text(i);
    if (query.bits) text += "\t" + core::hex_text(values.element(i));
    text += "\n";
  }
  if (shown == values.count()) return text;
  return text + fmt::format("... and {} more: --values={}\n",
                            format_count(values.count() - shown),
                            values.count());
}

/// A slot by its name, else by its position among those of its side.
const TensorRecord* find_slot(const core::OpRecord& op, TensorRole role, const std::string& slot) {
  std::vector<const TensorRecord*> side;
  for (const TensorRecord& tensor : op.tensors) {
    if (tensor.role != role) continue;
    if (tensor.slot == slot) return &tensor;
    side.push_back(&tensor);
  }
  const auto position = core::parse_number<std::size_t>(slot);
  return position && *position < side.size() ? side[*position] : nullptr;
}

bool has_ulp(core::Dtype dtype) { return core::is_floating(dtype) || core::is_complex(dtype); }

const TensorRecord& slot_of(const core::DumpSource& dump,
                            const core::OpRecord& op,
                            const std::string& slot) {
  try {
    return require_slot(op, slot);
  } catch (const core::Error& error) {
    if (error.kind() != ErrorKind::kNotComparable) throw;
    throw core::Error(error.kind(), dump.location() + ": " + error.what(), error.hint());
  }
}

/// What differs before any value is looked at; empty for two tensors that can be compared.
std::string structural_difference(const TensorRecord& here, const TensorRecord& there) {
  const auto type = [](const TensorRecord& tensor) {
    return tensor.state == ContentState::kUndefined
               ? std::string("undefined")
               : format_tensor_type(tensor.dtype, tensor.shape);
  };
  if ((here.state == ContentState::kUndefined) != (there.state == ContentState::kUndefined) ||
      here.dtype != there.dtype || here.shape != there.shape) {
    return type(here) + " against " + type(there);
  }
  if (here.layout != there.layout) {
    return "layout " + escape_name(here.layout) + " against " + escape_name(there.layout);
  }
  return here.attributes == there.attributes ? "" : "other quantiser or sparse parameters";
}

void require_known(const core::DumpSource& dump, const TensorRecord& tensor) {
  if (tensor.state == ContentState::kHashed || tensor.state == ContentState::kUndefined) return;
  throw core::not_comparable(
      fmt::format("{}: nothing is known of the values: {}", dump.location(), state_text(tensor)));
}

/// Leaves them empty when the dumps do not hold the same elements, which only the whole can do
/// without.
void read_both(const core::DumpSource& dump,
               const core::DumpSource& other,
               const TensorQuery& query,
               TensorAgainst& pair) {
  try {
    TensorValues here = read_values(dump, pair.tensor, query.slice);
    TensorValues there = read_values(other, pair.other, query.slice);
    if (here.stride != there.stride || here.shape != there.shape) return;
    pair.values = std::move(here);
    pair.other_values = std::move(there);
  } catch (const core::Error& error) {
    // Of a part nothing but its values can say anything; of the whole the digests have spoken.
    if (error.kind() != ErrorKind::kNotComparable || query.slice) throw;
  }
}

std::string verdict_text(const TensorAgainst& pair) {
  std::string text = fmt::format("{} op {} {} {}",
                                 pair.equal ? "REPRODUCIBLE" : "DIVERGED",
                                 pair.op,
                                 escape_name(pair.operator_name),
                                 escape_name(side_slot(pair.tensor)));
  if (!pair.equal && !pair.metrics) return text + ": " + pair.difference + "\n";
  text += ", " + format_tensor_type(pair.tensor.dtype, pair.tensor.shape);
  if (pair.values && !pair.values->is_whole()) {
    text += ", slice " + format_index(pair.values->shape);
  } else if (pair.values && !pair.values->stored.empty()) {
    text += ", " + pair.values->stored;
  }
  if (pair.equal) {
    const auto elements = pair.values
                              ? pair.values->count()
                              : static_cast<std::uint64_t>(core::element_count(pair.tensor.shape));
    return text + ": " + format_count(elements, "element") + " bit-identical\n";
  }
  const comparators::TensorMetrics& m = *pair.metrics;
  text +=
      fmt::format(": {} of {} differ", format_count(m.n_diff), format_count(m.elements, "element"));
  if (m.ulp_max) text += fmt::format(", max {} ULP", format_ulp(*m.ulp_max));
  if (m.max_abs) text += ", abs max " + format_error(*m.max_abs);
  if (m.max_rel) text += ", rel max " + format_error(*m.max_rel);
  return text + "\n";
}

std::string element_lines(const TensorAgainst& pair, const TensorQuery& query) {
  std::string text = fmt::format("index\tvalue\tagainst\tabs error\tULP{}\n",
                                 query.bits ? "\tbits\tagainst bits" : "");
  for (const std::uint64_t position : differing_first(pair, *query.values)) {
    const ElementPair element = element_pair(pair, position);
    text += format_index(element.index) + "\t" + element.here + "\t" + element.there + "\t" +
            format_error(element.distance) + "\t";
    text += element.ulp                  ? format_ulp(*element.ulp)
            : has_ulp(pair.tensor.dtype) ? "incomparable"
                                         : "-";
    if (query.bits) text += "\t" + element.here_bits + "\t" + element.there_bits;
    text += "\n";
  }
  const std::uint64_t differing = pair.metrics ? pair.metrics->n_diff : 0;
  if (*query.values < differing) {
    text += fmt::format("... and {} more that differ: --values={}\n",
                        format_count(differing - *query.values),
                        differing);
  }
  return text;
}

/// By ExportFormat.
constexpr std::array<std::string_view, 4> kEndings{".npy", ".safetensors", ".csv", ".jsonl"};

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

/// What the dtypes of the format are called in it.
constexpr std::string_view kSafetensors =
    " bool=BOOL uint8=U8 int8=I8 uint16=U16 int16=I16 uint32=U32 int32=I32 uint64=U64 int64=I64 "
    "float16=F16 bfloat16=BF16 float32=F32 float64=F64 float8_e5m2=F8_E5M2 float8_e4m3fn=F8_E4M3 "
    "float8_e8m0fnu=F8_E8M0 complex64=C64 ";

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

/// Writes values as query.as asks for, or as they are.
/// @throws core::Error{kUnsupportedDtype} for a dtype that the format lacks, or that is not
///         converted; core::Error{kIo}
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
            return made.text(i) + (query.bits ? "," + core::hex_text(made.element(i)) : "");
          },
          [&](std::uint64_t i) { return made.json(i); });
      break;
  }
  log_info("wrote " + file.string());
  if (!values.stored.empty()) {
    log_warning(file.string() + " holds " + values.stored + ", in one dimension");
  }
}

}  // namespace

std::string side_slot(const TensorRecord& tensor) {
  return (tensor.role == TensorRole::kInput ? "in:" : "out:") + tensor.slot;
}

const TensorRecord& require_slot(const core::OpRecord& op, const std::string& text) {
  const bool input = text.starts_with("in:");
  if (!input && !text.starts_with("out:")) {
    throw core::usage_error("--tensor " + text + ": expected in:SLOT or out:SLOT",
                            "for example --tensor out:0, or --tensor in:self");
  }
  const std::string slot = text.substr(text.find(':') + 1);
  const TensorRecord* found = find_slot(op, input ? TensorRole::kInput : TensorRole::kOutput, slot);
  if (found != nullptr) return *found;
  std::string slots;
  for (const TensorRecord& tensor : op.tensors) {
    slots += (slots.empty() ? "it has " : ", ") + escape_name(side_slot(tensor));
  }
  throw core::not_comparable(fmt::format("op {} has no tensor {}", op.index, text),
                             slots.empty() ? "it has no tensors" : slots);
}

void refuse_composite(const core::OpRecord& op, const TensorRecord& tensor) {
  if (tensor.state != ContentState::kComposite) return;
  std::string parts;
  for (const TensorRecord& part : op.tensors) {
    if (part.role != tensor.role || !part.slot.starts_with(tensor.slot + ".")) continue;
    parts += (parts.empty() ? "name one of its parts: " : ", ") + escape_name(side_slot(part));
  }
  throw core::not_comparable(
      escape_name(side_slot(tensor)) + " is a composite: its values are those of its parts", parts);
}

std::uint64_t TensorValues::count() const {
  const std::size_t size = core::element_size(dtype);
  return size == 0 ? 0 : bytes.size() / size;
}

std::vector<std::int64_t> TensorValues::index(std::uint64_t position) const {
  return core::unravel((chosen ? chosen->flat(position) : position) * stride, whole);
}

std::span<const std::byte> TensorValues::element(std::uint64_t position) const {
  const std::size_t size = core::element_size(dtype);
  return std::span<const std::byte>(bytes).subspan(position * size, size);
}

std::string TensorValues::text(std::uint64_t position) const {
  return element_text(dtype, element(position));
}

Json TensorValues::json(std::uint64_t position) const {
  Json entry{{"index", index(position)}};
  entry.update(element_json(text(position), core::hex_text(element(position))));
  return entry;
}

TensorValues read_values(const core::DumpSource& dump,
                         const TensorRecord& tensor,
                         const std::optional<core::Subscript>& part) {
  const bool hashed = tensor.state == core::ContentState::kHashed;
  const core::ContentKey key = tensor.content_key();
  TensorValues values;
  values.dtype = tensor.dtype;
  values.shape = tensor.shape;
  values.whole = tensor.shape;
  if (const auto slice = hashed && !tensor.stored ? dump.find_slice(key) : std::nullopt) {
    const core::ContentKey own = core::slice_key(key, *slice);
    values.stored =
        core::describe_slice(*slice, static_cast<std::uint64_t>(core::element_count(tensor.shape)));
    if (part) {
      throw core::not_comparable("of this tensor only " + values.stored + " are stored",
                                 "leave out --slice, or record without dump.slice");
    }
    dump.read_content(own, values.bytes);
    values.shape = own.shape;
    values.stride = slice->stride;
    return values;
  }
  if (!hashed || !tensor.stored) {
    throw core::not_comparable("the dump holds no values of this tensor: " + state_text(tensor),
                               "record with dump.level \"tensor\"");
  }
  if (part) values.chosen.emplace(tensor.shape, *part);
  dump.read_content(key, values.bytes);
  if (values.is_whole()) return values;
  values.bytes = values.chosen->take(values.bytes, core::element_size(tensor.dtype));
  values.shape = values.chosen->shape();
  return values;
}

std::string tensor_view(const core::DumpSource& dump,
                        std::uint64_t index,
                        const TensorQuery& query,
                        Form form) {
  const core::OpRecord op = dump.op(index);
  const TensorRecord& tensor = require_slot(op, query.slot);
  TensorValues values;
  // Statistics may have been recorded where values were not.
  const bool stats_suffice = query.stats && tensor.stats && !tensor.stored && !query.slice;
  const bool needs_bytes = query.values || query.export_to || query.slice;
  if (needs_bytes || (query.stats && !stats_suffice)) {
    refuse_composite(op, tensor);
    values = read_values(dump, tensor, query.slice);
  }
  Json document = inspect_document(dump);
  document["op"] = op.index;
  document["operator"] = full_name(op);
  Json& described = document["tensor"] = tensor_json(tensor);
  if (query.stats) add_numbers(tensor, values, described);
  if (query.export_to) export_values(*query.export_to, op, tensor, values, query);
  if (!values.stored.empty()) {
    document["slice"] = {{"elements", values.shape.front()}, {"stride", values.stride}};
  } else if (values.chosen) {
    document["slice"] = {{"elements", values.count()}, {"shape", values.shape}};
  }
  if (!is_json(form)) {
    described["content"] = state_text(tensor);
    return text_view(document, values, query);
  }
  if (query.values) {
    Json& rows = document["values"] = Json::array();
    for (std::uint64_t i = 0; i < std::min(*query.values, values.count()); ++i) {
      rows.push_back(values.json(i));
    }
  }
  return print_document(std::move(document), form);
}

std::uint64_t counterpart(const core::DumpSource& dump,
                          std::uint64_t index,
                          const core::DumpSource& other) {
  const auto pairing = comparators::pair_records(dump, other);
  const std::uint32_t found = pairing.candidate_of[index];
  if (found != comparators::kUnmatched) return found;
  throw core::not_comparable(fmt::format("{} has no counterpart of op {}", other.location(), index),
                             "name another operator with --op, or leave --against out");
}

TensorAgainst compare_tensor(const core::DumpSource& dump,
                             std::uint64_t op,
                             const core::DumpSource& other,
                             const TensorQuery& query) {
  TensorAgainst pair;
  pair.op = op;
  pair.other_op = counterpart(dump, op, other);
  const core::OpRecord record = dump.op(op);
  pair.operator_name = full_name(record);
  pair.tensor = slot_of(dump, record, query.slot);
  pair.other = slot_of(other, other.op(pair.other_op), query.slot);
  pair.difference = structural_difference(pair.tensor, pair.other);
  if (!pair.difference.empty()) return pair;
  refuse_composite(record, pair.tensor);
  require_known(dump, pair.tensor);
  require_known(other, pair.other);
  const bool same_digest = pair.tensor.digest == pair.other.digest;
  const bool looks = query.values || query.slice || query.export_to;
  if (pair.tensor.state == ContentState::kUndefined || (same_digest && !looks)) {
    pair.equal = true;
    return pair;
  }
  read_both(dump, other, query, pair);
  pair.equal = pair.values ? pair.values->bytes == pair.other_values->bytes : same_digest;
  if (!pair.values) {
    if (!same_digest) pair.difference = "digests differ; the dumps do not both hold the values";
  } else if (pair.equal && !same_digest && !query.slice) {
    // Of a tensor whose digests differ, equal bytes are those of a part that is stored.
    pair.equal = false;
    pair.difference = "digests differ, though not in " + pair.values->stored;
  } else if (!pair.equal) {
    pair.metrics = comparators::measure(pair.values->view(),
                                        pair.other_values->view(),
                                        comparators::element_policy({}, pair.tensor.dtype),
                                        0);
  }
  return pair;
}

ElementPair element_pair(const TensorAgainst& pair, std::uint64_t position) {
  const core::Dtype dtype = pair.tensor.dtype;
  const auto here = pair.values->element(position);
  const auto there = pair.other_values->element(position);
  ElementPair element{pair.values->index(position),
                      pair.values->text(position),
                      pair.other_values->text(position),
                      core::hex_text(here),
                      core::hex_text(there),
                      core::element_distance(dtype, here, there),
                      std::nullopt};
  constexpr std::array<std::int64_t, 1> kOne{1};
  const auto samples = comparators::first_differences({dtype, kOne, here}, {dtype, kOne, there}, 1);
  if (!samples.empty()) {
    element.ulp = samples.front().ulp;
  } else if (has_ulp(dtype) && std::isfinite(element.distance)) {
    element.ulp = 0;
  }
  return element;
}

Json ElementPair::json() const {
  return {{"index", index},
          {"baseline", element_json(here, here_bits)},
          {"candidate", element_json(there, there_bits)},
          {"differs", here_bits != there_bits},
          {"abs_error", json_of(distance)},
          {"ulp", json_of(ulp)}};
}

std::vector<std::uint64_t> differing_first(const TensorAgainst& pair, std::uint64_t most) {
  std::vector<std::uint64_t> positions;
  if (!pair.values) return positions;
  for (const bool wanted : {true, false}) {
    for (std::uint64_t i = 0; i < pair.values->count() && positions.size() < most; ++i) {
      const bool differs =
          !std::ranges::equal(pair.values->element(i), pair.other_values->element(i));
      if (differs == wanted) positions.push_back(i);
    }
  }
  return positions;
}

std::string against_view(const core::DumpSource& dump,
                         const core::DumpSource& other,
                         const TensorAgainst& pair,
                         const TensorQuery& query,
                         Form form) {
  const bool has_values = query.values && pair.values;
  if (!is_json(form)) return verdict_text(pair) + (has_values ? element_lines(pair, query) : "");
  Json document = inspect_document(dump);
  document["against"] = other.location();
  document["op"] = pair.op;
  document["against_op"] = pair.other_op;
  document["operator"] = pair.operator_name;
  document["equal"] = pair.equal;
  document["difference"] = json_of(OrNull{pair.difference});
  document["baseline"] = tensor_json(pair.tensor);
  document["candidate"] = tensor_json(pair.other);
  document["metrics"] = json_of(pair.metrics);
  if (has_values) {
    Json& values = document["values"] = Json::array();
    for (const std::uint64_t position : differing_first(pair, *query.values)) {
      values.push_back(element_pair(pair, position).json());
    }
  }
  return print_document(document, form);
}

std::string_view safetensors_dtype(Dtype dtype) noexcept {
  const std::string name = fmt::format(" {}=", core::dtype_name(dtype));
  const std::size_t found = kSafetensors.find(name);
  if (found == std::string_view::npos) return {};
  const std::string_view rest = kSafetensors.substr(found + name.size());
  return rest.substr(0, rest.find(' '));
}

ExportFormat export_format(const std::filesystem::path& file) {
  const std::string ending = file.extension().string();
  const auto* found = std::ranges::find(kEndings, ending);
  if (found != kEndings.end()) return static_cast<ExportFormat>(found - kEndings.begin());
  if (ending == ".pt" || ending == ".pth") {
    throw core::usage_error("--export " + file.string() + ": that format is Python's pickle",
                            "export to .safetensors, which safetensors.torch.load_file() reads");
  }
  const std::vector<std::string> endings(kEndings.begin(), kEndings.end());
  throw core::usage_error(
      "--export " + file.string() + ": the name says no format",
      near_hint(ending, endings, "it ends in .npy, .safetensors, .csv or .jsonl"));
}

Dtype export_dtype(const std::string& name) {
  const auto dtype = core::parse_dtype(name);
  if (dtype && core::is_conversion_target(*dtype)) return *dtype;
  std::vector<std::string> names;
  for (const core::DtypeRow& row : core::kDtypes) {
    if (core::is_conversion_target(row.dtype)) names.emplace_back(row.name);
  }
  throw core::usage_error(
      "--as " + name + ": values cannot be converted to that",
      near_hint(name, names, "a floating dtype: float16, bfloat16, float32, float64 or float8_*"));
}

void export_pair(const std::filesystem::path& file,
                 const TensorAgainst& pair,
                 const TensorQuery& query) {
  if (!pair.values || !pair.other_values) {
    throw core::not_comparable(
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
    throw core::not_comparable(fmt::format("the dump holds no values of op {}", op),
                               "record with dump.level \"tensor\"");
  }
  write_safetensors(file, record, entries);
  log_info(fmt::format("wrote {}: {}", file.string(), format_count(entries.size(), "tensor")));
  for (const std::string& slot : left_out) {
    log_warning(fmt::format("{} lacks {}: its values are not stored", file.string(), slot));
  }
}

}  // namespace repro_check::cmd
