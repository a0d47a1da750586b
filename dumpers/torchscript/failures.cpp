// SPDX-License-Identifier: Apache-2.0
#include "dumpers/torchscript/failures.h"

#include <c10/util/Exception.h>
#include <torch/csrc/jit/runtime/jit_exception.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <initializer_list>
#include <new>
#include <string_view>

#include "core/text/text.h"

namespace repro_check::torchscript {
namespace {

constexpr std::size_t kMaxLine = 400;
// A useful line can follow a few thousand frames of traceback, but never megabytes.
constexpr std::size_t kMaxText = std::size_t{1} << 20U;

bool contains(const std::string& text, std::string_view what) {
  return text.find(what) != std::string::npos;
}

bool says_one_of(const std::exception& error, std::initializer_list<std::string_view> phrases) {
  const std::string text = full_text(error);
  return std::ranges::any_of(phrases, [&](std::string_view p) { return contains(text, p); });
}

std::string first_line(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = core::trimmed(text.substr(0, end), " \t\n\v\f\r");
    if (!line.empty()) return std::string(line.substr(0, kMaxLine));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return "no reason given";
}

/// The interpreter puts a traceback in front and leads the cause in by its class, `RuntimeError: `
/// or `builtins.ValueError: `; nested calls and forks do so several times, the innermost last.
std::string_view after_traceback(std::string_view text) {
  constexpr std::string_view kLead = "RuntimeError: ";
  const std::size_t trace = text.rfind("Traceback of TorchScript");
  if (trace == std::string_view::npos) return text;
  const std::size_t mark = text.rfind("<--- HERE");
  std::string_view rest =
      text.substr(mark == std::string_view::npos ? trace : std::max(trace, mark));
  while (!rest.empty()) {
    rest.remove_prefix(std::min(rest.find('\n'), rest.size() - 1) + 1);
    const std::string_view name = rest.substr(0, rest.find(": "));
    const bool is_class = !name.empty() && name.size() < rest.size() &&
                          std::ranges::all_of(name, [](unsigned char c) {
                            return std::isalnum(c) != 0 || c == '_' || c == '.';
                          });
    if (!is_class) continue;
    if (const std::size_t dot = name.rfind('.'); dot < name.size()) rest.remove_prefix(dot + 1);
    return rest.starts_with(kLead) ? rest.substr(kLead.size()) : rest;
  }
  return text;
}

}  // namespace

std::string full_text(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  std::string text =
      torch_error != nullptr ? torch_error->what_without_backtrace() : std::string(error.what());
  if (text.size() > kMaxText) text.resize(kMaxText);
  const std::size_t trace = text.find("\nException raised from ");
  if (trace != std::string::npos) text.resize(trace);
  return text;
}

std::string first_useful_line(const std::exception& error) {
  if (const auto* raised = dynamic_cast<const torch::jit::JITException*>(&error)) {
    const auto message = raised->getOriginalMsg();
    if (!message) return first_line(after_traceback(full_text(error)));
    // Class names come qualified: `__torch__.MyError`, `builtins.ValueError`. Without one the
    // message begins with it, as that of an assertion does.
    const std::string name = raised->getPythonClassName().value_or("");
    return (name.empty() ? name : name.substr(name.rfind('.') + 1) + ": ") + first_line(*message);
  }
  return first_line(after_traceback(full_text(error)));
}

bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return true;
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) return true;
  return says_one_of(error,
                     {"not enough memory",
                      "can't allocate memory",
                      "out of memory",
                      "bad_alloc",
                      "Storage size calculation overflowed"});
}

bool is_removed_call(const std::exception& error) {
  return says_one_of(error,
                     {"Arguments for call are not valid",
                      "is now removed",
                      "has been removed",
                      "no longer supported",
                      "requires the return_complex parameter"});
}

bool is_determinism_refusal(const std::exception& error) {
  const std::string text = full_text(error);
  return contains(text, "does not have a deterministic implementation") ||
         (contains(text, "eterministic") && contains(text, "use_deterministic_algorithms"));
}

namespace {

constexpr std::size_t kMaxListed = 12;

}  // namespace

std::string suggest(const std::string& given, const std::vector<std::string>& names) {
  const std::vector<std::string_view> views(names.begin(), names.end());
  if (const auto nearest = core::near_miss(given, views)) {
    return "; did you mean \"" + std::string(*nearest) + "\"?";
  }
  std::string list;
  for (std::size_t i = 0; i < names.size() && i < kMaxListed; ++i) {
    list += (i == 0 ? "\"" : ", \"") + names[i] + "\"";
  }
  if (names.size() > kMaxListed) list += ", ...";
  return list.empty() ? list : "; there are " + list;
}

}  // namespace repro_check::torchscript
