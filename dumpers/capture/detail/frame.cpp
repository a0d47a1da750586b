// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/detail/frame.h"

namespace repro_check::capture {

core::TensorRecord& RecordList::add() {
  if (used_ == records_->size()) records_->emplace_back();
  core::TensorRecord& record = (*records_)[used_++];
  record.role = core::TensorRole::kInput;
  record.slot.clear();
  record.dtype = core::Dtype::kUnknown;
  record.shape.clear();
  record.strides.clear();
  record.storage_offset = 0;
  record.device.clear();
  record.layout.assign("strided");
  record.attributes.clear();
  record.requires_grad = false;
  record.state = core::ContentState::kNone;
  record.digest = {};
  record.stored = false;
  record.storage = -1;
  record.producer = core::kNoProducer;
  record.name.clear();
  record.stats.reset();
  return record;
}

}  // namespace repro_check::capture
