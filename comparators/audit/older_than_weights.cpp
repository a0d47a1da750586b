// SPDX-License-Identifier: Apache-2.0
// older-than-weights: attention reads a cache that a layer filled before its weights moved.
#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "comparators/audit/rules.h"
#include "core/trace/record_names.h"

namespace repro_check::comparators {
namespace {

/// A call of a trained layer.
struct LayerCall {
  std::uint32_t call = 0;
  std::int32_t weight = -1;  ///< storage
  core::Digest content;
  bool operator==(const LayerCall&) const = default;
};

class CacheReader {
 public:
  explicit CacheReader(const AuditTrace& trace) : trace_(trace) {
    for (const AuditStep& step : trace.steps()) {
      for (const AuditTensor& tensor : trace.outputs(step.call)) {
        if (trace.text(tensor.slot).starts_with(core::kParameterPrefix)) {
          trained_.insert(tensor.storage);
        }
      }
    }
  }

  std::vector<Finding> find() {
    std::vector<Finding> findings;
    if (trained_.empty()) return findings;
    for (std::uint32_t call = 0; call < trace_.size(); ++call) {
      if (!is_attention(call)) continue;
      for (const AuditTensor& input : trace_.inputs(call)) {
        if (input.slot != key_ && input.slot != value_) continue;
        const auto older = older_in(makers(input, 0));
        if (!older) continue;
        findings.push_back(
            trace_.at(FindingId::kOlderThanWeights, Finding::Weight::kSuspicion, call)
                .with("slot", trace_.text(input.slot))
                .with("maker", trace_.said(older->call))
                .with("earlier", trace_[older->call].step));
        break;
      }
    }
    return findings;
  }

 private:
  [[nodiscard]] bool is_attention(std::uint32_t call) const {
    return trace_.text(trace_[call].base).find("scaled_dot_product") != std::string_view::npos;
  }

  /// The layers that made what an argument holds, through views and `cat`.
  std::vector<LayerCall> makers(const AuditTensor& tensor, int depth) {
    constexpr int kDeepest = 200;  // a cache grows by one `cat` a step
    if (tensor.producer < 0 || depth > kDeepest) return {};
    const auto call = static_cast<std::uint32_t>(tensor.producer);
    const auto known = made_.find(call);
    if (known != made_.end()) return known->second;
    std::vector<LayerCall> layers;
    const AuditTensor* weight = trace_.input(call, weight_);
    if (weight != nullptr) {
      if (trained_.contains(weight->storage)) {
        layers.push_back({call, weight->storage, weight->digest});
      }
    } else if (passes_on(call)) {
      for (const AuditTensor& input : trace_.inputs(call)) {
        for (const LayerCall& layer : makers(input, depth + 1)) {
          const bool is_new = std::ranges::none_of(layers, [&](const LayerCall& one) {
            return one.weight == layer.weight && one.content == layer.content;
          });
          if (is_new) layers.push_back(layer);
        }
      }
    }
    return made_[call] = layers;
  }

  [[nodiscard]] bool passes_on(std::uint32_t call) const {
    constexpr std::array<std::string_view, 5> kCopies{
        "aten::cat", "aten::concat", "aten::clone", "aten::contiguous", "aten::reshape"};
    return trace_.is_view(call) ||
           std::ranges::find(kCopies, trace_.text(trace_[call].base)) != kCopies.end();
  }

  /// One that a weight made which has another content by now.
  [[nodiscard]] static std::optional<LayerCall> older_in(const std::vector<LayerCall>& layers) {
    for (const LayerCall& layer : layers) {
      const bool has_later = std::ranges::any_of(layers, [&](const LayerCall& other) {
        return other.weight == layer.weight && other.content != layer.content &&
               other.call > layer.call;
      });
      if (has_later) return layer;
    }
    return std::nullopt;
  }

  const AuditTrace& trace_;
  const TextId key_ = trace_.id_of("key");
  const TextId value_ = trace_.id_of("value");
  const TextId weight_ = trace_.id_of("weight");
  std::set<std::int32_t> trained_;  ///< storages
  std::unordered_map<std::uint32_t, std::vector<LayerCall>> made_;
};

}  // namespace

std::vector<Finding> find_older_than_weights(const AuditTrace& trace) {
  return CacheReader(trace).find();
}

}  // namespace repro_check::comparators
