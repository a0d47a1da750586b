// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/index/small_contents.h"

namespace repro_check::store {

SmallContents::SmallContents(hid_t file,
                             const ContentDatasets& datasets,
                             bool packed,
                             std::uint64_t contents,
                             std::uint64_t bytes,
                             const Blame& blame)
    : datasets_(datasets), contents_(contents), bytes_(bytes) {
  if (packed) packed_.emplace(file, kPackedTable, bytes, blame);
}

void SmallContents::add(const journal::StoredContent& content) {
  if (content.place != journal::ContentPlace::kInline) return;
  --contents_;
  bytes_ -= content.bytes.size();
  if (packed_) {
    packed_->append(content.bytes);
  } else {
    datasets_.write(content.key, content.bytes);
  }
}

void SmallContents::finish() {
  if (packed_) packed_->finish();
}

}  // namespace repro_check::store
