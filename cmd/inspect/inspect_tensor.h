// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cmd/inspect/inspect_view.h"
#include "comparators/report/report.h"
#include "core/tensor/subarray.h"
#include "core/tensor/tensor_record.h"
#include "core/trace/dump.h"

namespace repro_check::cmd {

/// What is asked of one tensor.
struct TensorQuery {
  std::string slot;  ///< `out:0`, `in:1`, `in:self`
  bool stats = false;
  std::optional<std::uint64_t> values;   ///< so many elements from the first
  std::optional<std::string> export_to;  ///< file
  std::optional<core::Subscript> slice;  ///< all of this is about a part
  bool bits = false;                     ///< beside every value
  std::optional<core::Dtype> as;         ///< of what is exported
  std::size_t columns = 0;               ///< of the text; 0 = any number
};

/// The tensor of a record that `out:0`, `in:1` or `in:self` names: by its slot, else by its
/// position on its side. Borrowed from `op`.
/// @throws core::Error{kUsage} for another form, core::Error{kNotComparable} when there is none
const core::TensorRecord& require_slot(const core::OpRecord& op, const std::string& text);

/// `out:0`, as require_slot() takes it.
std::string side_slot(const core::TensorRecord& tensor);

/// Values of a tensor, or of the part of it that was asked for, or that is stored.
struct TensorValues {
  core::Dtype dtype = core::Dtype::kUnknown;
  std::vector<std::byte> bytes;
  std::vector<std::int64_t> shape;       ///< of `bytes`
  std::vector<std::int64_t> whole;       ///< of the tensor
  std::optional<core::Subarray> chosen;  ///< the part that was asked for
  std::uint64_t stride = 1;              ///< of the slice that is stored
  std::string stored;  ///< `the first 8 of 4096 elements`; empty where all of them are

  [[nodiscard]] core::TensorView view() const { return {dtype, shape, bytes}; }
  [[nodiscard]] bool is_whole() const { return !chosen || chosen->is_whole(); }
  /// Elements here. Whole bytes where the dtype is unknown.
  [[nodiscard]] std::uint64_t count() const;
  /// Where in the tensor the element stands. @param position  below count()
  [[nodiscard]] std::vector<std::int64_t> index(std::uint64_t position) const;
  [[nodiscard]] std::span<const std::byte> element(std::uint64_t position) const;
  /// As people read it. @param position  below count()
  [[nodiscard]] std::string text(std::uint64_t position) const;
  /// `{"index": [0, 1], "value": 0.5, "bits": "3f000000"}`
  [[nodiscard]] Json json(std::uint64_t position) const;
};

/// A composite, as a sparse tensor is, has no values of its own.
/// @param op  whose tensor it is
/// @throws core::Error{kNotComparable} naming the parts, where it is one
void refuse_composite(const core::OpRecord& op, const core::TensorRecord& tensor);

/// @throws core::Error{kNotComparable} when the dump does not hold them, or `part` is of another
///         tensor; core::Error{kDumpDamaged}
TensorValues read_values(const core::DumpSource& dump,
                         const core::TensorRecord& tensor,
                         const std::optional<core::Subscript>& part = std::nullopt);

/// @throws core::Error{kNotComparable} when the op has no such tensor or its content is not stored
std::string tensor_view(const core::DumpSource& dump,
                        std::uint64_t index,
                        const TensorQuery& query,
                        Form form);

/// A tensor of one operator in two dumps, bit by bit.
struct TensorAgainst {
  std::uint64_t op = 0;
  std::uint64_t other_op = 0;  ///< its counterpart
  std::string operator_name;
  core::TensorRecord tensor;
  core::TensorRecord other;
  bool equal = false;
  std::string difference;  ///< where no values were compared: what differs all the same
  /// Of both, where they were read, the same dtype and shape.
  std::optional<TensorValues> values;
  std::optional<TensorValues> other_values;
  std::optional<comparators::TensorMetrics> metrics;  ///< where values differ
};

/// Reads values where digests differ, where `query` asks for some of them, and where it shows any.
/// @throws core::Error{kNotComparable} when there is no such operator or tensor in one of them, or
///         nothing says whether they are equal; core::Error{kDumpDamaged}
TensorAgainst compare_tensor(const core::DumpSource& dump,
                             std::uint64_t op,
                             const core::DumpSource& other,
                             const TensorQuery& query);

/// One element of a pair.
struct ElementPair {
  std::vector<std::int64_t> index;
  std::string here;  ///< shortest text that reads back
  std::string there;
  std::string here_bits;
  std::string there_bits;
  double distance = 0;               ///< absolute error
  std::optional<std::uint64_t> ulp;  ///< floating dtypes alone, and no NaN or infinity

  [[nodiscard]] Json json() const;
};

/// @param position  below pair.values->count(); both values are there
ElementPair element_pair(const TensorAgainst& pair, std::uint64_t position);

/// Positions of elements, differing ones first, each group in order.
std::vector<std::uint64_t> differing_first(const TensorAgainst& pair, std::uint64_t most);

/// The verdict, and with query.values elements, differing ones first.
std::string against_view(const core::DumpSource& dump,
                         const core::DumpSource& other,
                         const TensorAgainst& pair,
                         const TensorQuery& query,
                         Form form);

enum class ExportFormat : std::uint8_t { kNpy, kSafetensors, kCsv, kJsonl };

/// By the ending of the name.
/// @throws core::Error{kUsage} for any other
ExportFormat export_format(const std::filesystem::path& file);

/// The dtype that `--as` names.
/// @throws core::Error{kUsage} when values are not converted to it
core::Dtype export_dtype(const std::string& name);

/// Every element of both sides: .csv and .jsonl alone.
/// @throws core::Error{kNotComparable} when values of either are not stored; core::Error{kIo}
void export_pair(const std::filesystem::path& file,
                 const TensorAgainst& pair,
                 const TensorQuery& query);

/// All tensors of an operator that are stored, as .safetensors. Floating ones are converted by
/// `as`.
/// @throws core::Error{kNotComparable} when none is; core::Error{kUnsupportedDtype}; kIo
void export_op(const std::filesystem::path& file,
               const core::DumpSource& dump,
               std::uint64_t op,
               std::optional<core::Dtype> as);

/// The name of a dtype in the header; empty where the format has none: complex32 and complex128,
/// quantised ones, float4 pairs, and the float8 kinds without a negative zero.
std::string_view safetensors_dtype(core::Dtype dtype) noexcept;

/// The record in `other` that belongs to op `index` of `dump`, as a comparison of the two pairs
/// them.
/// @throws core::Error{kNotComparable} when there is none
std::uint64_t counterpart(const core::DumpSource& dump,
                          std::uint64_t index,
                          const core::DumpSource& other);

}  // namespace repro_check::cmd
