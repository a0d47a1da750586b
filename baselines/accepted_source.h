// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "baselines/baseline.h"
#include "core/trace/dump.h"

namespace repro_check::baselines {

/// No record of the candidate belongs to this one.
inline constexpr std::uint32_t kNoPartner = 0xFFFF'FFFF;

/// A baseline as the dump that it was made from, as far as it tells, so that a candidate can be
/// compared with it as with any dump. A baseline holds outputs alone: once the comparison has
/// paired the records, what else a record has is taken from the candidate's, and an input is what
/// the baseline says of the operator, parameter or buffer it comes from. An input that came from
/// somewhere else is taken to be the same, unless the operator that wrote it last differs; then its
/// digest is all zeros.
class AcceptedSource final : public core::DumpSource {
 public:
  /// @param baseline   not folded
  /// @param candidate  outlives this
  AcceptedSource(const Baseline& baseline, std::string location, const core::DumpSource& candidate);

  /// For CompareOptions::paired.
  /// @param candidate_of  per operator of the baseline its record in the candidate, or kNoPartner
  void take_partners(std::span<const std::uint32_t> candidate_of);

  [[nodiscard]] const std::string& location() const override { return location_; }
  [[nodiscard]] const core::RunManifest& manifest() const override { return manifest_; }
  [[nodiscard]] std::uint64_t op_count() const override { return ops_.size(); }
  [[nodiscard]] core::OpRecord op_head(std::uint64_t index) const override;
  [[nodiscard]] core::OpRecord op(std::uint64_t index) const override;
  [[nodiscard]] std::uint64_t block_count() const override { return blocks_.calls.size(); }
  [[nodiscard]] core::BlockRow block(std::uint64_t position) const override {
    return blocks_.calls.at(position).row;
  }
  [[nodiscard]] std::uint64_t parameter_count() const override { return blocks_.parameters.size(); }
  [[nodiscard]] core::ParameterRow parameter(std::uint64_t position) const override {
    return blocks_.parameters.at(position).row;
  }
  [[nodiscard]] bool has_content(const core::ContentKey&) const override { return false; }
  void read_content(const core::ContentKey& key, std::vector<std::byte>& into) const override;
  [[nodiscard]] std::uint64_t content_count() const override { return 0; }
  [[nodiscard]] std::optional<core::ContentKey> content(std::uint64_t) const override {
    return std::nullopt;
  }

 private:
  /// The last output with some content, before an operator reads it.
  struct Maker {
    std::uint64_t candidate_op = 0;
    std::size_t output = 0;
  };

  void take_lines(const Baseline& baseline);
  void take_named_tensors(const Baseline& baseline);
  void index_candidate();
  [[nodiscard]] core::OpRecord placed(core::OpRecord record, std::uint64_t index) const;
  [[nodiscard]] bool differs(std::int64_t candidate_op) const;
  [[nodiscard]] core::Digest accepted_digest(const core::TensorRecord& input,
                                             std::uint64_t reader) const;

  std::string location_;
  const core::DumpSource& candidate_;
  std::vector<AcceptedOp> ops_;
  AcceptedBlocks blocks_;
  bool is_paired_ = false;
  std::vector<std::uint32_t> candidate_of_;  ///< before that, of what has no order alone
  std::vector<std::uint32_t> baseline_of_;
  core::RunManifest manifest_;
  std::map<std::string, core::Digest> named_;
  std::map<core::Digest, std::vector<Maker>> makers_;
};

}  // namespace repro_check::baselines
