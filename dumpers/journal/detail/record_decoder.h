// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/trace/op_record.h"
#include "dumpers/journal/detail/byte_reader.h"
#include "dumpers/journal/detail/tensor_codec.h"
#include "dumpers/journal/journal_event.h"

namespace repro_check::journal {

/// What many records have in common: a record with all the rest at its default.
struct CallForm {
  core::OpRecord record;
  std::size_t tensors = 0;  ///< that each of those records has
  std::size_t values = 0;   ///< those in lists included
};

/// The inverse of Interner and RecordEncoder. Every method throws core::Error{kDumpDamaged}, saying
/// what the entry does wrong, when the payload makes no sense.
class RecordDecoder {
 public:
  void define_text(std::span<const std::byte> payload);
  void define_op(std::span<const std::byte> payload);
  void define_site(std::span<const std::byte> payload);
  void define_call_form(std::span<const std::byte> payload);
  void define_tensor_form(std::span<const std::byte> payload);
  [[nodiscard]] EnteredOp entered(std::span<const std::byte> payload) const;
  [[nodiscard]] core::OpRecord record(std::span<const std::byte> payload) const;

 private:
  [[nodiscard]] const std::string& text(ByteReader& bytes) const;
  [[nodiscard]] std::shared_ptr<const core::OperatorInfo> op(ByteReader& bytes) const;
  [[nodiscard]] std::shared_ptr<const core::CallSite> site(ByteReader& bytes) const;
  [[nodiscard]] CallForm call_form(ByteReader& bytes) const;
  [[nodiscard]] CallForm call(ByteReader& bytes) const;
  [[nodiscard]] core::TensorRecord tensor(ByteReader& bytes, std::uint64_t index) const;

  std::vector<std::string> texts_;
  std::vector<std::shared_ptr<const core::OperatorInfo>> ops_;
  std::vector<std::shared_ptr<const core::CallSite>> sites_;
  std::vector<CallForm> call_forms_;
  std::vector<TensorForm> tensor_forms_;
};

}  // namespace repro_check::journal
