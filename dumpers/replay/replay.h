// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/digest/digest.h"
#include "core/trace/dump.h"

namespace repro_check::replay {

struct Request {
  std::uint64_t op = 0;
  unsigned calls = 20;       ///< for each thread count, one after the other in this process
  std::vector<int> threads;  ///< in this order; empty = as this process stands
  std::string device;        ///< `cuda`, `cuda:1`; empty = where the call was recorded
};

/// How far a floating, integer or bool tensor is from another of its shape, in float64.
struct OutputDistance {
  std::string slot;                ///< of the recorded output
  std::uint64_t elements = 0;      ///< real numbers: a complex element counts twice
  std::uint64_t differing = 0;     ///< by value: NaN equals NaN, +0 equals -0
  std::uint64_t incomparable = 0;  ///< of those, NaN or infinity on one side at least
  std::optional<double> max_abs;   ///< over pairs of finite numbers; empty when there are none
  std::optional<double> rmse;      ///< likewise
};

/// One of the distinct results that calls of one round gave.
struct Result {
  core::Digest digest;  ///< of one output's content; of all outputs together where there are more
  unsigned calls = 0;   ///< that gave it
  unsigned first = 0;   ///< the first of them, from 0
  std::optional<bool> as_recorded;          ///< empty when the record has no digests
  std::vector<OutputDistance> to_recorded;  ///< of outputs whose recorded values are stored
};

/// Calls under one setting.
struct Round {
  int threads = 0;
  std::vector<Result> results;     ///< in order of first appearance
  std::vector<unsigned> sequence;  ///< per call, which of them
};

struct Outcome {
  std::vector<Round> rounds;
  std::vector<std::string> notes;  ///< what a reader must know to trust the numbers, each once
};

/// Executes one recorded operator again with the inputs, scalars, modes (core::OpHead::modes) and
/// generator state of its record.
/// Arguments it writes are made afresh for each call; strides and shared storages are as recorded.
/// Thread counts are put back; other settings are the caller's business. Gradients are not
/// recorded.
/// @throws core::Error{kNotComparable} when the record does not hold all that the call needs, or
///         this LibTorch has no such operator; core::Error{kUsage} when `device` cannot be had;
///         core::Error{kRunFailed} when the operator itself throws
Outcome replay(const core::DumpSource& dump, const Request& request);

/// The recorded outputs of one call, measured from what it gives when every floating tensor among
/// its inputs, and every dtype it is asked for, is float64 (complex: complex128).
struct ReferenceDistance {
  std::vector<OutputDistance> outputs;  ///< floating outputs whose recorded values are stored
  std::string problem;                  ///< why there is none; empty when `outputs` holds
};

/// @throws core::Error as replay(), but what cannot be made again or run in float64 is a problem
ReferenceDistance distance_to_float64(const core::DumpSource& dump, std::uint64_t op);

}  // namespace repro_check::replay
