// SPDX-License-Identifier: Apache-2.0
#include "comparators/relate/forward_pass.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "core/tensor/dtype.h"
#include "core/trace/dataflow.h"
#include "core/trace/op_record.h"
#include "core/trace/program_records.h"
#include "core/trace/record_names.h"

namespace repro_check::comparators {
namespace {

bool has_floats(const core::TensorRecord& tensor) {
  return core::is_floating(tensor.dtype) && tensor.state == core::ContentState::kHashed;
}

bool is_inside(std::string_view path, std::string_view of) {
  return of.empty() || path == of ||
         (path.size() > of.size() && path.starts_with(of) && path[of.size()] == '.');
}

/// Whether an operator makes probabilities or a loss of what it is given.
bool takes_logits(std::string_view base) {
  constexpr std::array<std::string_view, 4> kNames{
      "softmax", "log_softmax", "cross_entropy_loss", "logsumexp"};
  return std::ranges::find(kNames, base) != kNames.end();
}

class PassReader {
 public:
  explicit PassReader(const core::DumpSource& dump) : dump_(dump) {}

  std::vector<ForwardPass> read(std::size_t first, std::size_t count) {
    core::OpRecord record;
    std::vector<ForwardPass> passes;
    std::size_t pass = 0;
    bool is_in_pass = false;
    const auto end_pass = [&] {
      is_in_pass = has_gone_on_ = false;
      if (pass++ >= first) passes.push_back(closed());
      return passes.size() == count;
    };
    for (std::uint64_t i = 0; i < dump_.op_count(); ++i) {
      dump_.read_op(i, record);
      record.index = i;
      if (!record.op || record.lane != core::kMainLane || record.parent >= 0) continue;
      if (record.op->name == core::kStepRecord && is_in_pass && end_pass()) return passes;
      remember(record);
      if (pass >= first && is_open()) look_behind(record);
      if (!counts(record)) continue;
      if (begins_anew(record) && end_pass()) return passes;
      is_in_pass = true;
      if (pass >= first) add(record);
    }
    if (is_open()) passes.push_back(closed());
    return passes;
  }

 private:
  /// Whether the first module with weights is called again.
  bool begins_anew(const core::OpRecord& record) {
    const std::string& path = record.site->module_path;
    const std::string weight = first_weight(record);
    if (begins_.path.empty() && begins_.weight.empty() && !weight.empty()) {
      begins_ = {path, weight};
      return false;
    }
    if (!weight.empty() && begins_.path == path && begins_.weight == weight && has_gone_on_) {
      return true;
    }
    has_gone_on_ = has_gone_on_ || path != begins_.path;
    return false;
  }

  struct Begin {
    std::string path;
    std::string weight;
  };
  /// More weights than the operator of one layer reads: a weight and a bias.
  static constexpr std::size_t kOfSeveralLayers = 3;
  /// A floating tensor that an operator made, with where it was made.
  struct Made {
    PassTensor tensor;
    std::int64_t storage = -1;
    std::string path;
  };

  static bool counts(const core::OpRecord& record) {
    const bool forward =
        record.phase == core::Phase::kForward || record.phase == core::Phase::kEval;
    return forward && record.site &&
           (!record.site->module_path.empty() || !record.site->module_type.empty()) &&
           !core::is_named_values(record);
  }

  /// What an optimizer has written has no name any more: it is known by its storage.
  void remember(const core::OpRecord& record) {
    for (const core::TensorRecord& tensor : record.tensors) {
      const core::TensorSource source = core::named_source(tensor.name);
      if (source.kind != core::SourceKind::kState || tensor.storage < 0) continue;
      const auto [known, is_new] = names_.try_emplace(tensor.storage, source.name);
      if (!is_new && known->second != source.name) known->second.clear();  // several share it
    }
  }

  /// Of a parameter or buffer; empty of another tensor.
  [[nodiscard]] std::string weight_name(const core::TensorRecord& tensor) const {
    const core::TensorSource source = core::named_source(tensor.name);
    if (source.kind == core::SourceKind::kState) return std::string(source.name);
    const auto known = names_.find(tensor.storage);
    return known == names_.end() ? std::string() : known->second;
  }

  [[nodiscard]] std::string first_weight(const core::OpRecord& record) const {
    for (const core::TensorRecord& tensor : record.tensors) {
      if (!core::is_input(tensor)) continue;
      if (std::string name = weight_name(tensor); !name.empty()) return name;
    }
    return {};
  }

  [[nodiscard]] bool is_open() const { return !pass_.calls.empty(); }

  /// The operators between the modules and behind them read what these made; what a backward pass
  /// reads was not handed out for that.
  void look_behind(const core::OpRecord& record) {
    if (record.phase == core::Phase::kBackward || record.phase == core::Phase::kRecompute) return;
    for (std::size_t i = 0; i < record.tensors.size(); ++i) {
      const core::TensorRecord& tensor = record.tensors[i];
      if (!core::is_input(tensor) || tensor.storage < 0) continue;
      last_read_[tensor.storage] = record.index;
      if (takes_logits(core::base_name(record.op->name)) && has_floats(tensor) &&
          tensor.slot == "self") {
        pass_.logits.push_back(tensor_of(record, i));
      }
    }
  }

  [[nodiscard]] PassTensor tensor_of(const core::OpRecord& record, std::size_t i) const {
    const core::TensorRecord& tensor = record.tensors[i];
    PassTensor found{record.index, static_cast<std::uint32_t>(i), tensor.content_key(), {}, {}};
    std::int64_t maker = tensor.producer;
    while (maker >= 0 && static_cast<std::uint64_t>(maker) < dump_.op_count()) {
      const core::OpRecord head = dump_.op_head(static_cast<std::uint64_t>(maker));
      if (head.parent < 0) {
        if (head.op) found.maker = core::base_name(head.op->name);
        break;
      }
      maker = head.parent < maker ? head.parent : -1;
    }
    return found;
  }

  void add(const core::OpRecord& record) {
    const std::string& path = record.site->module_path;
    std::erase_if(open_,
                  [&](std::size_t call) { return !is_inside(path, pass_.calls[call].path); });
    for (std::size_t end = 0; end != std::string::npos;) {
      const std::string part = path.substr(0, end);
      const bool is_there = std::ranges::any_of(
          open_, [&](std::size_t call) { return pass_.calls[call].path == part; });
      if (!is_there) {
        open_.push_back(pass_.calls.size());
        ModuleCall& call = pass_.calls.emplace_back();
        call.path = part;
        call.first = record.index;
      }
      if (end == path.size()) break;
      end = std::min(path.find('.', end + 1), path.size());
    }
    for (const std::size_t call : open_) pass_.calls[call].last = record.index;
    ModuleCall& own = pass_.calls[*std::ranges::find_if(
        open_, [&](std::size_t call) { return pass_.calls[call].path == path; })];
    own.type = record.site->module_type;
    take_tensors(record, own);
    if (pass_.calls.size() == 1) pass_.begin = record.index;
    pass_.end = record.index + 1;
  }

  void take_tensors(const core::OpRecord& record, ModuleCall& own) {
    std::size_t weights = 0;
    const bool looks_up = core::base_name(record.op->name) == "embedding";
    for (std::size_t i = 0; i < record.tensors.size(); ++i) {
      const core::TensorRecord& tensor = record.tensors[i];
      if (core::is_output(tensor)) {
        if (has_floats(tensor)) made_.push_back({tensor_of(record, i), tensor.storage, own.path});
      } else if (const std::string name = weight_name(tensor); !name.empty()) {
        ++weights;
        if (std::ranges::find(own.weights, name) == own.weights.end()) own.weights.push_back(name);
        own.looks_up = own.looks_up || looks_up;
      } else if (looks_up && tensor.state == core::ContentState::kHashed) {
        if (!own.indices) own.indices = tensor_of(record, i);
      } else if (has_floats(tensor) && !own.input) {
        own.input = tensor_of(record, i);
      }
    }
    if (weights >= kOfSeveralLayers) fused_.insert(record.index);
  }

  ForwardPass closed() {
    finish();
    open_.clear();
    made_.clear();
    fused_.clear();
    last_read_.clear();
    return std::exchange(pass_, {});
  }

  void finish() {
    for (std::size_t i = 0; i < pass_.calls.size(); ++i) {
      ModuleCall& call = pass_.calls[i];
      call.is_leaf = i + 1 == pass_.calls.size() || pass_.calls[i + 1].first > call.last ||
                     !is_inside(pass_.calls[i + 1].path, call.path);
      const Made* last = nullptr;
      const Made* handed_out = nullptr;
      const auto begin = std::ranges::lower_bound(
          made_, call.first, {}, [](const Made& made) { return made.tensor.op; });
      for (auto made = begin; made != made_.end() && made->tensor.op <= call.last; ++made) {
        if (!is_inside(made->path, call.path)) continue;
        last = &*made;
        const auto read = last_read_.find(made->storage);
        if (read != last_read_.end() && read->second > call.last) handed_out = &*made;
      }
      if (handed_out == nullptr) handed_out = last;
      if (handed_out == nullptr) continue;
      call.output = handed_out->tensor;
      call.is_fused = fused_.contains(handed_out->tensor.op);
    }
  }

  const core::DumpSource& dump_;
  ForwardPass pass_;
  Begin begins_;
  bool has_gone_on_ = false;  ///< behind the module that begins it
  std::vector<std::size_t> open_;
  std::vector<Made> made_;
  std::map<std::int64_t, std::string> names_;        ///< of weights, by storage; empty: not known
  std::set<std::uint64_t> fused_;                    ///< op index
  std::map<std::int64_t, std::uint64_t> last_read_;  ///< op index, by storage
};

/// Puts a tensor of the next pass behind those before it, along the axis of the rows.
/// @param from_back  which axis that is, 1 being the last; a tensor with fewer has no other
void join(std::optional<PassTensor>& tensor,
          const std::optional<PassTensor>& next,
          std::size_t from_back) {
  if (!tensor || !next) return tensor.reset();
  const core::ContentKey& after = next->content;
  std::vector<std::int64_t> shape = tensor->content.shape;
  if (shape.empty() || shape.size() != after.shape.size()) return tensor.reset();
  const std::size_t rows = shape.size() - std::min(from_back, shape.size());
  shape[rows] = after.shape[rows];
  if (shape != after.shape || tensor->content.dtype != after.dtype) return tensor.reset();
  if (tensor->pieces.empty()) tensor->pieces.push_back(tensor->content);
  tensor->pieces.push_back(after);
  tensor->content.shape[rows] += after.shape[rows];
  tensor->content.digest = {};
}

}  // namespace

std::uint64_t PassTensor::rows() const {
  const auto elements = static_cast<std::uint64_t>(core::element_count(content.shape));
  return width() == 0 ? 0 : elements / width();
}

core::Dtype ForwardPass::dtype() const {
  std::map<core::Dtype, std::size_t> counts;
  for (const ModuleCall& call : calls) {
    if (call.output && !call.weights.empty()) ++counts[call.output->content.dtype];
  }
  if (counts.empty()) return core::Dtype::kFloat32;
  return std::ranges::max_element(counts, {}, [](const auto& each) { return each.second; })->first;
}

std::vector<ForwardPass> read_passes(const core::DumpSource& dump,
                                     std::size_t first,
                                     std::size_t count) {
  return PassReader(dump).read(first, count);
}

std::optional<ForwardPass> joined(std::vector<ForwardPass> passes) {
  ForwardPass all = std::move(passes.front());
  for (std::size_t i = 1; i < passes.size(); ++i) {
    const ForwardPass& next = passes[i];
    std::map<std::string, std::vector<const ModuleCall*>> calls;  // by path, in order
    for (const ModuleCall& call : next.calls) calls[call.path].push_back(&call);
    std::map<std::string, std::size_t> seen;
    const ModuleCall absent;
    bool has_weights = false;
    for (ModuleCall& call : all.calls) {
      const auto& same = calls[call.path];
      const std::size_t number = seen[call.path]++;
      const ModuleCall& goes_on = number < same.size() ? *same[number] : absent;
      join(call.indices, goes_on.indices, 1);
      join(call.input, goes_on.input, 2);
      join(call.output, goes_on.output, 2);
      has_weights = has_weights || (call.output && !call.weights.empty());
    }
    if (!has_weights) return std::nullopt;
    const std::size_t logits = std::min(all.logits.size(), next.logits.size());
    all.logits.resize(logits);
    for (std::size_t k = 0; k < logits; ++k) {
      std::optional<PassTensor> tensor = std::move(all.logits[k]);
      join(tensor, next.logits[k], 2);
      // It has no rows where it could not be put together.
      all.logits[k] = tensor ? std::move(*tensor) : PassTensor();
    }
    all.end = next.end;
  }
  return all;
}

}  // namespace repro_check::comparators
