// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/file/packed_window.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace repro_check::store {
namespace {

constexpr std::uint64_t kWindow = std::uint64_t{1} << 20U;

}  // namespace

LentBytes PackedWindow::find(const TraceFile& file, const Extent& packed, const Extent& content) {
  const std::uint64_t end = content.offset + content.bytes;
  const bool follows = std::exchange(expected_, end) == content.offset;
  const bool inside =
      bytes_ != nullptr && content.offset >= begin_ && end <= begin_ + bytes_->size();
  if (!inside) {
    const std::uint64_t left = packed.offset + packed.bytes - content.offset;
    if (!follows || content.bytes > kWindow) return {};
    auto bytes = std::make_shared<std::vector<std::byte>>(std::min(kWindow, left));
    try {
      file.read(packed, content.offset - packed.offset, *bytes);
    } catch (const core::Error&) {
      return {};
    }
    begin_ = content.offset;
    bytes_ = std::move(bytes);
  }
  return {bytes_, std::span(*bytes_).subspan(content.offset - begin_, content.bytes)};
}

}  // namespace repro_check::store
