// SPDX-License-Identifier: Apache-2.0
#include "cmd/inspect/inspect_values.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "cmd/inspect/inspect_views.h"
#include "cmd/render/text.h"
#include "core/content/content_slice.h"
#include "core/error.h"

namespace repro_check::cmd {
namespace {

using core::TensorRecord;
using core::TensorRole;

std::string slots_text(const core::OpRecord& op) {
  std::string text;
  for (const TensorRecord& tensor : op.tensors) {
    text += fmt::format("{}{}:{}",
                        text.empty() ? "" : ", ",
                        tensor.role == TensorRole::kInput ? "in" : "out",
                        escape_name(tensor.slot));
  }
  return text.empty() ? "it has no tensors" : "it has " + text;
}

/// A slot by its name, else by its position among those of its side.
const TensorRecord* find_slot(const core::OpRecord& op, TensorRole role, const std::string& slot) {
  std::vector<const TensorRecord*> side;
  for (const TensorRecord& tensor : op.tensors) {
    if (tensor.role != role) continue;
    if (tensor.slot == slot) return &tensor;
    side.push_back(&tensor);
  }
  std::size_t position = 0;
  const char* end = slot.data() + slot.size();
  const auto [stopped, error] = std::from_chars(slot.data(), end, position);
  if (error != std::errc{} || stopped != end || position >= side.size()) return nullptr;
  return side[position];
}

}  // namespace

const TensorRecord& require_slot(const core::OpRecord& op, const std::string& text) {
  const bool input = text.starts_with("in:");
  if (!input && !text.starts_with("out:")) {
    throw core::Error(core::ErrorKind::kUsage,
                      "--tensor " + text + ": expected in:SLOT or out:SLOT",
                      "for example --tensor out:0, or --tensor in:self");
  }
  const std::string slot = text.substr(text.find(':') + 1);
  const TensorRecord* found = find_slot(op, input ? TensorRole::kInput : TensorRole::kOutput, slot);
  if (found != nullptr) return *found;
  throw core::Error(core::ErrorKind::kNotComparable,
                    fmt::format("op {} has no tensor {}", op.index, text),
                    slots_text(op));
}

std::string side_slot(const TensorRecord& tensor) {
  return (tensor.role == TensorRole::kInput ? "in:" : "out:") + tensor.slot;
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
      throw core::Error(core::ErrorKind::kNotComparable,
                        "of this tensor only " + values.stored + " are stored",
                        "leave out --slice, or record without dump.slice");
    }
    dump.read_content(own, values.bytes);
    values.shape = own.shape;
    values.stride = slice->stride;
    return values;
  }
  if (!hashed || !tensor.stored) {
    throw core::Error(core::ErrorKind::kNotComparable,
                      "the dump holds no values of this tensor: " + state_text(tensor),
                      "record with dump.level \"tensor\"");
  }
  if (part) values.chosen.emplace(tensor.shape, *part);
  dump.read_content(key, values.bytes);
  if (!values.chosen || values.chosen->is_whole()) return values;
  values.bytes = values.chosen->take(values.bytes, core::element_size(tensor.dtype));
  values.shape = values.chosen->shape();
  return values;
}

}  // namespace repro_check::cmd
