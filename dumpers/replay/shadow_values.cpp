// SPDX-License-Identifier: Apache-2.0
#include "dumpers/replay/shadow_values.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "core/digest/digest.h"
#include "core/error.h"
#include "core/text/text.h"
#include "dumpers/replay/shadow.h"

namespace repro_check::replay {
namespace {

class Writer {
 public:
  Writer(const core::DumpSource& dump,
         std::span<const RecordedTensor> wanted,
         const core::DumpSource& given,
         core::DumpSink& sink)
      : dump_(dump), wanted_(wanted), given_(given), sink_(sink), tree_(dump, end()) {
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      core::OpRecord record = dump.op(wanted[i].op);
      record.index = wanted[i].op;
      if (wanted[i].tensor >= record.tensors.size()) {
        throw core::usage_error(
            fmt::format("op {} has no tensor {}", record.index, wanted[i].tensor));
      }
      at_[tree_.last_inside(wanted[i].op)].push_back(i);
      records_.push_back(std::move(record));
    }
    keys_.resize(wanted.size());
  }

  ShadowValuesOutcome write() {
    ShadowValuesOutcome outcome;
    for (std::size_t pass = 0; pass < kShadowOutputs; ++pass) {
      Shadow shadow(dump_, tree_);
      Shadow::Observer observer;
      observer.behind = [&](std::uint64_t op, ShadowMemory& memory) {
        const auto wanted = at_.find(op);
        if (wanted == at_.end()) return;
        for (const std::size_t i : wanted->second) take(i, pass, memory);
        if (pass == 0) return;
        for (const std::size_t i : wanted->second) put(i, pass, memory);
      };
      shadow.run(observer);
      if (pass > 0) continue;
      outcome.counts = shadow.counts();
      outcome.cuts = shadow.cuts();
    }
    append();
    return outcome;
  }

 private:
  /// Behind the last wanted call and those inside of it.
  [[nodiscard]] std::uint64_t end() const {
    std::uint64_t last = 0;
    for (const RecordedTensor& each : wanted_) last = std::max(last, each.op);
    std::uint64_t end = last + 1;
    while (end < dump_.op_count() && dump_.op_head(end).parent >= static_cast<std::int64_t>(last)) {
      ++end;
    }
    return end;
  }

  [[nodiscard]] const core::TensorRecord& tensor(std::size_t i) const {
    return records_[i].tensors[wanted_[i].tensor];
  }

  void take(std::size_t i, std::size_t pass, ShadowMemory& memory) {
    const std::int64_t storage = storage_of(records_[i], wanted_[i].tensor);
    const at::Tensor recorded = recorded_values(dump_, tensor(i));
    const at::Tensor values = memory.is_computed(storage)
                                  ? as_read(memory.view(tensor(i), storage), recorded).contiguous()
                                  : recorded;
    const auto bytes = std::as_bytes(
        std::span(values.data_ptr<double>(), static_cast<std::size_t>(values.numel())));
    core::ContentKey key{core::Dtype::kFloat64, tensor(i).shape, core::digest_bytes(bytes)};
    if (!sink_.has_content(key)) sink_.put_content(key, bytes);
    keys_[i][pass] = std::move(key);
  }

  void put(std::size_t i, std::size_t pass, ShadowMemory& memory) {
    const core::OpRecord other = given_.op(i);
    if (other.tensors.empty()) return;
    if (other.tensors.size() != 1 || other.tensors.front().shape != tensor(i).shape) {
      throw core::usage_error(
          fmt::format("what is given for op {} is of another shape", wanted_[i].op));
    }
    const bool as_recorded = pass == 1;
    memory.put(tensor(i),
               storage_of(records_[i], wanted_[i].tensor),
               as_recorded ? recorded_values(dump_, tensor(i))
                           : recorded_values(given_, other.tensors.front()));
  }

  void append() {
    const auto info =
        std::make_shared<core::OperatorInfo>(core::OperatorInfo{kShadowRecord, {}, false});
    const auto site = std::make_shared<core::CallSite>();
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      core::OpRecord record;
      record.index = i;
      record.op = info;
      record.site = site;
      sink_.enter(record);
      for (std::size_t pass = 0; pass < kShadowOutputs; ++pass) {
        core::TensorRecord output;
        output.role = core::TensorRole::kOutput;
        output.slot = std::to_string(pass);
        output.dtype = core::Dtype::kFloat64;
        output.shape = keys_[i][pass].shape;
        output.device = "cpu";
        output.state = core::ContentState::kHashed;
        output.digest = keys_[i][pass].digest;
        output.stored = true;
        record.results.emplace_back().data = core::TensorSlot{static_cast<std::uint32_t>(pass)};
        record.tensors.push_back(std::move(output));
      }
      sink_.append(record);
    }
  }

  const core::DumpSource& dump_;
  std::span<const RecordedTensor> wanted_;
  const core::DumpSource& given_;
  core::DumpSink& sink_;
  CallTree tree_;
  std::map<std::uint64_t, std::vector<std::size_t>> at_;  ///< wanted tensors, by the op to wait for
  std::vector<core::OpRecord> records_;
  std::vector<std::array<core::ContentKey, kShadowOutputs>> keys_;
};

}  // namespace

ShadowValuesOutcome write_shadow_values(const core::DumpSource& dump,
                                        std::span<const RecordedTensor> wanted,
                                        const core::DumpSource& given,
                                        core::DumpSink& sink) {
  return Writer(dump, wanted, given, sink).write();
}

}  // namespace repro_check::replay
