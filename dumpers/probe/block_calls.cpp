// SPDX-License-Identifier: Apache-2.0
#include "dumpers/probe/block_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "core/error.h"
#include "core/trace/program_records.h"

namespace repro_check::probe {
namespace {

struct Open {
  std::uint32_t number = 0;
  core::BlockRow row;
  capture::BorderReading in;
};

std::vector<Open>& open_here() {
  thread_local std::vector<Open> open;
  return open;
}

core::Dtype dtype_of(char kind) {
  switch (kind) {
    case 'b':
      return core::Dtype::kBool;
    case 'i':
      return core::Dtype::kInt64;
    case 'd':
      return core::Dtype::kFloat64;
    case 'c':
      return core::Dtype::kComplex128;
    case 's':
      return core::Dtype::kUInt8;
    default:
      throw core::internal_error("nothing at a border is of this kind");
  }
}

std::vector<capture::BorderLeaf> leaves_of(const Border& border) {
  std::vector<capture::BorderLeaf> leaves;
  const std::byte* next = border.bytes;
  for (std::size_t i = 0; border.kinds[i] != 0; ++i) {
    capture::BorderLeaf& leaf = leaves.emplace_back();
    if (border.kinds[i] == 'T') {
      leaf.tensor =
          at::Tensor(c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim_copy(
              // NOLINTNEXTLINE(performance-no-int-to-ptr): the hooks hand it over in a word
              reinterpret_cast<c10::TensorImpl*>(border.words[i])));
      if (!leaf.tensor.defined()) leaves.pop_back();
      continue;
    }
    leaf.dtype = dtype_of(border.kinds[i]);
    leaf.bytes = {next, border.words[i]};
    if (border.kinds[i] == 's') leaf.shape = {static_cast<std::int64_t>(border.words[i])};
    next += border.words[i];
  }
  return leaves;
}

template <typename Number>
Number number_of(const capture::BorderLeaf& leaf) {
  Number number{};
  std::memcpy(&number, leaf.bytes.data(), std::min(sizeof number, leaf.bytes.size()));
  return number;
}

c10::IValue value_of(const capture::BorderLeaf& leaf) {
  if (leaf.tensor.defined()) return leaf.tensor;
  switch (leaf.dtype) {
    case core::Dtype::kBool:
      return number_of<bool>(leaf);
    case core::Dtype::kInt64:
      return number_of<std::int64_t>(leaf);
    case core::Dtype::kFloat64:
      return number_of<double>(leaf);
    case core::Dtype::kComplex128:
      return number_of<c10::complex<double>>(leaf);
    default:
      return std::string(reinterpret_cast<const char*>(leaf.bytes.data()), leaf.bytes.size());
  }
}

/// `input[0]`, `input[1]`, ...
capture::NamedValues values_of(std::span<const capture::BorderLeaf> leaves, std::string_view name) {
  capture::NamedValues values;
  for (const capture::BorderLeaf& leaf : leaves) {
    values.emplace_back(fmt::format("{}[{}]", name, values.size()), value_of(leaf));
  }
  return values;
}

}  // namespace

BlockCalls::BlockCalls(const core::ProgramPlan& plan, ProgramSites& sites)
    : sites_(sites),
      every_(static_cast<std::uint32_t>(std::clamp<std::uint64_t>(plan.every, 1, UINT32_MAX))),
      keeps_(plan.level != core::DumpLevel::kDigest) {}

std::uint32_t BlockCalls::read(capture::Capture& capture,
                               const Border& border,
                               std::string_view record,
                               capture::BorderReading& into) const {
  const std::vector<capture::BorderLeaf> leaves = leaves_of(border);
  if (keeps_ && !leaves.empty()) {
    const std::string_view name =
        record == core::kBlockInputs ? core::kInputValues : core::kOutputValues;
    capture.record_values(std::string(record), values_of(leaves, name));
  }
  if (leaves.empty() && border.unopened == 0) into.stand_for_nothing();
  return capture.read_border(leaves, into);
}

std::string BlockCalls::path_of(std::uint32_t number, std::uint32_t lane) {
  std::string path = sites_.path_of(number);
  // The names of a root that another thread called first say so already.
  if (lane == core::kMainLane || path.find('@') != std::string::npos) return path;
  std::string text = core::lane_text(lane);
  std::ranges::replace(text, '.', ':');
  return path + '@' + text;
}

std::uint32_t BlockCalls::begin(capture::Capture& capture,
                                std::uint32_t number,
                                bool training,
                                const Border& border) {
  Open& open = open_here().emplace_back();
  open.number = number;
  core::BlockRow& row = open.row;
  row.step = capture.step();
  row.path = path_of(number, capture.lane_number());
  row.phase = sites_.current_phase().value_or(core::Phase::kForward);
  row.training = training;
  {
    const std::lock_guard lock(mutex_);
    Count& count = counts_[{row.path, row.phase}];
    if (count.step != row.step) count = {row.step, 0};
    row.call = count.calls++;
  }
  const std::uint32_t unread = read(capture, border, core::kBlockInputs, open.in);
  row.unopened = border.unopened + unread;
  return unread;
}

std::uint32_t BlockCalls::end(capture::Capture& capture,
                              std::uint32_t number,
                              const Border& border) {
  std::vector<Open>& open = open_here();
  const auto last = std::find_if(
      open.rbegin(), open.rend(), [&](const Open& each) { return each.number == number; });
  if (last == open.rend()) return 0;
  auto [opened, row, in] = std::move(*last);
  open.erase(std::prev(last.base()));
  capture::BorderReading out;
  const std::uint32_t unread = read(capture, border, core::kBlockOutputs, out);
  row.unopened += border.unopened + unread;
  capture.append(std::move(row), in, out);
  return unread;
}

void BlockCalls::leave_all() { open_here().clear(); }

}  // namespace repro_check::probe
