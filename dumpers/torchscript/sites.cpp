// SPDX-License-Identifier: Apache-2.0
#include "dumpers/torchscript/sites.h"

#include <torch/csrc/jit/runtime/interpreter.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

namespace repro_check::torchscript {
namespace {

// A deep call chain is cut: what helps a person are the innermost frames.
constexpr std::size_t kMaxFrames = 64;
constexpr std::size_t kMaxTraceText = std::size_t{256} << 10U;

std::optional<core::SourceFrame> parse_trace_line(std::string_view line) {
  // The tracer writes `path(line): function`.
  const std::size_t close = line.rfind("): ");
  if (close == std::string_view::npos) return std::nullopt;
  const std::size_t open = line.rfind('(', close);
  if (open == std::string_view::npos || open == 0) return std::nullopt;
  std::uint32_t number = 0;
  const char* end = line.data() + close;
  const auto parsed = std::from_chars(line.data() + open + 1, end, number);
  if (parsed.ec != std::errc{} || parsed.ptr != end) return std::nullopt;
  return core::SourceFrame{
      std::string(line.substr(0, open)), number, std::string(line.substr(close + 3))};
}

/// The tracer keeps a Python stack as the text of the source; anything else gives no frames.
std::vector<core::SourceFrame> parse_trace(const std::string& text) {
  std::vector<core::SourceFrame> frames;
  std::string_view rest(text);
  while (!rest.empty() && frames.size() < kMaxFrames) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const auto frame = parse_trace_line(rest.substr(0, end));
    if (!frame) return {};
    frames.push_back(*frame);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return frames;
}

using Place = std::tuple<std::string, std::size_t, std::size_t>;

core::SourceFrame frame_at(const Place& place, const std::string& function) {
  return {std::get<0>(place), static_cast<std::uint32_t>(std::get<1>(place)), function};
}

/// A call of a free function is saved without its source. What stands before it on the same line of
/// the saved code belongs to the same statement of the model.
std::vector<core::SourceFrame> frames_before(const torch::jit::SourceRange& range,
                                             const std::string& function) {
  for (std::size_t at = range.start(); at > 0; --at) {
    if (range.source()->char_at(at - 1) == '\n') break;
    const torch::jit::SourceRange earlier(range.source(), at - 1, at);
    const auto origin = earlier.findSourceRangeThatGenerated();
    if (!origin) continue;
    const auto place = origin->file_line_col();
    if (place && !std::get<0>(*place).empty()) return {frame_at(*place, function)};
  }
  return {};
}

std::string text_of(const std::vector<core::SourceFrame>& frames) {
  std::string text;
  for (const core::SourceFrame& frame : frames) {
    text += '\n' + frame.file + '\0' + std::to_string(frame.line) + '\0' + frame.function;
  }
  return text;
}

std::vector<std::string> split_path(const std::string& path) {
  std::vector<std::string> parts;
  std::size_t start = 0;
  while (start <= path.size() && !path.empty()) {
    const std::size_t dot = std::min(path.find('.', start), path.size());
    parts.push_back(path.substr(start, dot - start));
    start = dot + 1;
  }
  return parts;
}

/// Whether `path` is `names` with containers left out: their order kept, the last one the last.
bool fits(const std::string& path, const std::vector<std::string>& names) {
  const std::vector<std::string> parts = split_path(path);
  if (names.empty() || parts.empty()) return names.empty() && parts.empty();
  if (parts.back() != names.back()) return false;
  auto at = names.begin();
  for (const std::string& part : parts) {
    if (at != names.end() && part == *at) ++at;
  }
  return at == names.end();
}

}  // namespace

std::vector<core::SourceFrame> own_frames_of(const torch::jit::SourceRange& range,
                                             const std::string& function) {
  const auto generating = range.findSourceRangeThatGenerated();
  const torch::jit::SourceRange& origin = generating ? *generating : range;
  if (!origin.source()) return {};
  if (origin.start() == 0 && origin.end() == origin.source()->size() &&
      origin.end() <= kMaxTraceText) {
    auto traced = parse_trace(origin.source()->text_str().str());
    if (!traced.empty()) return traced;
  }
  const auto place = origin.file_line_col();
  if (!place || std::get<0>(*place).empty()) return {};
  return {frame_at(*place, function)};
}

std::vector<core::SourceFrame> frames_of(const torch::jit::SourceRange& range,
                                         const std::string& function) {
  auto frames = own_frames_of(range, function);
  return frames.empty() && range.source() ? frames_before(range, function) : frames;
}

std::int64_t SiteTable::add(const torch::jit::SourceRange& range,
                            const CallFrame& frame,
                            bool is_call) {
  core::CallSite site{frame.module_path, frame.module_type, frames_of(range, frame.function)};
  // A traced range tells the whole stack by itself.
  if (site.frames.size() <= 1) {
    for (const CallFrame* f = &frame; f->caller != nullptr; f = f->caller) {
      if (site.frames.size() >= kMaxFrames) break;
      auto calls = frames_of(f->call, f->caller->function);
      const bool traced = calls.size() > 1;
      site.frames.insert(site.frames.end(),
                         std::make_move_iterator(calls.begin()),
                         std::make_move_iterator(calls.end()));
      if (traced) break;
    }
  }
  sites_.push_back(intern(std::move(site)));
  by_frames_.emplace(text_of(sites_.back()->frames), sites_.back());
  const auto id = static_cast<std::int64_t>(sites_.size()) - 1;
  calls_.push_back(is_call);
  return id;
}

std::shared_ptr<const core::CallSite> SiteTable::intern(core::CallSite site) {
  const std::string text = site.module_path + '\n' + site.module_type + text_of(site.frames);
  const std::lock_guard lock(mutex_);
  auto& known = by_text_[text];
  if (!known) known = std::make_shared<const core::CallSite>(std::move(site));
  return known;
}

std::shared_ptr<const core::CallSite> SiteTable::find(const std::vector<core::SourceFrame>& frames,
                                                      const std::vector<std::string>& names) const {
  std::shared_ptr<const core::CallSite> found;
  const auto [first, last] = by_frames_.equal_range(text_of(frames));
  for (auto entry = first; entry != last; ++entry) {
    if (entry->second == found || !fits(entry->second->module_path, names)) continue;
    if (found) return nullptr;
    found = entry->second;
  }
  return found;
}

bool SiteTable::is_call(std::int64_t id) const {
  return id >= 0 && id < static_cast<std::int64_t>(calls_.size()) &&
         calls_[static_cast<std::size_t>(id)];
}

std::shared_ptr<const core::CallSite> SiteTable::at(std::int64_t id) const {
  if (id < 0 || id >= static_cast<std::int64_t>(sites_.size())) return nullptr;
  return sites_[static_cast<std::size_t>(id)];
}

ModulePaths::ModulePaths(const torch::jit::Module& root) : root_(root) { visit(root, ""); }

void ModulePaths::visit(const torch::jit::Module& module, const std::string& path) {
  if (!first_path_.emplace(module._ivalue().get(), path).second) return;
  for (const auto& child : module.named_children()) {
    visit(child.value, path.empty() ? child.name : path + "." + child.name);
  }
}

ModuleName ModulePaths::resolve(const std::vector<std::string>& chain) const {
  torch::jit::Module module = root_;
  for (const std::string& name : chain) {
    if (!module.hasattr(name)) break;
    const c10::IValue value = module.attr(name);
    if (!value.isModule()) break;
    module = value.toModule();
  }
  const auto known = first_path_.find(module._ivalue().get());
  const auto type = module.type()->name();
  return {known == first_path_.end() ? std::string() : known->second,
          type ? type->name() : std::string()};
}

namespace {

/// An entry reads `layer(Linear)::forward`; `TOP` is the module that was run, `SELF` a method of
/// the module before it, and a free function has neither name nor type.
void take_module(const std::string& entry, InterpreterPlace& place) {
  const std::size_t open = entry.find('(');
  const std::size_t close = entry.find(')', open);
  if (open == std::string::npos || close == std::string::npos) return;
  const std::string name = entry.substr(0, open);
  place.module_type = entry.substr(open + 1, close - open - 1);
  if (name != "TOP" && name != "SELF") place.names.push_back(name);
}

}  // namespace

InterpreterPlace interpreter_place() {
  InterpreterPlace place;
  for (const torch::jit::StackEntry& entry : torch::jit::currentCallstack()) {
    auto frames = frames_of(entry.range, entry.filename);
    const bool traced = frames.size() > 1;
    place.frames.insert(place.frames.end(),
                        std::make_move_iterator(frames.begin()),
                        std::make_move_iterator(frames.end()));
    if (traced) break;
  }
  for (const std::string& entry : torch::jit::currentModuleHierarchy()) take_module(entry, place);
  return place;
}

}  // namespace repro_check::torchscript
