// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a repeated call gave, beside what was recorded of it: private to this folder.

#include <optional>
#include <string>
#include <vector>

#include "core/digest/digest.h"
#include "core/tensor/tensor_record.h"
#include "core/trace/dump.h"
#include "core/trace/op_record.h"
#include "dumpers/replay/repeated_call.h"
#include "dumpers/replay/replay.h"
#include "dumpers/replay/sweep.h"

namespace repro_check::replay {

/// Everything about the results of a call that must repeat: a line an output, then what is no
/// tensor.
struct Fingerprint {
  std::string text;
  std::vector<core::Digest> digests;
  std::string unknown;  ///< an output without a digest; empty = all have one

  /// One output's own digest is what `inspect` shows too.
  [[nodiscard]] core::Digest digest() const;
};

/// @throws core::Error{kNotComparable} where an output is memory that was never written
Fingerprint fingerprint(const core::OpRecord& record);

/// Its text. @throws core::Error{kNotComparable} where an output has no values that can be compared
std::string print_of(const core::OpRecord& record);

/// Of every output whose recorded values are stored.
std::vector<OutputDistance> measure_outputs(const core::DumpSource& dump,
                                            const core::OpRecord& record,
                                            const CallSink& made,
                                            bool floating_only);

/// The output that differs most of what it holds.
std::optional<SweptOutput> worst_output(const core::DumpSource& dump,
                                        const core::OpRecord& record,
                                        const CallSink& made);

}  // namespace repro_check::replay
