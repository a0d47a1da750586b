// SPDX-License-Identifier: Apache-2.0
#include "core/trace/op_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <span>

#include "core/digest/digest.h"
#include "core/text/text.h"

namespace repro_check::core {
namespace {

constexpr std::uint32_t kUnordered = std::uint32_t{1} << 31U;
constexpr std::uint32_t kDigested = std::uint32_t{1} << 30U;

/// Where a level's ordinal stands, one more than it is; 0 = no such level.
struct Level {
  unsigned shift;
  std::uint32_t most;
};
constexpr std::array<Level, 3> kLevels{{{0, 0x3FFF}, {14, 0xFF}, {22, 0xFF}}};

std::uint32_t at(std::uint32_t lane, const Level& level) noexcept {
  return (lane >> level.shift) & level.most;
}

/// Workers have the numbers that no fork has: levels below one that is not there.
constexpr unsigned kWorkerShift = kLevels[1].shift;
constexpr std::uint32_t kMostWorkers = (kDigested >> kWorkerShift) - 1;

}  // namespace

std::uint32_t forked_lane(std::uint32_t creator, std::uint32_t ordinal) noexcept {
  if ((creator & (kUnordered | kDigested)) == 0 && !is_of_worker(creator)) {
    for (const Level& level : kLevels) {
      if (at(creator, level) != 0) continue;
      if (ordinal >= level.most) break;
      return creator | ((ordinal + 1) << level.shift);
    }
  }
  const std::array<std::uint32_t, 2> path{creator, ordinal};
  const Digest digest = digest_leaf(std::as_bytes(std::span(path)));
  return kDigested | (static_cast<std::uint32_t>(digest.low) & (kDigested - 1));
}

std::uint32_t pool_lane(std::uint32_t creator) noexcept { return creator | kUnordered; }

bool is_unordered(std::uint32_t lane) noexcept { return (lane & kUnordered) != 0; }

std::uint32_t worker_lane(std::uint32_t worker) noexcept {
  return (std::min(worker, kMostWorkers - 1) + 1) << kWorkerShift;
}

bool is_of_worker(std::uint32_t lane) noexcept {
  return lane != kMainLane && (lane & (kUnordered | kDigested)) == 0 && at(lane, kLevels[0]) == 0;
}

std::string lane_text(std::uint32_t lane) {
  if (is_unordered(lane)) return "pool of " + lane_text(lane & ~kUnordered);
  if ((lane & kDigested) != 0) return fmt::format("fork {:08x}", lane & ~kDigested);
  if (is_of_worker(lane)) return fmt::format("worker {}", (lane >> kWorkerShift) - 1);
  std::string text = "main";
  for (const Level& level : kLevels) {
    if (at(lane, level) == 0) break;
    text += fmt::format(".{}", at(lane, level) - 1);
  }
  return text;
}

namespace {

bool same_bits(double left, double right) noexcept {
  return std::bit_cast<std::uint64_t>(left) == std::bit_cast<std::uint64_t>(right);
}

/// Python's spelling: a whole double keeps its `.0`, or it would read like an integer.
std::string double_text(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

struct Printer {
  std::string operator()(std::monostate) const { return "None"; }
  std::string operator()(bool value) const { return value ? "True" : "False"; }
  std::string operator()(std::int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(double value) const { return double_text(value); }
  std::string operator()(const std::complex<double>& value) const {
    return fmt::format("({}{:+}j)", value.real(), value.imag());
  }
  std::string operator()(const std::string& value) const {
    return fmt::format("\"{}\"", printable(value));
  }
  std::string operator()(const Symbol& value) const { return printable(value.name); }
  std::string operator()(TensorSlot value) const { return fmt::format("<tensor {}>", value.index); }
  std::string operator()(const Opaque& value) const {
    return fmt::format("<{}>", printable(value.type));
  }
  std::string operator()(const ValueList& value) const {
    std::string text = "[";
    for (const Value& item : value.items) {
      if (text.size() > 1) text += ", ";
      text += to_text(item);
    }
    return text + "]";
  }
};

}  // namespace

bool ValueList::operator==(const ValueList& other) const { return items == other.items; }

bool Value::operator==(const Value& other) const {
  if (data.index() != other.data.index()) return false;
  if (const auto* number = std::get_if<double>(&data)) {
    return same_bits(*number, std::get<double>(other.data));
  }
  if (const auto* number = std::get_if<std::complex<double>>(&data)) {
    const auto& theirs = std::get<std::complex<double>>(other.data);
    return same_bits(number->real(), theirs.real()) && same_bits(number->imag(), theirs.imag());
  }
  return data == other.data;
}

std::string to_text(const Value& value) { return std::visit(Printer{}, value.data); }

namespace {

/// Where the framework's own Python files are found, installed or in a source tree. A folder of the
/// user's that is called torch is not among them.
constexpr std::array<std::string_view, 7> kFrameworkPlaces{"-packages/torch/",
                                                           "__torch__/torch/",
                                                           "/torch/nn/",
                                                           "/torch/jit/",
                                                           "/torch/autograd/",
                                                           "/torch/functional.py",
                                                           "/torch/_tensor.py"};

/// Files of the framework itself help nobody to find their own line.
bool inside_torch(std::string_view file) noexcept {
  return file.starts_with("torch/") ||
         std::ranges::any_of(kFrameworkPlaces, [&](std::string_view place) {
           return file.find(place) != std::string_view::npos;
         });
}

}  // namespace

const SourceFrame* display_frame(const CallSite& site) noexcept {
  for (const SourceFrame& frame : site.frames) {
    if (frame.line != 0 && !inside_torch(frame.file)) return &frame;
  }
  for (const SourceFrame& frame : site.frames) {
    if (frame.line != 0) return &frame;
  }
  return nullptr;
}

std::string line_text(std::string_view file, std::uint64_t line) {
  return fmt::format("{}{}{}", file, file.starts_with("In [") ? ", line " : ":", line);
}

std::string line_text(const CallSite* site) {
  const SourceFrame* frame = site == nullptr ? nullptr : display_frame(*site);
  if (frame == nullptr || frame->file.empty()) return {};
  return line_text(std::string_view(frame->file).substr(frame->file.rfind('/') + 1), frame->line);
}

std::string place_of(const CallSite* site) {
  std::string line = line_text(site);
  if (site == nullptr || site->module_path.empty()) return line;
  return line.empty() ? site->module_path : site->module_path + ", " + line;
}

std::vector<std::pair<std::string_view, std::string_view>> call_modes(std::string_view modes) {
  std::vector<std::pair<std::string_view, std::string_view>> all;
  if (modes.empty()) return all;
  for (const std::string_view mode : split(modes, ' ')) {
    const std::size_t equals = std::min(mode.find('='), mode.size());
    all.emplace_back(mode.substr(0, equals), mode.substr(std::min(equals + 1, mode.size())));
  }
  return all;
}

std::string_view base_name(std::string_view name) noexcept {
  const std::size_t colons = name.find("::");
  return colons == std::string_view::npos ? name : name.substr(colons + 2);
}

bool hands_out_memory(std::string_view base) noexcept {
  return base.starts_with("empty") || base.starts_with("new_empty") ||
         base.starts_with("_empty_affine") || base.starts_with("_empty_per_channel");
}

bool reads_values(const OperatorInfo& op, std::string_view argument) noexcept {
  if (!op.name.starts_with("aten::")) return true;
  const std::string_view base = base_name(op.name);
  if (op.overload.ends_with("out") && (argument == "out" || argument.starts_with("out."))) {
    return false;
  }
  if (argument == "other" && (base == "to" || base.ends_with("_as"))) return false;
  // Other parts of a composite one are its form.
  const bool is_self = argument == "self" || argument == "self.values";
  if (is_self && (base == "set_" || base.ends_with("_like") || base.starts_with("new_") ||
                  base.starts_with("sym_"))) {
    return false;
  }
  constexpr auto kForms = std::to_array<std::string_view>({"_has_compatible_shallow_copy_type",
                                                           "_has_same_storage_numel",
                                                           "dim",
                                                           "is_complex",
                                                           "is_contiguous",
                                                           "is_floating_point",
                                                           "is_same_size",
                                                           "is_set_to",
                                                           "len",
                                                           "numel",
                                                           "result_type",
                                                           "size",
                                                           "storage_offset",
                                                           "stride"});
  return std::ranges::find(kForms, base) == kForms.end();
}

}  // namespace repro_check::core
