// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "core/trace/op_record.h"

namespace repro_check::core {

/// Null where the record has none.
inline const TensorRecord* find_tensor(const OpRecord& record,
                                       TensorRole role,
                                       std::string_view slot) {
  for (const TensorRecord& tensor : record.tensors) {
    if (tensor.role == role && tensor.slot == slot) return &tensor;
  }
  return nullptr;
}

}  // namespace repro_check::core
