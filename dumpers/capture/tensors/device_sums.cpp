// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/tensors/device_sums.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "dumpers/capture/tensors/device_memory.h"
#include "dumpers/capture/tensors/sum_kernel.h"
#include "dumpers/capture/torch/cuda_driver.h"
#include "dumpers/capture/torch/torch_compat.h"

namespace repro_check::capture {
namespace {

using sum_kernel::SumGroup;
using sum_kernel::SumPiece;

static_assert(sum_kernel::kColumns == core::kSketchSums);
/// Whose sums are kept on the device at a time: 4 MiB, of half a thousand million elements.
constexpr std::size_t kPieces = 8192;

sum_kernel::NumberKind kind_of(c10::ScalarType type) {
  switch (type) {
    case c10::ScalarType::Double:
      return sum_kernel::kDoubles;
    case c10::ScalarType::Float:
      return sum_kernel::kFloats;
    case c10::ScalarType::Half:
      return sum_kernel::kHalves;
    default:
      return sum_kernel::kBrainHalves;
  }
}

/// What the device is told.
struct Work {
  std::vector<at::Tensor> whole;  ///< copies in one piece, to be kept until it is done
  std::vector<SumPiece> pieces;
  std::vector<SumGroup> groups;
};

Work work_of(std::span<SumOrder* const> orders) {
  Work work;
  for (const SumOrder* order : orders) {
    const auto begin = static_cast<std::uint32_t>(work.pieces.size());
    std::uint64_t row = 0;
    for (const at::Tensor& tensor : order->tensors) {
      if (!tensor.defined() || tensor.numel() == 0) continue;
      const at::Tensor& whole =
          work.whole.emplace_back(tensor.resolve_conj().resolve_neg().contiguous());
      const auto* data = static_cast<const sum_kernel::u8*>(whole.data_ptr());
      const auto size = static_cast<std::size_t>(whole.element_size());
      const auto kind = static_cast<std::uint16_t>(kind_of(whole.scalar_type()));
      const std::uint16_t squares = order->squares ? 1 : 0;
      for_each_piece(
          static_cast<std::size_t>(whole.numel()),
          row,
          [&](std::size_t first, std::size_t count, std::uint64_t its_row) {
            work.pieces.push_back(
                {data + first * size, its_row, static_cast<std::uint32_t>(count), kind, squares});
          });
    }
    work.groups.push_back({begin, static_cast<std::uint32_t>(work.pieces.size())});
  }
  return work;
}

template <class Row>
PinnedRows<Row> pinned(const std::vector<Row>& rows) {
  PinnedRows<Row> copy(std::max<std::size_t>(rows.size(), 1));
  std::ranges::copy(rows, copy.data());
  return copy;
}

bool same_bits(const std::optional<ColumnSums>& left, const std::optional<ColumnSums>& right) {
  return left && right &&
         std::ranges::equal(*left,
                            *right,
                            {},
                            std::bit_cast<std::uint64_t, double>,
                            std::bit_cast<std::uint64_t, double>);
}

}  // namespace

/// Of one device.
class DeviceSums::Adder {
 public:
  /// Null where the device cannot, or finds other sums than the host.
  static std::unique_ptr<Adder> make(c10::Device device) {
    auto program = CudaProgram::compile(sum_kernel::kText, {"sum_pieces", "sum_groups"}, device);
    if (program == nullptr) return nullptr;
    auto adder = std::make_unique<Adder>(device, std::move(program));
    return adder->agrees_with_host() ? std::move(adder) : nullptr;
  }

  Adder(c10::Device device, std::unique_ptr<CudaProgram> program)
      : device_(device), program_(std::move(program)) {}

  bool add_up(std::span<SumOrder* const> orders) {
    const auto stream = program_->current_stream();
    if (!stream) return false;
    const Work work = work_of(orders);
    PinnedRows<SumPiece> pieces = pinned(work.pieces);
    PinnedRows<SumGroup> groups = pinned(work.groups);
    PinnedRows<ColumnSums> totals(orders.size());
    // Given back when all that is to be done with it has been started: who gets it next on this
    // stream comes behind.
    const std::size_t at_once = std::min(work.pieces.size(), kPieces);
    const at::Tensor memory = at::empty({static_cast<std::int64_t>(at_once * core::kSketchSums)},
                                        at::TensorOptions(at::kDouble).device(device_));
    auto* sums = static_cast<double*>(memory.data_ptr());
    std::ranges::fill(std::span(totals.data(), orders.size()), ColumnSums{});
    bool is_started = true;
    for (std::size_t begin = 0; is_started && begin < work.pieces.size(); begin += kPieces) {
      const std::size_t end = std::min(begin + kPieces, work.pieces.size());
      is_started = start(*stream,
                         pieces.data() + begin,
                         groups.data(),
                         orders.size(),
                         {begin, end},
                         sums,
                         totals.data());
    }
    program_->wait();  // for those of a launch that failed, too: they write what goes with this
    for (std::size_t i = 0; is_started && i < orders.size(); ++i) orders[i]->sums = totals[i];
    return is_started;
  }

 private:
  bool start(void* stream,
             const SumPiece* pieces,
             const SumGroup* groups,
             std::size_t group_count,
             std::pair<std::size_t, std::size_t> range,
             double* sums,
             ColumnSums* totals) {
    auto begin = static_cast<std::uint32_t>(range.first);
    auto end = static_cast<std::uint32_t>(range.second);
    std::array<void*, 2> of_pieces{static_cast<void*>(&pieces), &sums};
    std::array<void*, 5> of_groups{static_cast<void*>(&groups), &begin, &end, &sums, &totals};
    return program_->start(stream, 0, end - begin, sum_kernel::kColumns, of_pieces.data()) &&
           program_->start(stream,
                           1,
                           static_cast<unsigned>(group_count),
                           sum_kernel::kColumns,
                           of_groups.data());
  }

  bool agrees_with_host() {
    const at::Tensor numbers = at::arange(-70'000, 75'001, at::TensorOptions(at::kDouble)).div_(7);
    std::vector<at::Tensor> here{
        numbers,
        numbers.to(at::kFloat),
        numbers.slice(0, 0, 9'001).to(at::kHalf),
        numbers.to(at::kBFloat16).view({-1, 1}).expand({-1, 2}).contiguous()};
    std::vector<at::Tensor> there;
    there.reserve(here.size());
    for (const at::Tensor& tensor : here) there.push_back(tensor.to(device_));
    std::array<SumOrder, 2> orders{SumOrder{true, there}, SumOrder{false, there}};
    const std::array<SumOrder*, 2> both{&orders[0], &orders[1]};
    if (!add_up(both)) return false;
    return same_bits(orders[0].sums, sums_on_host({true, here})) &&
           same_bits(orders[1].sums, sums_on_host({false, here}));
  }

  c10::Device device_;
  std::unique_ptr<CudaProgram> program_;
};

DeviceSums::DeviceSums() = default;
DeviceSums::~DeviceSums() = default;

bool DeviceSums::add_up(c10::Device device, std::span<SumOrder* const> orders) {
  const EngineCalls guard;
  const std::lock_guard<std::mutex> lock(mutex_);
  try {
    auto [adder, is_new] = adders_.try_emplace(device.index());
    if (is_new) adder->second = Adder::make(device);
    return adder->second != nullptr && adder->second->add_up(orders);
  } catch (const c10::OutOfMemoryError&) {
    return false;
  }
}

}  // namespace repro_check::capture
