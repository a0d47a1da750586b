// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "comparators/audit/audit_trace.h"
#include "comparators/report/finding.h"

namespace repro_check::comparators {

/// What is kept of a recording until those of all ranks have been read.
struct AuditShare {
  std::optional<std::uint32_t> rank;
  std::vector<StillParameter> still;  ///< ascending
  std::size_t parameters = 0;         ///< of all optimizers
  std::size_t steps = 0;
  DataOrder data;
  std::vector<AuditBatch> batches;
};

/// What a model draws in several calls.
struct Liveness {
  std::size_t calls = 0;
  std::size_t results = 0;  ///< different ones
  std::size_t lines = 0;    ///< operators at a line that draw
  std::size_t alive = 0;  ///< of those, that draw in each call, from another place of the generator
};
/// Empty for a program, and for a single call.
std::optional<Liveness> liveness_of(const AuditTrace& trace);
/// So many tell whether something repeats: two that are equal may be a check.
inline constexpr std::size_t kTellingCalls = 3;

// What one recording proves, or makes suspect. Each rule is a function of a trace alone, or of what
// is kept of the traces of all ranks, one at least, and has a file of its own. docs/AUDIT.md says
// which programs look the same and are right.

std::vector<Finding> find_recomputed_otherwise(const AuditTrace& trace);
std::vector<Finding> find_drawn_once(const AuditTrace& trace);
std::vector<Finding> find_draws_repeat(const AuditTrace& trace);
std::vector<Finding> find_key_is_constant(const AuditTrace& trace);
std::vector<Finding> find_key_used_twice(const AuditTrace& trace);
std::vector<Finding> find_read_unwritten(const AuditTrace& trace);
std::vector<Finding> find_copy_that_did_not(const AuditTrace& trace);
std::vector<Finding> find_same_at_every_sync(const AuditTrace& trace);
std::vector<Finding> find_not_what_the_step_left(const AuditTrace& trace);
std::vector<Finding> find_step_without_backward(const AuditTrace& trace);
std::vector<Finding> find_restored_then_overwritten(const AuditTrace& trace);
std::vector<Finding> find_untied(const AuditTrace& trace);
std::vector<Finding> find_dropout_in_eval(const AuditTrace& trace);
std::vector<Finding> find_trains_in_eval(const AuditTrace& trace);
std::vector<Finding> find_older_than_weights(const AuditTrace& trace);
std::vector<Finding> find_workers_draw_alike(const AuditTrace& trace);
std::vector<Finding> find_divisor_zero(const AuditTrace& trace);
std::vector<Finding> find_weight_without_effect(const AuditTrace& trace);
std::vector<Finding> find_lost_in_rounding(const AuditTrace& trace);
std::vector<Finding> find_filled_on_partial(const AuditTrace& trace);
std::vector<Finding> find_epoch_never_arrives(const AuditTrace& trace);
std::vector<Finding> find_never_moved(std::span<const AuditShare> shares);
std::vector<Finding> find_same_order(std::span<const AuditShare> shares);
std::vector<Finding> find_read_by_every_worker(std::span<const AuditShare> shares);
std::vector<Finding> find_trained_and_validated(std::span<const AuditShare> shares);
std::vector<Finding> find_twice_in_a_batch(std::span<const AuditShare> shares);

}  // namespace repro_check::comparators
