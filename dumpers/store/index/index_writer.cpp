// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/index/index_writer.h"

#include <fmt/format.h>

#include <bit>
#include <complex>
#include <cstring>
#include <utility>
#include <variant>

#include "core/content/content.h"
#include "core/error.h"
#include "dumpers/journal/journal.h"

namespace repro_check::store {

namespace {

/// Rows of what is inside the list.
std::uint64_t rows_inside(const core::ValueList& list, int depth) {
  std::uint64_t rows = list.items.size();
  // The journal makes deeper lists opaque, which is one row.
  if (depth == journal::kMaxListDepth) return rows;
  for (const core::Value& item : list.items) {
    if (const auto* inner = std::get_if<core::ValueList>(&item.data)) {
      rows += rows_inside(*inner, depth + 1);
    }
  }
  return rows;
}

std::uint64_t rows_of(const core::Value& value) {
  const auto* list = std::get_if<core::ValueList>(&value.data);
  return list == nullptr ? 1 : 1 + rows_inside(*list, 1);
}

}  // namespace

void RowCounts::add(const core::OpRecord& record) {
  ++ops;
  for (const core::Argument& argument : record.arguments) values += rows_of(argument.value);
  for (const core::Value& result : record.results) values += rows_of(result);
  tensors += record.tensors.size();
  for (const core::TensorRecord& tensor : record.tensors) {
    stats += tensor.stats ? 1U : 0U;
    non_finite += tensor.counted && tensor.counted->any() ? 1U : 0U;
  }
  substitutions += record.substitutions.size();
  generators += record.generator ? 1U : 0U;
}

namespace {

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& rows) {
  return std::as_bytes(std::span<const T>(rows));
}

template <typename T>
std::uint32_t count_of(const std::vector<T>& items) {
  return static_cast<std::uint32_t>(items.size());
}

StatsRow stats_row(const core::TensorStats& stats) {
  static_assert(sizeof(StatsRow) == sizeof(core::TensorStats));
  return std::bit_cast<StatsRow>(stats);
}

std::uint8_t flags_of(const core::TensorRecord& tensor) {
  unsigned flags = 0;
  if (tensor.requires_grad) flags |= kTensorRequiresGrad;
  if (tensor.stored) flags |= kTensorStored;
  if (tensor.watch == core::InputWatch::kSteady) flags |= kTensorSteady;
  if (tensor.watch == core::InputWatch::kMoved) flags |= kTensorMoved;
  if (tensor.counted) flags |= kTensorCounted;
  return static_cast<std::uint8_t>(flags);
}

/// Fills the numbers of a value's row; texts are numbered by `text`.
template <typename Text>
struct ValueFiller {
  ValueRow& row;
  Text text;

  void operator()(std::monostate) const {}
  void operator()(bool value) const { row.integer = value ? 1 : 0; }
  void operator()(std::int64_t value) const { row.integer = value; }
  void operator()(double value) const { row.real = value; }
  void operator()(const std::complex<double>& value) const {
    row.real = value.real();
    row.imaginary = value.imag();
  }
  void operator()(const std::string& value) const { row.integer = text(value); }
  void operator()(const core::Symbol& value) const { row.integer = text(value.name); }
  void operator()(core::TensorSlot value) const { row.integer = value.index; }
  void operator()(const core::Opaque& value) const { row.integer = text(value.type); }
  void operator()(const core::ValueList& value) const {
    row.integer = static_cast<std::int64_t>(value.items.size());
  }
};

}  // namespace

std::uint32_t BytePool::number(std::string_view bytes) {
  const auto found = numbers_.find(bytes);
  if (found != numbers_.end()) return found->second;
  const auto number = static_cast<std::uint32_t>(numbers_.size());
  numbers_.emplace(bytes, number);
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  offsets_.push_back(bytes_.size());
  return number;
}

IndexWriter::IndexWriter(hid_t group, const RowCounts& counts, const Blame& blame)
    : group_(group),
      blame_(blame),
      values_(group, kValuesTable, counts.values, blame),
      tensors_(group, kTensorsTable, counts.tensors, blame),
      stats_(group, kStatsTable, counts.stats, blame),
      substitutions_(group, kSubstitutionsTable, counts.substitutions, blame),
      generators_(group, kGeneratorsTable, counts.generators, blame),
      ops_(counts.ops),
      present_(counts.ops) {
  if (counts.non_finite > 0) non_finite_.emplace(group, kNonFiniteTable, counts.non_finite, blame);
  text("");  // number 0, so that a zero in a row is no accident
}

std::uint64_t IndexWriter::dims(std::span<const std::int64_t> sizes) {
  const std::string_view bytes{reinterpret_cast<const char*>(sizes.data()), sizes.size_bytes()};
  const std::uint32_t number = dims_.number(bytes);  // may move what offsets() points to
  return dims_.offsets()[number] / sizeof(std::int64_t);
}

std::uint32_t IndexWriter::op(const std::shared_ptr<const core::OperatorInfo>& op) {
  if (op == nullptr) {
    throw core::Error(core::ErrorKind::kInternal, "a record names no operator");
  }
  const auto [entry, added] = op_ids_.try_emplace(op.get(), count_of(operators_));
  if (added) {
    kept_.push_back(op);
    operators_.push_back({text(op->name), text(op->overload), op->seeded ? 1U : 0U});
  }
  return entry->second;
}

std::uint32_t IndexWriter::site(const std::shared_ptr<const core::CallSite>& site) {
  if (site == nullptr) return kNoRow;
  const auto [entry, added] = site_ids_.try_emplace(site.get(), count_of(sites_));
  if (added) {
    kept_.push_back(site);
    sites_.push_back({text(site->module_path),
                      text(site->module_type),
                      count_of(frames_),
                      count_of(site->frames)});
    for (const core::SourceFrame& frame : site->frames) {
      frames_.push_back({text(frame.file), frame.line, text(frame.function)});
    }
  }
  return entry->second;
}

void IndexWriter::add_value(const core::Value& value, std::uint32_t name, std::uint16_t level) {
  ValueRow row;
  row.name = name;
  row.kind = static_cast<std::uint16_t>(value.data.index());
  row.level = level;
  const auto number = [this](std::string_view text) { return texts_.number(text); };
  std::visit(ValueFiller<decltype(number)>{row, number}, value.data);
  values_.append_row(row);
  if (const auto* list = std::get_if<core::ValueList>(&value.data)) {
    for (const core::Value& item : list->items) {
      add_value(item, kNoRow, static_cast<std::uint16_t>(level + 1));
    }
  }
}

void IndexWriter::add_values(const core::OpRecord& record, OpRow& row) {
  row.values_begin = values_.written();
  for (const core::Argument& argument : record.arguments) {
    add_value(argument.value, text(argument.name), 0);
  }
  const std::uint64_t middle = values_.written();
  for (const core::Value& result : record.results) add_value(result, kNoRow, 0);
  row.argument_rows = static_cast<std::uint32_t>(middle - row.values_begin);
  row.result_rows = static_cast<std::uint32_t>(values_.written() - middle);
}

void IndexWriter::add_tensor(const core::TensorRecord& tensor) {
  TensorRow row;
  row.digest_high = tensor.digest.high;
  row.digest_low = tensor.digest.low;
  row.storage_offset = tensor.storage_offset;
  row.storage = tensor.storage;
  row.producer = tensor.producer;
  row.shape_begin = dims(tensor.shape);
  row.strides_begin = dims(tensor.strides);
  row.shape_count = count_of(tensor.shape);
  row.strides_count = count_of(tensor.strides);
  row.slot = text(tensor.slot);
  row.device = text(tensor.device);
  row.layout = text(tensor.layout);
  row.attributes = text(tensor.attributes);
  row.name = text(tensor.name);
  row.role = static_cast<std::uint8_t>(tensor.role);
  row.state = static_cast<std::uint8_t>(tensor.state);
  row.dtype = static_cast<std::uint8_t>(tensor.dtype);
  row.flags = flags_of(tensor);
  if (tensor.stats) {
    row.stats = static_cast<std::int64_t>(stats_.written());
    stats_.append_row(stats_row(*tensor.stats));
  }
  if (tensor.counted && tensor.counted->any()) {
    const core::NonFinite& some = *tensor.counted;
    non_finite_.value().append_row(
        NonFiniteRow{tensors_.written(), some.nans, some.positive_infs, some.negative_infs});
  }
  tensors_.append_row(row);
}

void IndexWriter::add(const core::OpRecord& record) {
  if (record.index >= ops_.size() || present_[record.index]) {
    throw core::Error(
        core::ErrorKind::kInternal,
        fmt::format(
            "op {} is not one of the {} of the trace, or came twice", record.index, ops_.size()));
  }
  present_[record.index] = true;
  OpRow& row = ops_[record.index];
  row.parent = record.parent;
  row.wall_ns = record.wall_ns;
  row.op = op(record.op);
  row.site = site(record.site);
  row.depth = record.depth;
  row.phase = static_cast<std::uint32_t>(record.phase);
  row.step = record.step;
  row.rank = record.rank;
  row.lane = record.lane;
  add_values(record, row);
  row.tensors_begin = tensors_.written();
  row.tensor_count = count_of(record.tensors);
  for (const core::TensorRecord& tensor : record.tensors) add_tensor(tensor);
  row.substitutions_begin = substitutions_.written();
  row.substitution_count = count_of(record.substitutions);
  for (const core::Substitution& change : record.substitutions) {
    substitutions_.append_row(SubstitutionRow{
        text(change.argument), text(change.from), text(change.to), text(change.reason)});
  }
  if (record.generator) {
    const core::GeneratorUse& use = *record.generator;
    row.generator = static_cast<std::int64_t>(generators_.written());
    generators_.append_row(GeneratorRow{
        use.seed, use.position_before, use.position_after, use.drawn, text(use.device), 0});
  }
}

TableDigest IndexWriter::write_whole(const TableLayout& layout, std::span<const std::byte> bytes) {
  TableWriter writer(group_, layout, bytes.size() / layout.row_size, blame_);
  writer.append(bytes);
  return writer.finish();
}

std::vector<SliceRow> IndexWriter::slice_rows(const Slices& slices) {
  std::vector<SliceRow> rows;
  rows.reserve(slices.size());
  for (const auto& [key, slice] : slices) {
    rows.push_back({key.digest.high,
                    key.digest.low,
                    slice.digest.high,
                    slice.digest.low,
                    slice.elements,
                    slice.stride,
                    dims(key.shape),
                    count_of(key.shape),
                    static_cast<std::uint32_t>(key.dtype)});
  }
  return rows;
}

core::Digest IndexWriter::finish(std::span<const KeptContent> contents,
                                 bool packed,
                                 const Slices& slices) {
  std::vector<ContentRow> rows;
  rows.reserve(contents.size());
  for (const auto& [key, offset] : contents) {
    rows.push_back({key->digest.high,
                    key->digest.low,
                    dims(key->shape),
                    core::content_size(*key),
                    count_of(key->shape),
                    static_cast<std::uint32_t>(key->dtype),
                    packed || offset == kInReference ? offset : kOwnDataset});
  }
  std::vector<TableDigest> digests;
  for (TableWriter* table : {&values_, &tensors_, &stats_, &substitutions_, &generators_}) {
    digests.push_back(table->finish());
  }
  if (non_finite_) digests.push_back(non_finite_->finish());
  digests.push_back(write_whole(kContentsTable, bytes_of(rows)));
  if (!slices.empty()) digests.push_back(write_whole(kSlicesTable, bytes_of(slice_rows(slices))));
  digests.push_back(write_whole(kOpsTable, bytes_of(ops_)));
  digests.push_back(write_whole(kOperatorsTable, bytes_of(operators_)));
  digests.push_back(write_whole(kSitesTable, bytes_of(sites_)));
  digests.push_back(write_whole(kFramesTable, bytes_of(frames_)));
  digests.push_back(write_whole(kDimsTable, dims_.bytes()));
  digests.push_back(write_whole(kTextBytesTable, texts_.bytes()));
  digests.push_back(write_whole(kTextOffsetsTable, std::as_bytes(texts_.offsets())));
  return index_digest(std::move(digests));
}

}  // namespace repro_check::store
