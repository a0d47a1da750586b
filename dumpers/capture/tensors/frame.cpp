// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/tensors/frame.h"

#include "core/text/short_text.h"
#include "dumpers/capture/tensors/storage_table.h"

namespace repro_check::capture {

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

void Frame::watch(const at::Tensor& tensor, std::int64_t version, std::size_t index) {
  const core::ContentState state = tensors[index].state;
  const bool read = state == core::ContentState::kHashed || state == core::ContentState::kComposite;
  if (version >= 0 && read) watched.push_back({tensor.unsafeGetTensorImpl(), version, index});
}

void Frame::settle_watch() {
  for (const WatchedArgument& argument : watched) {
    core::InputWatch& watch = tensors[argument.record].watch;
    if (watch == core::InputWatch::kMoved) continue;
    const bool moved = version_of(*argument.tensor) != argument.version;
    watch = moved ? core::InputWatch::kMoved : core::InputWatch::kSteady;
  }
}

}  // namespace repro_check::capture
