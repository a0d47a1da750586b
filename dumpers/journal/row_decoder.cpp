// SPDX-License-Identifier: Apache-2.0
#include "dumpers/journal/row_decoder.h"

#include <fmt/format.h>

#include <utility>
#include <variant>

#include "core/tensor/dtype.h"
#include "dumpers/journal/row_fields.h"

namespace repro_check::journal {
namespace {

/// The last enumerator of what a row may hold.
template <typename Enum>
constexpr Enum kLast = Enum{};
template <>
constexpr core::Phase kLast<core::Phase> = core::kLastPhase;
template <>
constexpr core::TensorRole kLast<core::TensorRole> = core::TensorRole::kOutput;
template <>
constexpr core::ContentState kLast<core::ContentState> = core::ContentState::kExcluded;
template <>
constexpr core::Dtype kLast<core::Dtype> = core::Dtype::kQInt32;

using ValueData = decltype(core::Value::data);

/// Makes `into` the alternative of that number. @return whether there is such an alternative
bool set_alternative(ValueData& into, std::size_t kind) {
  return [&]<std::size_t... I>(std::index_sequence<I...> /*all*/) {
    return ((I == kind && (into.emplace<I>(), true)) || ...);
  }
  (std::make_index_sequence<std::variant_size_v<ValueData>>());
}

}  // namespace

struct RowDecoder::FromRow {
  static constexpr bool kReads = true;

  const RowDecoder& decoder;
  const TableLayout& table;

  template <typename Number, typename Field>
  void number(const Number& row, Field& field) {
    field = static_cast<Field>(row);
  }
  template <typename Number, typename Enum>
  void word(Number row, Enum& value, const char* what) {
    if (row > static_cast<Number>(kLast<Enum>)) {
      decoder.fail(table, fmt::format("holds the unknown {} {}", what, row));
    }
    value = static_cast<Enum>(row);
  }
  template <typename Field>
  void flag(std::uint8_t flags, std::uint8_t bit, Field& value, Field wanted = Field{true}) {
    if ((flags & bit) != 0) value = wanted;
  }
  template <typename Number>
  void text(Number row, std::string& text) {
    text.assign(decoder.text(static_cast<std::uint64_t>(row)));
  }
  void digest(const core::Digest& row, std::optional<core::Digest>& digest) {
    if (row != core::Digest{}) digest = row;
  }
  void sizes(std::uint64_t begin, std::uint32_t count, std::vector<std::int64_t>& sizes) {
    const auto found = decoder.sizes(begin, count);
    sizes.assign(found.begin(), found.end());
  }
};

template <typename Row, typename Object>
void RowDecoder::read(const TableLayout& table, Row& row, Object& object) const {
  FromRow f{*this, table};
  row_fields(f, row, object);
}

template <typename Row>
Row RowDecoder::row_of(const TableLayout& table,
                       const core::LargeVector<Row>& rows,
                       std::uint64_t number) const {
  if (number >= rows.size()) fail(table, fmt::format("has no row {}", number));
  return rows[number];
}

std::string_view RowDecoder::text(std::uint64_t number) const {
  const auto& offsets = tables_.text_offsets;
  if (number >= offsets.size() - 1) fail(kTextOffsetsTable, fmt::format("has no text {}", number));
  const char* bytes = tables_.text_bytes.data();
  return {bytes + offsets[number], bytes + offsets[number + 1]};
}

std::span<const std::int64_t> RowDecoder::sizes(std::uint64_t begin, std::uint64_t count) const {
  const auto& dims = tables_.dims;
  if (count > kMostDims || begin > dims.size() || count > dims.size() - begin) {
    fail(kDimsTable, fmt::format("has no {} rows from {}", count, begin));
  }
  return std::span(dims).subspan(begin, count);
}

std::shared_ptr<const core::OperatorInfo> RowDecoder::operator_info(std::uint32_t row) const {
  if (row == kNoRow) return nullptr;
  auto held = row_of(kOperatorsTable, tables_.operators, row);
  if (auto known = operator_cache_.find(row)) return known;
  auto info = std::make_shared<core::OperatorInfo>();
  read(kOperatorsTable, held, *info);
  operator_cache_.keep(row, info, sizeof *info + info->name.size() + info->overload.size());
  return info;
}

std::shared_ptr<const core::CallSite> RowDecoder::site(std::uint32_t row) const {
  if (row == kNoRow) return nullptr;
  auto held = row_of(kSitesTable, tables_.sites, row);
  if (auto known = site_cache_.find(row)) return known;
  auto site = std::make_shared<core::CallSite>();
  read(kSitesTable, held, *site);
  std::size_t bytes = sizeof *site + site->module_path.size() + site->module_type.size();
  for (std::uint64_t i = 0; i < held.frame_count; ++i) {
    auto frame = row_of(kFramesTable, tables_.frames, held.frames_begin + i);
    core::SourceFrame& into = site->frames.emplace_back();
    read(kFramesTable, frame, into);
    bytes += sizeof into + into.file.size() + into.function.size();
  }
  site_cache_.keep(row, site, bytes);
  return site;
}

struct RowDecoder::ValueRun {
  std::span<const ValueRow> left;
  std::size_t tensors;  ///< of the call
};

void RowDecoder::read_value(ValueRun& run, int level, core::Value& value) const {
  if (run.left.empty()) fail(kValuesTable, "holds a list that is cut short");
  ValueRow row = run.left.front();
  run.left = run.left.subspan(1);
  if (row.level != level) fail(kValuesTable, "has a wrong level in a row");
  if (!set_alternative(value.data, row.kind)) {
    fail(kValuesTable, fmt::format("holds the unknown kind {}", row.kind));
  }
  if (std::holds_alternative<core::TensorSlot>(value.data) &&
      (std::cmp_less(row.integer, 0) || std::cmp_greater_equal(row.integer, run.tensors))) {
    fail(kValuesTable, "refers to a tensor its operator does not hold");
  }
  read(kValuesTable, row, value);
  auto* list = std::get_if<core::ValueList>(&value.data);
  if (list == nullptr) return;
  if (level >= kMaxListDepth) fail(kValuesTable, "nests lists too deep");
  for (std::int64_t i = 0; i < row.integer; ++i) {
    read_value(run, level + 1, list->items.emplace_back());
  }
}

namespace {

/// The item at a place of a list that is written over, made where the list ends.
template <typename Item>
Item& item_at(std::vector<Item>& list, std::size_t place) {
  return place < list.size() ? list[place] : list.emplace_back();
}

}  // namespace

void RowDecoder::read_values(const CallRows& call, core::OpRecord& record) const {
  ValueRun run{call.values.first(call.op.argument_rows), call.tensors.size()};
  std::size_t count = 0;
  for (; !run.left.empty(); ++count) {
    core::Argument& argument = item_at(record.arguments, count);
    argument.name.assign(text(run.left.front().name));
    read_value(run, 0, argument.value);
  }
  record.arguments.resize(count);
  run.left = call.values.subspan(call.op.argument_rows);
  for (count = 0; !run.left.empty(); ++count) read_value(run, 0, item_at(record.results, count));
  record.results.resize(count);
}

void RowDecoder::read_tensor(const CallRows& call,
                             std::size_t number,
                             core::TensorRecord& tensor) const {
  TensorRow row = call.tensors[number];
  if (row.producer < core::kNoProducer || std::cmp_greater_equal(row.producer, op_limit())) {
    fail(kTensorsTable, "holds a tensor that was produced by an operator that is not there");
  }
  // What only some rows say.
  tensor.requires_grad = tensor.stored = false;
  tensor.watch = core::InputWatch::kNotWatched;
  tensor.stats.reset();
  tensor.counted.reset();
  read(kTensorsTable, row, tensor);
  core::element_count(tensor.shape);  // refuses what is no shape
  if (row.stats >= 0) {
    if (std::cmp_greater_equal(row.stats, call.stats.size())) {
      fail(kStatsTable, fmt::format("has no row {}", row.stats));
    }
    tensor.stats = call.stats[static_cast<std::size_t>(row.stats)];
  }
  if ((row.flags & kTensorCounted) != 0) {
    const auto found = std::ranges::find(call.non_finite, number, &NonFiniteRow::tensor);
    tensor.counted = found == call.non_finite.end() ? core::NonFinite{} : found->counts;
  }
}

void RowDecoder::read_record(const CallRows& call, bool whole, core::OpRecord& into) const {
  OpRow row = call.op;
  read(kOpsTable, row, static_cast<core::OpHead&>(into));
  into.index = call.index;
  into.op = operator_info(row.op);
  into.site = site(row.site);
  into.wall_ns = row.wall_ns;
  if (!whole) return;
  read_values(call, into);
  into.tensors.resize(call.tensors.size());
  for (std::size_t i = 0; i < call.tensors.size(); ++i) read_tensor(call, i, into.tensors[i]);
  into.substitutions.clear();
  for (SubstitutionRow change : call.substitutions) {
    read(kSubstitutionsTable, change, into.substitutions.emplace_back());
  }
  into.generator.reset();
  for (GeneratorRow use : call.generators) read(kGeneratorsTable, use, into.generator.emplace());
}

core::ContentKey RowDecoder::content_key(ContentRow row, std::uint64_t number) const {
  core::ContentKey key;
  read(kContentsTable, row, key);
  std::uint64_t bytes = 0;
  const auto elements = static_cast<std::uint64_t>(core::element_count(key.shape));
  if (__builtin_mul_overflow(elements, core::element_size(key.dtype), &bytes) ||
      bytes != row.bytes || key.dtype == core::Dtype::kUnknown) {
    fail(kContentsTable, fmt::format("row {} is no tensor of {} bytes", number, row.bytes));
  }
  return key;
}

SlicedContent RowDecoder::slice(SliceRow row, std::uint64_t number) const {
  SlicedContent content{{}, {row.elements, row.stride, row.slice}, row};
  read(kSlicesTable, row, content.key);
  const auto total = static_cast<std::uint64_t>(core::element_count(content.key.shape));
  if (content.key.dtype == core::Dtype::kUnknown || !core::is_slice_of(content.slice, total)) {
    fail(kSlicesTable, fmt::format("row {} is no slice of {} elements", number, total));
  }
  return content;
}

core::BlockRow RowDecoder::block(BlockLine row) const {
  core::BlockRow block;
  read(kBlocksTable, row, block);
  return block;
}

core::ParameterRow RowDecoder::parameter(ParameterLine row) const {
  core::ParameterRow parameter;
  read(kParametersTable, row, parameter);
  return parameter;
}

}  // namespace repro_check::journal
