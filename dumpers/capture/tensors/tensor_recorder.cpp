// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/tensors/tensor_recorder.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "core/digest/digest.h"
#include "core/tensor/tensor_stats.h"
#include "core/tensor/unread.h"
#include "core/text/short_text.h"
#include "dumpers/capture/tensors/device_memory.h"
#include "dumpers/capture/torch/cuda_driver.h"
#include "dumpers/capture/torch/torch_compat.h"

namespace repro_check::capture {

namespace {

constexpr std::int64_t kBitsPerByte = 8;

/// 0 for a dtype whose bytes nobody has looked at. By word, because the enumerators of newer types
/// do not exist in older releases.
std::int64_t elements_per_byte(c10::ScalarType type) {
  const std::string_view word = c10::toString(type);
  if (word == "QUInt4x2") return 2;
  if (word == "QUInt2x4") return 4;
  const bool whole_bytes =
      word.starts_with("Bits") || word.starts_with("Int") || word.starts_with("UInt");
  return whole_bytes ? 1 : 0;
}

/// Made without the dispatcher, which knows no such view. Sizes, strides and offset are in bytes.
at::Tensor bytes_at(const at::Tensor& tensor,
                    at::IntArrayRef sizes,
                    at::IntArrayRef strides,
                    std::int64_t offset) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  const c10::DispatchKeySet keys =
      impl.key_set().remove(c10::DispatchKey::Quantized).add(c10::DispatchKey::Dense);
  auto bytes = c10::make_intrusive<c10::TensorImpl>(c10::TensorImpl::VIEW,
                                                    c10::Storage(impl.unsafe_storage()),
                                                    keys,
                                                    caffe2::TypeMeta::Make<std::uint8_t>());
  bytes->set_sizes_and_strides(sizes, strides);
  bytes->set_storage_offset(offset);
  bytes->set_version_counter(impl.version_counter());
  return at::Tensor(std::move(bytes));
}

}  // namespace

at::Tensor raw_bytes(const at::Tensor& tensor) {
  const std::int64_t per_byte = elements_per_byte(tensor.scalar_type());
  if (per_byte == 0) return {};
  if (per_byte > 1) {
    if (!tensor.is_contiguous() || tensor.storage_offset() != 0) return {};
    return bytes_at(tensor, {(tensor.numel() + per_byte - 1) / per_byte}, {1}, 0);
  }
  const std::int64_t width = tensor.element_size();
  std::vector<std::int64_t> sizes = tensor.sizes().vec();
  std::vector<std::int64_t> strides = tensor.strides().vec();
  if (width != 1) {
    for (std::int64_t& stride : strides) stride *= width;
    sizes.push_back(width);
    strides.push_back(1);
  }
  return bytes_at(tensor, sizes, strides, tensor.storage_offset() * width);
}

std::uint8_t unused_bits(const at::Tensor& tensor) {
  const std::int64_t per_byte = elements_per_byte(tensor.scalar_type());
  const std::int64_t in_last = per_byte > 1 ? tensor.numel() % per_byte : 0;
  if (in_last == 0) return 0;
  // The first element lies in the lowest bits.
  return static_cast<std::uint8_t>(0xFFU << (in_last * kBitsPerByte / per_byte));
}

at::Tensor without_bits(const at::Tensor& bytes, std::uint8_t bits) {
  const EngineCalls guard;
  at::Tensor copy = bytes.clone();
  std::uint8_t& last = copy.data_ptr<std::uint8_t>()[copy.numel() - 1];
  last = static_cast<std::uint8_t>(last & ~bits);
  return copy;
}

namespace {

TensorParts sparse_coo_parts(const at::Tensor& tensor, std::string& attributes) {
  attributes = fmt::format("sparse_dim={} dense_dim={} nnz={} coalesced={}",
                           tensor.sparse_dim(),
                           tensor.dense_dim(),
                           tensor._nnz(),
                           tensor.is_coalesced());
  return {{"indices", tensor._indices()}, {"values", tensor._values()}};
}

TensorParts sparse_compressed_parts(const at::Tensor& tensor, std::string& attributes) {
  attributes = fmt::format("dense_dim={} nnz={}", tensor.dense_dim(), tensor._nnz());
  const bool by_row =
      tensor.layout() == c10::Layout::SparseCsr || tensor.layout() == c10::Layout::SparseBsr;
  if (by_row) {
    return {{"crow_indices", tensor.crow_indices()},
            {"col_indices", tensor.col_indices()},
            {"values", tensor.values()}};
  }
  return {{"ccol_indices", tensor.ccol_indices()},
          {"row_indices", tensor.row_indices()},
          {"values", tensor.values()}};
}

TensorParts nested_tensor_parts(const at::Tensor& tensor, std::string& attributes) {
  const NestedParts parts = nested_parts(*at::native::get_nested_tensor_impl(tensor));
  attributes = fmt::format("dim={} components={}", tensor.dim(), parts.sizes.size(0));
  return {{"values", parts.buffer},
          {"sizes", parts.sizes},
          {"strides", parts.strides},
          {"offsets", parts.offsets}};
}

/// Doubles with all their digits, so that equal text means equal parameters.
TensorParts quantised_parts(const at::Tensor& tensor, std::string& attributes) {
  const c10::QScheme scheme = tensor.qscheme();
  if (scheme == c10::kPerTensorAffine || scheme == c10::kPerTensorSymmetric) {
    attributes = fmt::format("scheme={} scale={:.17g} zero_point={}",
                             c10::toString(scheme),
                             tensor.q_scale(),
                             tensor.q_zero_point());
    return {};
  }
  attributes = fmt::format("scheme={} axis={}", c10::toString(scheme), tensor.q_per_channel_axis());
  return {{"scales", tensor.q_per_channel_scales()},
          {"zero_points", tensor.q_per_channel_zero_points()}};
}

/// Of a tensor whose dtype a dump has no name for: its bytes, and its quantiser.
TensorParts packed_parts(const at::Tensor& tensor, std::string& attributes) {
  TensorParts parts;
  if (tensor.is_quantized()) parts = quantised_parts(tensor, attributes);
  if (at::Tensor bytes = raw_bytes(tensor); bytes.defined()) {
    parts.emplace(parts.begin(), "values", std::move(bytes));
  } else {
    attributes += attributes.empty() ? "elements=unreadable" : " elements=unreadable";
  }
  return parts;
}

/// Whether every element of the view lies inside its storage. A storage may have been freed or
/// shrunk under it.
bool fits_storage(const at::Tensor& tensor) {
  std::int64_t last = tensor.storage_offset();
  for (std::int64_t i = 0; i < tensor.dim(); ++i) {
    last += (tensor.size(i) - 1) * tensor.stride(i);
  }
  const auto bytes = static_cast<std::size_t>((last + 1) * tensor.element_size());
  return bytes <= tensor.unsafeGetTensorImpl()->unsafe_storage().nbytes();
}

StridedBytes strided_bytes(const at::Tensor& tensor) {
  const auto element = static_cast<std::size_t>(tensor.element_size());
  const std::byte* base = nullptr;
  if (tensor.numel() > 0) {
    const c10::Storage& storage = tensor.unsafeGetTensorImpl()->unsafe_storage();
    base = storage_bytes(*storage.unsafeGetStorageImpl()) +
           static_cast<std::size_t>(tensor.storage_offset()) * element;
  }
  return {base,
          element,
          {tensor.sizes().data(), tensor.sizes().size()},
          {tensor.strides().data(), tensor.strides().size()}};
}

}  // namespace

TensorForm form_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return TensorForm::kUndefined;
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  constexpr c10::DispatchKeySet kWrappers(
      {c10::DispatchKey::Python, c10::DispatchKey::Functionalize});
  constexpr c10::DispatchKeySet kTransforms(
      {c10::DispatchKey::FuncTorchBatched, c10::DispatchKey::FuncTorchGradWrapper});
  if (impl.key_set().has_any(kWrappers) || has_symbolic_sizes(impl)) return TensorForm::kOpaque;
  if (impl.key_set().has_any(kTransforms)) {
    return kOpensTransforms ? TensorForm::kTransformed : TensorForm::kOpaque;
  }
  if (impl.is_nested()) return TensorForm::kNested;
  switch (impl.layout()) {
    case c10::Layout::Strided:
      return impl.has_storage() ? TensorForm::kStrided : TensorForm::kOpaque;
    case c10::Layout::Sparse:
      return TensorForm::kSparseCoo;
    case c10::Layout::SparseCsr:
    case c10::Layout::SparseCsc:
    case c10::Layout::SparseBsr:
    case c10::Layout::SparseBsc:
      return TensorForm::kSparseCompressed;
    case c10::Layout::Mkldnn:
      return TensorForm::kMkldnn;
    default:
      return TensorForm::kOpaque;
  }
}

TensorParts parts_of(const at::Tensor& tensor, TensorForm form, std::string& attributes) {
  const EngineCalls guard;
  switch (form) {
    case TensorForm::kSparseCoo:
      return sparse_coo_parts(tensor, attributes);
    case TensorForm::kSparseCompressed:
      return sparse_compressed_parts(tensor, attributes);
    case TensorForm::kNested:
      return nested_tensor_parts(tensor, attributes);
    case TensorForm::kTransformed: {
      Transformed found = transformed(tensor);
      attributes = std::move(found.transforms);
      return {{"values", std::move(found.values)}};
    }
    case TensorForm::kStrided:
      if (dtype_of(tensor.scalar_type()) == core::Dtype::kUnknown) {
        return packed_parts(tensor, attributes);
      }
      if (tensor.is_quantized()) return quantised_parts(tensor, attributes);
      break;
    default:
      break;
  }
  return {};
}

std::size_t storage_size_of(const at::Tensor& tensor) {
  if (form_of(tensor) != TensorForm::kStrided) return 0;
  return tensor.unsafeGetTensorImpl()->unsafe_storage().nbytes();
}

std::vector<at::Tensor> strided_parts(const at::Tensor& tensor, TensorForm form) {
  std::vector<at::Tensor> strided;
  std::string unused;
  for (auto& [ending, part] : parts_of(tensor, form, unused)) {
    if (form_of(part) == TensorForm::kStrided) strided.push_back(std::move(part));
  }
  return strided;
}

namespace {

/// Through page-locked memory, which PyTorch keeps for the next copy, where that pays: from other
/// memory the driver copies everything twice.
at::Tensor on_host(const at::Tensor& tensor) {
  constexpr std::size_t kWorthPinning = std::size_t{64} << 10U;
  constexpr std::size_t kMostPinned = std::size_t{1} << 30U;
  const bool pins = tensor.is_cuda() && tensor.layout() == c10::Layout::Strided &&
                    tensor.nbytes() >= kWorthPinning && tensor.nbytes() <= kMostPinned;
  if (!pins) return tensor.to(at::kCPU);
  at::Tensor host = at::empty_like(tensor, tensor.options().device(at::kCPU).pinned_memory(true));
  host.copy_(tensor);
  return host;
}

}  // namespace

std::optional<HostContent> host_content(const at::Tensor& tensor) {
  at::Tensor holder = tensor;
  if (form_of(tensor) == TensorForm::kMkldnn) {
    const EngineCalls guard;
    holder = tensor.to_dense();
  } else if (tensor.is_meta() || captures_graph(tensor.device())) {
    return std::nullopt;
  } else if (tensor._is_zerotensor()) {
    const EngineCalls guard;
    holder = at::zeros(tensor.sizes(), tensor.options().device(at::kCPU));
  } else if (!tensor.is_cpu() || tensor.is_conj() || tensor.is_neg()) {
    const EngineCalls guard;
    holder = on_host(tensor.resolve_conj().resolve_neg());
  }
  if (holder.numel() > 0) {
    const c10::Storage& storage = holder.unsafeGetTensorImpl()->unsafe_storage();
    if (storage_bytes(*storage.unsafeGetStorageImpl()) == nullptr || !fits_storage(holder)) {
      return std::nullopt;
    }
  }
  StridedBytes bytes = strided_bytes(holder);
  return HostContent{std::move(holder), std::move(bytes)};
}

namespace {

/// An expanded view can claim far more bytes than there are; beyond this it is hashed, not stored.
constexpr std::size_t kMaxExpandedBytes = std::size_t{1} << 30U;

/// Bytes of a tensor for a sink, without a copy of the whole. What is copied is digested again:
/// another thread may write the tensor, and a dump must not hold other bytes than its digests say.
class LogicalBytes final : public core::ContentBytes {
 public:
  explicit LogicalBytes(const StridedBytes& content) : content_(content) {}

  [[nodiscard]] std::size_t size() const noexcept override { return content_.byte_count(); }

  void read(std::size_t begin, std::span<std::byte> into) const override {
    in_order_ = in_order_ && begin == read_;
    read_ = begin + into.size();
    if (begin == 0 && into.size() == size() && size() <= kBlock) {
      content_.copy(0, into);
      digest_ = core::digest_leaf(into);
      return;
    }
    if (!stream_) stream_.emplace();
    // What lies scattered is copied by tiles, for which a block may be too narrow.
    const std::size_t most = content_.contiguous() ? kBlock : into.size();
    while (!into.empty()) {
      const std::span<std::byte> block = into.first(std::min(most, into.size()));
      content_.copy(begin / content_.element_size(), block);
      if (in_order_) stream_->add(block);
      begin += block.size();
      into = into.subspan(block.size());
    }
    if (in_order_ && read_ == size()) digest_ = stream_->finish();
  }

  [[nodiscard]] std::optional<core::Digest> digest_read() const override {
    return in_order_ ? digest_ : std::nullopt;
  }

 private:
  /// Digested while the processor still has it at hand.
  static constexpr std::size_t kBlock = std::size_t{128} << 10U;
  static_assert(kBlock <= core::kDigestChunk);

  const StridedBytes& content_;
  mutable bool in_order_ = true;
  mutable std::size_t read_ = 0;
  mutable std::optional<core::DigestStream> stream_;
  mutable std::optional<core::Digest> digest_;
};

/// Number by number, and mostly over the same ones: there are too few for a copy by the C library.
void set_numbers(at::IntArrayRef from, std::vector<std::int64_t>& into) {
  if (into.size() != from.size()) into.resize(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (into[i] != from[i]) into[i] = from[i];
  }
}

/// Puts those at their default that an ordinary tensor with elements in a storage need not have;
/// its slot, kind, sizes, strides and storage are left for whoever describes it.
void clear_optional(core::TensorRecord& record) {
  core::set_text(record.layout, "strided");
  record.attributes.clear();
  record.state = core::ContentState::kNone;
  record.digest = {};
  record.stored = false;
  record.watch = core::InputWatch::kNotWatched;
  record.stats.reset();
  record.counted.reset();
}

void fill_kind(const at::Tensor& tensor, TensorForm form, core::TensorRecord& record) {
  record.dtype = dtype_of(tensor.scalar_type());
  device_name(tensor.device(), record.device);
  record.requires_grad = tensor.requires_grad();
  switch (form) {
    case TensorForm::kStrided:
      if (tensor.is_quantized()) record.layout = "quantised";
      break;
    case TensorForm::kNested:
      record.layout = "nested";
      break;
    case TensorForm::kTransformed:
      record.layout = "transformed";
      break;
    case TensorForm::kOpaque:
      record.layout = "opaque";
      break;
    default:
      record.layout = layout_name(tensor.layout());
      break;
  }
  if (record.dtype == core::Dtype::kUnknown) {
    record.attributes = "dtype=" + scalar_type_name(tensor.scalar_type());
  }
}

void fill_summary(const CachedDigest& known, core::TensorRecord& record) {
  record.digest = known.digest;
  record.stats = known.stats;
  record.counted = known.counted;
}

}  // namespace

std::size_t TensorRecorder::add(const at::Tensor& tensor,
                                const std::string& slot,
                                const RecordingOrder& order,
                                RecordList& into) {
  const std::size_t index = into.size();
  core::TensorRecord& record = into.add();
  const TensorForm form = form_of(tensor);
  if (form == TensorForm::kStrided) {
    clear_optional(record);  // the rest is written below
  } else {
    record = {};
  }
  record.role = order.role;
  core::set_text(record.slot, slot);
  if (form == TensorForm::kUndefined) {
    record.state = core::ContentState::kUndefined;
    return index;
  }
  fill_kind(tensor, form, record);
  if (accelerator_.empty() && !tensor.is_cpu() && !tensor.is_meta()) accelerator_ = record.device;
  switch (form) {
    case TensorForm::kStrided:
      set_numbers(tensor.sizes(), record.shape);
      add_strided(tensor, order, index, into);
      if (tensor.is_quantized() || into[index].dtype == core::Dtype::kUnknown) {
        add_parts(tensor, form, order, index, into);
      }
      break;
    case TensorForm::kMkldnn:
      set_numbers(tensor.sizes(), record.shape);
      fill_content(tensor, nullptr, order, record);
      break;
    case TensorForm::kNested:
      record.state = core::ContentState::kComposite;
      add_parts(tensor, form, order, index, into);
      break;
    case TensorForm::kSparseCoo:
    case TensorForm::kSparseCompressed:
    case TensorForm::kTransformed:
      set_numbers(tensor.sizes(), record.shape);
      record.state = core::ContentState::kComposite;
      add_parts(tensor, form, order, index, into);
      break;
    default:
      record.attributes = "opaque";
      break;
  }
  return index;
}

Awaited RecordList::awaited(std::size_t index) const {
  const auto found = std::ranges::find(arrivals.contents, index, &Arrivals::Content::record);
  return found != arrivals.contents.end() ? found->content : nullptr;
}

Awaited RecordList::content_of(std::size_t index) const {
  if (Awaited content = awaited(index)) return content;
  const core::TensorRecord& record = (*records_)[index];
  return known_content({record.digest, record.counted.value_or(core::NonFinite{}), record.stats});
}

void TensorRecorder::note_number(const at::Tensor& tensor, std::size_t index, RecordList& in) {
  core::TensorRecord& record = in[index];
  if (record.state != core::ContentState::kHashed || record.stats || tensor.numel() != 1 ||
      form_of(tensor) != TensorForm::kStrided) {
    return;
  }
  const auto awaited = std::ranges::find(in.arrivals.contents, index, &Arrivals::Content::record);
  if (awaited != in.arrivals.contents.end()) {
    awaited->is_number = true;
    return;
  }
  const auto content = host_content(tensor);
  if (!content) return;
  record.stats = core::tensor_stats(record.dtype, content->bytes.bytes());
  record.counted.reset();
  record.stored = record.stored || store_bytes(content->bytes, record);
}

void TensorRecorder::read_filled(const at::Tensor& tensor,
                                 bool keep_bytes,
                                 std::size_t index,
                                 RecordList& in) {
  StorageEntry& entry = storages_.find(tensor.unsafeGetTensorImpl()->unsafe_storage());
  entry.take_as_written();
  RecordingOrder order;
  order.keep_bytes = keep_bytes;
  fill_content(tensor, &entry, order, in[index]);
  if (awaited_ != nullptr) in.arrivals.contents.push_back({index, std::move(awaited_), false});
}

void TensorRecorder::settle(const Arrivals& arrivals, std::vector<core::TensorRecord>& records) {
  for (const Arrivals::Content& each : arrivals.contents) {
    core::TensorRecord& record = records[each.record];
    take_awaited(each.content, record);
    awaited_.reset();
    if (!each.is_number || record.state != core::ContentState::kHashed) continue;
    record.stats = core::tensor_stats(record.dtype, each.content->bytes);
    record.counted.reset();
    record.stored = sink_->put_content(record.content_key(), each.content->bytes);
  }
  for (const auto& [record, write] : arrivals.producers) {
    records[record].producer = write->last();
    if (write->any_happened()) records[record].name.clear();
  }
  // The last ones, and told of by nothing else.
  std::for_each(arrivals.written.rbegin(), arrivals.written.rend(), [&](const auto& each) {
    if (each.write->happened()) return;
    records.erase(records.begin() + static_cast<std::ptrdiff_t>(each.record));
  });
}

void TensorRecorder::take_awaited(const Awaited& content, core::TensorRecord& record) {
  switch (content->state) {
    case AwaitedContent::State::kOnTheWay:
      record.state = core::ContentState::kHashed;
      awaited_ = content;
      break;
    case AwaitedContent::State::kRead:
      record.state = core::ContentState::kHashed;
      take_summary(content->summary, record);
      if (!content->bytes.empty()) awaited_ = content;  // of which somebody may ask for the number
      break;
    case AwaitedContent::State::kUnread:
      record.state = core::ContentState::kNone;
      record.attributes = core::kUnread;
      break;
  }
}

void TensorRecorder::add_strided(const at::Tensor& tensor,
                                 const RecordingOrder& order,
                                 std::size_t index,
                                 RecordList& into) {
  core::TensorRecord& record = into[index];
  set_numbers(tensor.strides(), record.strides);
  record.storage_offset = tensor.storage_offset();
  const c10::Storage& storage = tensor.unsafeGetTensorImpl()->unsafe_storage();
  const std::int64_t next_number = storages_.next_number();
  StorageEntry& entry = storages_.find(storage);
  if (!tensor.is_meta()) entry.notice_memory(*storage.unsafeGetStorageImpl());
  const bool inner = entry.number >= order.first_inner;
  // A kernel's own, or shown by `set_`, which Python allocated and may still have to fill.
  const bool is_input = order.role == core::TensorRole::kInput;
  const bool is_unfilled = is_input ? inner : unseen_writes_ && !order.hands_out;
  if (is_unfilled && entry.number == next_number) entry.foreign = true;
  record.storage = entry.number;
  entry.settle_writer();
  record.producer = entry.writer;
  if (entry.open_write != nullptr) into.arrivals.producers.push_back({index, entry.open_write});
  core::set_text(record.name, entry.name_of(tensor));
  if (order.filled_next && tensor.numel() > 0) {
    record.state = core::ContentState::kUninitialised;
    return;
  }
  if (unseen_writes_ && entry.uninitialised) {
    // Not whether it looks written: zeros on memory that happens to hold zeros do not.
    entry.fingerprint.reset();
    // What is quantised none but operators can fill, and those of a kernel nobody saw.
    const bool seen = tensor.is_quantized() && entry.follows_writes;
    const bool reads = order.reads && order.role == core::TensorRole::kInput;
    if (reads && !seen && entry.is_uninitialised(tensor)) entry.take_as_written();
  }
  if (!order.hands_out && tensor.numel() > 0 && entry.is_uninitialised(tensor)) {
    record.state = core::ContentState::kUninitialised;
    if (order.reads && !order.excluded) digest_written(tensor, entry, record);
    return;
  }
  if (entry.foreign && !order.reads) {
    record.state = core::ContentState::kUninitialised;
    return;
  }
  entry.foreign = false;
  if (inner) entry.digests.clear();
  // What is hashed without some of its bits is not what others find who look at the same bytes.
  fill_content(tensor, order.unused_bits == 0 ? &entry : nullptr, order, record);
  if (awaited_ != nullptr) into.arrivals.contents.push_back({index, std::move(awaited_), false});
}

/// What nobody has written counts as 0. Not remembered: who reads such memory is at fault.
void TensorRecorder::digest_written(const at::Tensor& tensor,
                                    const StorageEntry& entry,
                                    core::TensorRecord& record) {
  if (entry.written.empty() || tensor.is_meta() || !tensor.is_contiguous()) return;
  const auto content = host_content(tensor);
  if (!content) return;
  std::vector<std::byte> bytes(content->bytes.byte_count());
  content->bytes.copy(0, bytes);
  const ByteRange range = extent_of(tensor);
  bool nothing = true;
  std::size_t next = range.begin;
  entry.written.for_each_gap(range, [&](const ByteRange& gap) {
    nothing = nothing && gap.begin == next;
    next = gap.end;
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(gap.begin - range.begin),
                gap.end - gap.begin,
                std::byte{0});
  });
  nothing = nothing && next == range.end;
  hashed_bytes_ += bytes.size();
  if (!nothing) record.digest = core::digest_bytes(bytes);
}

void TensorRecorder::add_parts(const at::Tensor& tensor,
                               TensorForm form,
                               const RecordingOrder& order,
                               std::size_t index,
                               RecordList& into) {
  std::string attributes;
  const TensorParts parts = parts_of(tensor, form, attributes);
  const std::string prefix = into[index].slot + '.';
  std::string& known = into[index].attributes;
  if (!known.empty()) known += ' ';
  known += attributes;
  const bool packed = form == TensorForm::kStrided && into[index].dtype == core::Dtype::kUnknown;
  for (const auto& [ending, part] : parts) {
    const bool values = ending == "values";
    RecordingOrder part_order = order;
    part_order.unused_bits = packed && values ? unused_bits(tensor) : std::uint8_t{0};
    const std::size_t at = add(part, prefix + ending, part_order, into);
    if (!values) continue;
    // Who made the values, and whose they are, is what a person asks of the whole.
    into[index].producer = into[at].producer;
    into[index].name = into[at].name;
    if (packed) {
      const core::ContentState state = into[at].state;
      into[index].state =
          state == core::ContentState::kHashed ? core::ContentState::kComposite : state;
    }
  }
}

/// @param entry  of the tensor's storage; may be null
/// @return what is known of its content; null where it has to be read
CachedDigest* TensorRecorder::find_cached(const at::Tensor& tensor,
                                          StorageEntry* entry,
                                          bool verify) {
  if (entry == nullptr) return nullptr;
  CachedDigest* cached = entry->find(tensor);
  if (cached != nullptr && cached->awaited != nullptr &&
      cached->awaited->state == AwaitedContent::State::kUnread) {
    entry->digests.clear();
    cached = nullptr;
  }
  return cached == nullptr && !verify ? entry->take_same_bytes(tensor) : cached;
}

void TensorRecorder::fill_content(const at::Tensor& tensor,
                                  StorageEntry* entry,
                                  const RecordingOrder& order,
                                  core::TensorRecord& record) {
  if (order.excluded) {
    record.state = core::ContentState::kExcluded;
    return;
  }
  if (record.dtype == core::Dtype::kUnknown || tensor.is_meta()) return;
  const std::int64_t version = version_of(*tensor.unsafeGetTensorImpl());
  const bool verify = order.verify || (entry != nullptr && entry->shared);
  CachedDigest* cached = find_cached(tensor, entry, verify);
  const bool bytes_needed = cached != nullptr && wants_bytes(order) && !cached->stored;
  if (cached != nullptr && !verify && !bytes_needed) {
    if (cached->awaited != nullptr) {
      note_stream(*cached->awaited, *entry, order, record);
      return take_awaited(cached->awaited, record);
    }
    fill_summary(*cached, record);
    complete(nullptr, cached, order, record);
    return;
  }
  if (const Awaited there = start_there(tensor, order, record)) {
    there->is_beside = order.beside;
    if (entry != nullptr) {
      remember_awaited(tensor, version, *entry, order, record, there);
      note_stream(*there, *entry, order, record);
    }
    return take_awaited(there, record);
  }
  std::optional<HostContent> content = host_content(tensor);
  if (content && order.unused_bits != 0) {
    content = host_content(without_bits(content->holder, order.unused_bits));
  }
  if (!content) return;
  // What was digested on a device has no statistics.
  if (cached != nullptr && !verify && (cached->stats || !with_stats())) {
    fill_summary(*cached, record);
  } else {
    summarise(content->bytes, record);
    if (entry != nullptr) cached = &remember(tensor, version, *entry, order, record);
  }
  complete(&content->bytes, cached, order, record);
  // Nobody can say which bytes are there by now.
  if (record.watch == core::InputWatch::kMoved && entry != nullptr) entry->digests.clear();
}

CachedDigest& TensorRecorder::remember(const at::Tensor& tensor,
                                       std::int64_t version,
                                       StorageEntry& entry,
                                       const RecordingOrder& order,
                                       const core::TensorRecord& record) {
  if (CachedDigest* cached = entry.find(tensor)) {
    const Awaited& awaited = cached->awaited;
    if (awaited == nullptr && cached->digest == record.digest) return *cached;
    if (order.verify) {
      stale_.push_back({record.slot,
                        awaited,
                        awaited == nullptr ? nullptr : known_content({record.digest, {}, {}})});
    }
    entry.digests.clear();
  }
  CachedDigest& cached = entry.remember(tensor, record.digest, version);
  cached.stats = record.stats;
  cached.counted = record.counted;
  return cached;
}

void TensorRecorder::complete(const StridedBytes* content,
                              CachedDigest* cached,
                              const RecordingOrder& order,
                              core::TensorRecord& record) {
  record.state = core::ContentState::kHashed;
  if (!wants_bytes(order)) return;
  record.stored = cached != nullptr && cached->stored;
  if (record.stored || content == nullptr) return;
  record.stored = store_bytes(*content, record);
  if (cached != nullptr) cached->stored = record.stored;
}

bool TensorRecorder::store_bytes(const StridedBytes& content, core::TensorRecord& record) {
  const core::ContentKey key = record.content_key();
  if (sink_->has_content(key)) return true;
  if (content.byte_count() > kMaxExpandedBytes && content.overlapping()) return false;
  const LogicalBytes bytes(content);
  const bool stored = sink_->put_content(key, bytes);
  const std::optional<core::Digest> read = bytes.digest_read();
  if (stored && read && *read != record.digest) {
    record.digest = *read;
    record.stats.reset();  // of the other bytes
    record.counted.reset();
    record.watch = core::InputWatch::kMoved;
    raced_.push_back(record.slot);
  }
  return stored;
}

void TensorRecorder::summarise(const StridedBytes& content, core::TensorRecord& record) {
  hashed_bytes_ += content.byte_count();
  take_summary(summarise_content(content, record.dtype, with_stats()), record);
}

bool lies_on_device(const at::Tensor& tensor) {
  if (!tensor.is_cuda() || form_of(tensor) != TensorForm::kStrided || tensor.is_quantized() ||
      tensor._is_zerotensor() || tensor.numel() == 0) {
    return false;
  }
  const c10::Storage& storage = tensor.unsafeGetTensorImpl()->unsafe_storage();
  return storage_bytes(*storage.unsafeGetStorageImpl()) != nullptr && fits_storage(tensor) &&
         tensor.nbytes() <= storage.nbytes();
}

Awaited TensorRecorder::start_there(const at::Tensor& tensor,
                                    const RecordingOrder& order,
                                    const core::TensorRecord& record) {
  // Where values are kept of some operators alone, no statistics are asked of the others.
  const bool is_digest = !with_stats() || (level_ == core::DumpLevel::kTensor && !order.keep_bytes);
  if (!is_digest || order.unused_bits != 0 || !devices_.hold(tensor)) return nullptr;
  const DeviceContent content{tensor, record.dtype};
  std::vector<Awaited> started = devices_.start({&content, 1});
  if (started.empty()) return nullptr;
  hashed_bytes_ += tensor.nbytes();
  return std::move(started.front());
}

void TensorRecorder::remember_awaited(const at::Tensor& tensor,
                                      std::int64_t version,
                                      StorageEntry& entry,
                                      const RecordingOrder& order,
                                      const core::TensorRecord& record,
                                      const Awaited& content) {
  if (const CachedDigest* cached = entry.find(tensor)) {
    if (order.verify) {
      stale_.push_back(
          {record.slot,
           cached->awaited != nullptr ? cached->awaited : known_content({cached->digest, {}, {}}),
           content});
    }
    // Whether the others hold nobody knows yet.
    entry.digests.clear();
  }
  entry.remember(tensor, {}, version).awaited = content;
}

void TensorRecorder::note_stream(const AwaitedContent& content,
                                 StorageEntry& entry,
                                 const RecordingOrder& order,
                                 core::TensorRecord& record) {
  if (content.state == AwaitedContent::State::kUnread) return;
  if (!order.beside) {
    // An operator that reads on another stream has been ordered by the program.
    if (order.role == core::TensorRole::kOutput) entry.stream = content.stream;
    return;
  }
  if (!content.is_beside || entry.stream.value_or(content.stream) == content.stream) return;
  record.watch = core::InputWatch::kMoved;
  unordered_.push_back(record.slot);
}

void TensorRecorder::take_summary(const ContentSummary& summary, core::TensorRecord& record) const {
  record.digest = summary.digest;
  record.stats = summary.stats;
  record.counted.reset();
  if (!summary.stats) record.counted = summary.non_finite;
}

/// The entry of one whose digest nobody knows, but may.
StorageEntry* TensorRecorder::unread_entry(const at::Tensor& tensor) {
  if (tensor.is_quantized() || tensor.nbytes() == 0 ||
      dtype_of(tensor.scalar_type()) == core::Dtype::kUnknown) {
    return nullptr;
  }
  const c10::Storage& storage = tensor.unsafeGetTensorImpl()->unsafe_storage();
  StorageEntry& entry = storages_.find(storage);
  entry.notice_memory(*storage.unsafeGetStorageImpl());
  if (entry.uninitialised || entry.foreign || entry.shared) return nullptr;
  return entry.find(tensor) == nullptr ? &entry : nullptr;
}

void TensorRecorder::remember_ahead(const at::Tensor& tensor,
                                    std::int64_t version,
                                    const ContentSummary& summary,
                                    StorageEntry& entry) {
  CachedDigest& cached = entry.remember(tensor, summary.digest, version);
  cached.stats = summary.stats;
  if (!summary.stats) cached.counted = summary.non_finite;
}

void TensorRecorder::read_ahead(std::span<const at::Tensor> tensors) {
  read_ahead_there(tensors);
  struct Unread {
    const at::Tensor* tensor;
    StorageEntry* entry;
    std::int64_t version;
    HostContent content;
  };
  std::vector<Unread> unread;
  std::size_t bytes = 0;
  for (const at::Tensor& tensor : tensors) {
    if (form_of(tensor) != TensorForm::kStrided || !tensor.is_cpu() ||
        tensor.nbytes() > core::kDigestChunk) {
      continue;
    }
    StorageEntry* entry = unread_entry(tensor);
    if (entry == nullptr) continue;
    const std::int64_t version = version_of(*tensor.unsafeGetTensorImpl());
    if (std::optional<HostContent> content = host_content(tensor)) {
      bytes += content->bytes.byte_count();
      unread.push_back({&tensor, entry, version, std::move(*content)});
    }
  }
  if (bytes < core::kDigestChunk / 4) return;  // not worth waking other threads
  std::vector<ContentOrder> orders;
  orders.reserve(unread.size());
  for (const auto& [tensor, entry, version, content] : unread) {
    orders.push_back({&content.bytes, dtype_of(tensor->scalar_type()), {}});
  }
  summarise_contents(orders, with_stats());
  hashed_bytes_ += bytes;
  for (std::size_t i = 0; i < unread.size(); ++i) {
    const Unread& read = unread[i];
    remember_ahead(*read.tensor, read.version, orders[i].summary, *read.entry);
  }
}

void TensorRecorder::read_ahead_there(std::span<const at::Tensor> tensors) {
  if (with_stats()) return;
  struct Unread {
    StorageEntry* entry;
    std::int64_t version;
  };
  std::vector<Unread> unread;
  std::vector<DeviceContent> contents;
  for (const at::Tensor& tensor : tensors) {
    const bool elsewhere = !contents.empty() && contents.front().tensor.device() != tensor.device();
    if (elsewhere || !devices_.hold(tensor)) continue;
    StorageEntry* entry = unread_entry(tensor);
    if (entry == nullptr) continue;
    unread.push_back({entry, version_of(*tensor.unsafeGetTensorImpl())});
    contents.push_back({tensor, dtype_of(tensor.scalar_type())});
  }
  const std::vector<Awaited> started = devices_.start(contents);
  for (std::size_t i = 0; i < started.size(); ++i) {
    const at::Tensor& tensor = contents[i].tensor;
    hashed_bytes_ += tensor.nbytes();
    unread[i].entry->remember(tensor, {}, unread[i].version).awaited = started[i];
    started[i]->is_beside = true;
  }
}

}  // namespace repro_check::capture
