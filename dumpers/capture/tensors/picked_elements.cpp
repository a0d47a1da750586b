// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/tensors/picked_elements.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "dumpers/capture/torch/torch_compat.h"

namespace repro_check::capture {
namespace {

/// What the arguments after the first are.
enum class Picking : std::uint8_t { kIndices, kMask, kScatter, kIndex };

struct Picker {
  std::string_view base;
  Picking by;
};

constexpr std::array<Picker, 10> kPickers{{{"index_put_", Picking::kIndices},
                                           {"_index_put_impl_", Picking::kIndices},
                                           {"masked_fill_", Picking::kMask},
                                           {"masked_scatter_", Picking::kMask},
                                           {"scatter_", Picking::kScatter},
                                           {"scatter_add_", Picking::kScatter},
                                           {"scatter_reduce_", Picking::kScatter},
                                           {"index_fill_", Picking::kIndex},
                                           {"index_copy_", Picking::kIndex},
                                           {"index_add_", Picking::kIndex}}};

const Picker* find_picker(std::string_view base) {
  const auto* found = std::ranges::find(kPickers, base, &Picker::base);
  return found == kPickers.end() ? nullptr : found;
}

/// A mask of bytes is an old spelling of truths, which not every kernel takes: `index_put_` does,
/// and the `masked_fill_` that it becomes for one value does not.
at::Tensor without_byte_mask(const at::Tensor& index) {
  return index.scalar_type() == at::kByte ? index.to(at::kBool) : index;
}

/// Sets what the operator picks, by doing the same to truths.
void pick(Picking by, const c10::IValue* arguments, at::Tensor& picked) {
  switch (by) {
    case Picking::kIndices: {
      c10::List<c10::optional<at::Tensor>> indices;
      for (const c10::IValue& index : arguments[1].toListRef()) {
        indices.push_back(index.isNone() ? c10::optional<at::Tensor>()
                                         : without_byte_mask(index.toTensor()));
      }
      picked.index_put_(indices, at::ones({}, picked.options()));
      return;
    }
    case Picking::kMask:
      picked.masked_fill_(without_byte_mask(arguments[1].toTensor()), true);
      return;
    case Picking::kScatter:
      picked.scatter_(arguments[1].toInt(), arguments[2].toTensor(), true);
      return;
    case Picking::kIndex:
      picked.index_fill_(arguments[1].toInt(), arguments[2].toTensor(), true);
      return;
  }
}

}  // namespace

bool picks_elements(std::string_view base) { return find_picker(base) != nullptr; }

std::optional<std::vector<ByteRange>> picked_bytes(std::string_view base,
                                                   const c10::IValue* arguments) {
  const Picker* picker = find_picker(base);
  const at::Tensor& self = arguments[0].toTensor();
  if (picker == nullptr || !self.is_contiguous() || self.is_meta()) return std::nullopt;
  const EngineCalls guard;
  const UnheardWarnings quiet;
  at::Tensor picked = at::zeros(self.sizes(), self.options().dtype(at::kBool).requires_grad(false));
  try {
    pick(picker->by, arguments, picked);
  } catch (const c10::Error&) {
    return std::nullopt;  // the operator itself is about to say what is wrong
  }
  picked = picked.cpu();
  const bool* at = picked.data_ptr<bool>();
  const auto width = static_cast<std::size_t>(self.element_size());
  const std::size_t first = extent_of(self).begin;
  std::vector<ByteRange> pieces;
  for (std::int64_t i = 0; i < picked.numel(); ++i) {
    if (!at[i]) continue;
    const std::size_t begin = first + static_cast<std::size_t>(i) * width;
    if (!pieces.empty() && pieces.back().end == begin) {
      pieces.back().end += width;
    } else if (pieces.size() == kMostPieces) {
      return std::nullopt;
    } else {
      pieces.push_back({begin, begin + width});
    }
  }
  return pieces;
}

}  // namespace repro_check::capture
