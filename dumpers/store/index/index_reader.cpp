// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/index/index_reader.h"

#include <fmt/format.h>

#include <complex>

#include "core/error.h"
#include "core/tensor/tensor_view.h"
#include "dumpers/journal/journal.h"
#include "dumpers/store/contents/content_writer.h"

namespace repro_check::store {

namespace {

constexpr std::size_t kMostTables = 256;
constexpr std::uint64_t kMostDims = 1024;  // LibTorch has 64 at most

/// Which alternative of core::Value a row's `kind` says.
enum class ValueKind : std::uint16_t {
  kNone,
  kBool,
  kInt,
  kDouble,
  kComplex,
  kString,
  kSymbol,
  kTensor,
  kOpaque,
  kList,
};

core::InputWatch watch_of(std::uint8_t flags) {
  if ((flags & kTensorMoved) != 0) return core::InputWatch::kMoved;
  return (flags & kTensorSteady) != 0 ? core::InputWatch::kSteady : core::InputWatch::kNotWatched;
}

void check_digest(const TraceFile& file, hid_t group, const core::Digest& expected) {
  std::vector<TableDigest> tables;
  for (const std::string& name : file.names(group, kMostTables)) {
    tables.push_back(TableReader(file, group, name).digest());
  }
  if (index_digest(std::move(tables)) != expected) {
    file.blame().fail("/index does not match the digest in the manifest");
  }
}

TableReader open_table(const TraceFile& file, hid_t group, const TableLayout& layout) {
  TableReader table(file, group, layout.name);
  table.expect_layout(layout);
  return table;
}

/// A table that only some dumps have.
std::optional<TableReader> find_table(const TraceFile& file,
                                      hid_t group,
                                      const TableLayout& layout) {
  if (!file.has_link(group, layout.name)) return std::nullopt;
  return open_table(file, group, layout);
}

/// What is verified is read first: nothing of the index is looked at before its digest holds.
GroupHandle verified_group(const TraceFile& file, const core::Digest& digest) {
  GroupHandle group = file.group("index");
  check_digest(file, group.get(), digest);
  return group;
}

}  // namespace

IndexReader::IndexReader(const TraceFile& file, const core::Digest& digest)
    : file_(file),
      group_(verified_group(file, digest)),
      ops_(open_table(file, group_.get(), kOpsTable)),
      values_(open_table(file, group_.get(), kValuesTable)),
      tensors_(open_table(file, group_.get(), kTensorsTable)),
      stats_(open_table(file, group_.get(), kStatsTable)),
      non_finite_(find_table(file, group_.get(), kNonFiniteTable)),
      substitutions_(open_table(file, group_.get(), kSubstitutionsTable)),
      generators_(open_table(file, group_.get(), kGeneratorsTable)),
      contents_(open_table(file, group_.get(), kContentsTable)),
      slices_(find_table(file, group_.get(), kSlicesTable)),
      operators_(open_table(file, group_.get(), kOperatorsTable)),
      sites_(open_table(file, group_.get(), kSitesTable)),
      frames_(open_table(file, group_.get(), kFramesTable)),
      dims_(open_table(file, group_.get(), kDimsTable).all<std::int64_t>()),
      text_bytes_(open_table(file, group_.get(), kTextBytesTable).all<std::uint8_t>()),
      text_offsets_(open_table(file, group_.get(), kTextOffsetsTable).all<std::uint64_t>()),
      operator_cache_(operators_.rows()),
      site_cache_(sites_.rows()) {
  if (text_offsets_.empty() || text_offsets_.front() != 0 ||
      !std::ranges::is_sorted(text_offsets_) || text_offsets_.back() != text_bytes_.size()) {
    file.blame().inside("/index/text_offsets").fail("does not cut text_bytes into texts");
  }
}

std::string IndexReader::text(std::uint64_t id) const {
  if (id >= text_offsets_.size() - 1) {
    file_.blame().inside("/index/text_offsets").fail(fmt::format("has no text {}", id));
  }
  const auto* begin = reinterpret_cast<const char*>(text_bytes_.data());
  return {begin + text_offsets_[id], begin + text_offsets_[id + 1]};
}

std::vector<std::int64_t> IndexReader::dims(std::uint64_t begin, std::uint64_t count) const {
  if (count > kMostDims || begin > dims_.size() || count > dims_.size() - begin) {
    file_.blame().inside("/index/dims").fail(fmt::format("has no {} rows from {}", count, begin));
  }
  const auto first = dims_.begin() + static_cast<std::ptrdiff_t>(begin);
  return {first, first + static_cast<std::ptrdiff_t>(count)};
}

core::Dtype IndexReader::dtype(std::uint64_t number, const TableReader& table) const {
  if (number > static_cast<std::uint64_t>(core::Dtype::kQInt32)) {
    table.blame().fail(fmt::format("holds the unknown dtype {}", number));
  }
  return static_cast<core::Dtype>(number);
}

std::shared_ptr<const core::OperatorInfo> IndexReader::operator_info(std::uint32_t id) const {
  const auto row = operators_.row<OperatorRow>(id);
  if (auto known = operator_cache_.find(id)) return known;
  auto info = std::make_shared<const core::OperatorInfo>(
      core::OperatorInfo{text(row.name), text(row.overload), row.seeded != 0});
  operator_cache_.keep(id, info, sizeof *info + info->name.size() + info->overload.size());
  return info;
}

std::shared_ptr<const core::CallSite> IndexReader::site(std::uint32_t id) const {
  if (id == kNoRow) return nullptr;
  const auto row = sites_.row<SiteRow>(id);
  if (auto known = site_cache_.find(id)) return known;
  frames_.expect_range(row.frames_begin, row.frame_count, "a site");
  auto site = std::make_shared<core::CallSite>();
  site->module_path = text(row.module_path);
  site->module_type = text(row.module_type);
  std::size_t bytes = sizeof *site + site->module_path.size() + site->module_type.size();
  for (std::uint64_t i = 0; i < row.frame_count; ++i) {
    const auto frame = frames_.row<FrameRow>(row.frames_begin + i);
    site->frames.push_back({text(frame.file), frame.line, text(frame.function)});
    const core::SourceFrame& read = site->frames.back();
    bytes += sizeof read + read.file.size() + read.function.size();
  }
  site_cache_.keep(id, site, bytes);
  return site;
}

core::Value IndexReader::value(std::uint64_t& at,
                               std::uint64_t end,
                               int level,
                               std::size_t tensors) const {
  if (at >= end) values_.blame().fail("holds a list that is cut short");
  const auto row = values_.row<ValueRow>(at++);
  if (row.level != level) values_.blame().fail(fmt::format("has a wrong level in row {}", at - 1));
  switch (static_cast<ValueKind>(row.kind)) {
    case ValueKind::kNone:
      return {};
    case ValueKind::kBool:
      return {row.integer != 0};
    case ValueKind::kInt:
      return {row.integer};
    case ValueKind::kDouble:
      return {row.real};
    case ValueKind::kComplex:
      return {std::complex<double>(row.real, row.imaginary)};
    case ValueKind::kString:
      return {text(static_cast<std::uint64_t>(row.integer))};
    case ValueKind::kSymbol:
      return {core::Symbol{text(static_cast<std::uint64_t>(row.integer))}};
    case ValueKind::kTensor:
      if (std::cmp_less(row.integer, 0) || std::cmp_greater_equal(row.integer, tensors)) {
        values_.blame().fail("refers to a tensor its operator does not hold");
      }
      return {core::TensorSlot{static_cast<std::uint32_t>(row.integer)}};
    case ValueKind::kOpaque:
      return {core::Opaque{text(static_cast<std::uint64_t>(row.integer))}};
    case ValueKind::kList:
      break;
    default:
      values_.blame().fail(fmt::format("holds the unknown kind {}", row.kind));
  }
  if (level >= journal::kMaxListDepth) values_.blame().fail("nests lists too deep");
  core::ValueList list;
  for (std::int64_t i = 0; i < row.integer; ++i) {
    list.items.push_back(value(at, end, level + 1, tensors));
  }
  return {std::move(list)};
}

void IndexReader::read_values(const OpRow& row, core::OpRecord& record) const {
  const std::uint64_t rows = std::uint64_t{row.argument_rows} + row.result_rows;
  values_.expect_range(row.values_begin, rows, "an operator");
  std::uint64_t at = row.values_begin;
  std::uint64_t end = at + row.argument_rows;
  while (at < end) {
    const auto first = values_.row<ValueRow>(at);
    core::Value item = value(at, end, 0, row.tensor_count);
    record.arguments.push_back({text(first.name), std::move(item)});
  }
  end += row.result_rows;
  while (at < end) record.results.push_back(value(at, end, 0, row.tensor_count));
}

core::TensorRecord IndexReader::tensor(std::uint64_t index) const {
  const auto row = tensors_.row<TensorRow>(index);
  const auto nonsense = [&](const char* what) {
    tensors_.blame().fail(fmt::format("row {} {}", index, what));
  };
  core::TensorRecord tensor;
  if (row.role > static_cast<std::uint8_t>(core::TensorRole::kOutput)) nonsense("has no role");
  if (row.state > static_cast<std::uint8_t>(core::ContentState::kExcluded)) {
    nonsense("has an unknown state");
  }
  if (row.producer < core::kNoProducer || std::cmp_greater_equal(row.producer, ops_.rows())) {
    nonsense("was produced by an operator that is not there");
  }
  tensor.role = static_cast<core::TensorRole>(row.role);
  tensor.state = static_cast<core::ContentState>(row.state);
  tensor.dtype = dtype(row.dtype, tensors_);
  tensor.requires_grad = (row.flags & kTensorRequiresGrad) != 0;
  tensor.stored = (row.flags & kTensorStored) != 0;
  tensor.watch = watch_of(row.flags);
  tensor.slot = text(row.slot);
  tensor.device = text(row.device);
  tensor.layout = text(row.layout);
  tensor.attributes = text(row.attributes);
  tensor.name = text(row.name);
  tensor.digest = {row.digest_high, row.digest_low};
  tensor.storage_offset = row.storage_offset;
  tensor.storage = row.storage;
  tensor.producer = row.producer;
  tensor.shape = dims(row.shape_begin, row.shape_count);
  tensor.strides = dims(row.strides_begin, row.strides_count);
  core::element_count(tensor.shape);  // refuses what is no shape
  if (row.stats >= 0) {
    tensor.stats = std::bit_cast<core::TensorStats>(
        stats_.row<StatsRow>(static_cast<std::uint64_t>(row.stats)));
  }
  if ((row.flags & kTensorCounted) != 0) tensor.counted = non_finite(index);
  return tensor;
}

/// Of a tensor that was counted.
core::NonFinite IndexReader::non_finite(std::uint64_t tensor) const {
  std::uint64_t begin = 0;
  std::uint64_t end = non_finite_ ? non_finite_->rows() : 0;
  while (begin < end) {
    const std::uint64_t middle = begin + (end - begin) / 2;
    const auto row = non_finite_->row<NonFiniteRow>(middle);
    if (row.tensor == tensor) return {row.nans, row.positive_infs, row.negative_infs};
    (row.tensor < tensor ? begin : end) = row.tensor < tensor ? middle + 1 : middle;
  }
  return {};
}

core::GeneratorUse IndexReader::generator(std::uint64_t index) const {
  const auto row = generators_.row<GeneratorRow>(index);
  return {text(row.device), row.seed, row.position_before, row.position_after, row.drawn};
}

core::OpRecord IndexReader::op(std::uint64_t index, bool whole) const {
  const auto row = ops_.row<OpRow>(index);
  // An enclosing call is entered first: a parent that comes later would make a cycle possible.
  if (row.parent < -1 || std::cmp_greater_equal(row.parent, index)) {
    ops_.blame().fail(fmt::format("row {} has the impossible parent {}", index, row.parent));
  }
  if (row.phase > static_cast<std::uint32_t>(core::Phase::kOptimizer)) {
    ops_.blame().fail(fmt::format("row {} has the unknown phase {}", index, row.phase));
  }
  core::OpRecord record;
  record.index = index;
  record.op = operator_info(row.op);
  record.site = site(row.site);
  record.depth = row.depth;
  record.parent = row.parent;
  record.phase = static_cast<core::Phase>(row.phase);
  record.step = row.step;
  record.rank = row.rank;
  record.lane = row.lane;
  if (!whole) return record;
  record.wall_ns = row.wall_ns;
  read_values(row, record);
  tensors_.expect_range(row.tensors_begin, row.tensor_count, "an operator");
  record.tensors.reserve(row.tensor_count);
  for (std::uint64_t i = 0; i < row.tensor_count; ++i) {
    record.tensors.push_back(tensor(row.tensors_begin + i));
  }
  substitutions_.expect_range(row.substitutions_begin, row.substitution_count, "an operator");
  for (std::uint64_t i = 0; i < row.substitution_count; ++i) {
    const auto change = substitutions_.row<SubstitutionRow>(row.substitutions_begin + i);
    record.substitutions.push_back(
        {text(change.argument), text(change.from), text(change.to), text(change.reason)});
  }
  if (row.generator >= 0) record.generator = generator(static_cast<std::uint64_t>(row.generator));
  return record;
}

std::pair<core::ContentKey, std::int64_t> IndexReader::content(std::uint64_t index) const {
  const auto row = contents_.row<ContentRow>(index);
  core::ContentKey key;
  key.dtype = dtype(row.dtype, contents_);
  key.shape = dims(row.shape_begin, row.shape_count);
  key.digest = {row.digest_high, row.digest_low};
  std::uint64_t bytes = 0;
  const auto elements = static_cast<std::uint64_t>(core::element_count(key.shape));
  if (__builtin_mul_overflow(elements, core::element_size(key.dtype), &bytes) ||
      bytes != row.bytes || key.dtype == core::Dtype::kUnknown) {
    contents_.blame().fail(fmt::format("row {} is no tensor of {} bytes", index, row.bytes));
  }
  if (row.packed < kInReference) contents_.blame().fail(fmt::format("row {} lies nowhere", index));
  return {std::move(key), row.packed};
}

std::pair<core::ContentKey, core::ContentSlice> IndexReader::slice(std::uint64_t index) const {
  const auto row = slices_.value().row<SliceRow>(index);
  core::ContentKey key{dtype(row.dtype, *slices_),
                       dims(row.shape_begin, row.shape_count),
                       {row.digest_high, row.digest_low}};
  const core::ContentSlice slice{row.elements, row.stride, {row.slice_high, row.slice_low}};
  const auto total = static_cast<std::uint64_t>(core::element_count(key.shape));
  if (key.dtype == core::Dtype::kUnknown || !core::is_slice_of(slice, total)) {
    slices_->blame().fail(fmt::format("row {} is no slice of {} elements", index, total));
  }
  return {std::move(key), slice};
}

}  // namespace repro_check::store
