// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/tensor/tensor_record.h"
#include "core/trace/dump.h"
#include "core/trace/op_record.h"

namespace repro_check::replay {

/// Whether a shadow holds its values: of dense memory, real or complex, of a dtype with numbers.
bool is_widened(const core::TensorRecord& tensor);

/// Which storage a tensor of a record has: that of the trace, or one of its own, which is negative.
std::int64_t storage_of(const core::OpRecord& record, std::size_t tensor);

/// The recorded values in row-major order, floating ones as float64 and complex ones as complex128.
/// @throws core::Error{kNotComparable} when the dump does not hold them
at::Tensor recorded_values(const core::DumpSource& dump, const core::TensorRecord& tensor);

/// One-dimensional float64 memory as the tensor shows it; of a complex tensor two numbers an
/// element.
at::Tensor shown(const at::Tensor& memory, const core::TensorRecord& tensor);
/// The same, or values of its shape, without what expand() repeats: to be written to.
at::Tensor without_repeats(at::Tensor shown, const core::TensorRecord& tensor);
/// The same conjugated or negated, where that is nearer to the recorded values: a tensor may be
/// that only when it is read.
at::Tensor as_read(const at::Tensor& tensor, const at::Tensor& recorded);
/// How many numbers such memory must have at least.
std::int64_t numbers_needed(const core::TensorRecord& tensor);

/// Storages of a trace in float64. What no call has written yet is filled with recorded values when
/// a call first reads it.
class ShadowMemory {
 public:
  /// What had to be taken from the record.
  enum class Filled {
    kNothing,  ///< all was there
    kOutside,  ///< values that no recorded call had made
    kCut,      ///< values that stand where others had been computed
  };

  /// @param dump  borrowed
  explicit ShadowMemory(const core::DumpSource& dump) : dump_(dump) {}

  /// Takes recorded values for memory that was written outside of recorded calls.
  Filled follow(const core::TensorRecord& tensor, std::int64_t storage);
  /// Whether memory was written outside of recorded calls since they last showed it so.
  [[nodiscard]] bool has_changed(const core::TensorRecord& tensor, std::int64_t storage) const;
  /// Whether all that the tensor shows is there.
  [[nodiscard]] bool holds(const core::TensorRecord& tensor, std::int64_t storage) const;
  /// Makes sure that a call can read what the argument shows.
  /// @throws core::Error{kNotComparable} when the dump does not hold values that are needed
  Filled fill(const core::TensorRecord& tensor, std::int64_t storage);
  /// What the argument or result shows now.
  at::Tensor view(const core::TensorRecord& tensor, std::int64_t storage);
  /// The memory itself; undefined where there is none. It does not change from now on: what is
  /// written later is written to a copy.
  at::Tensor lend(std::int64_t storage);
  /// To be called before a call writes in place.
  void own(std::int64_t storage);

  /// Puts a result where the record shows it.
  void put(const core::TensorRecord& tensor, std::int64_t storage, const at::Tensor& values);
  /// Notes that a call has written what the tensor shows.
  void wrote(const core::TensorRecord& tensor, std::int64_t storage);
  /// Puts the recorded values there, which then are not computed; what lies beside them stays as it
  /// is. Forgets the storage where the dump does not hold them.
  void put_recorded(const core::TensorRecord& tensor, std::int64_t storage);
  /// Notes what a call shows that has written nothing, so that a later change is noticed.
  void saw(const core::TensorRecord& tensor, std::int64_t storage);
  void forget(std::int64_t storage) {
    storages_.erase(storage);
    seen_.erase(storage);
  }

  /// Whether calls have computed what lies there, at least in part.
  [[nodiscard]] bool is_computed(std::int64_t storage) const;

 private:
  struct Seen {
    std::vector<std::int64_t> shape;
    std::vector<std::int64_t> strides;
    std::int64_t offset = 0;
    core::Digest digest;
  };
  struct Storage {
    core::Dtype dtype = core::Dtype::kUnknown;
    at::Tensor values;  ///< float64, from the storage's first element on
    at::Tensor known;   ///< bool; undefined = all of them
    bool lent = false;
    bool computed = false;
  };

  Storage& storage_for(const core::TensorRecord& tensor, std::int64_t storage);
  static void make_own(Storage& storage);
  static void mark_known(Storage& storage, const core::TensorRecord& tensor);
  static bool knows(const Storage& storage, const core::TensorRecord& tensor);

  const core::DumpSource& dump_;
  std::unordered_map<std::int64_t, Storage> storages_;
  std::unordered_map<std::int64_t, std::vector<Seen>> seen_;  ///< since it was last written
};

}  // namespace repro_check::replay
