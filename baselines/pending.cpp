// SPDX-License-Identifier: Apache-2.0
#include "baselines/pending.h"

#include <fmt/format.h>

#include <optional>

#include "baselines/detail/tokens.h"
#include "core/error.h"
#include "core/text/printable.h"

namespace repro_check::baselines {
namespace {

constexpr std::string_view kMagic = "repro-pending 1\n";

std::string with_end(std::string text) {
  const core::Digest digest = detail::digest_text(text);
  return text + fmt::format("pending {}\n", detail::digest_word(digest));
}

/// The next line, without its end; empty at the end of `text`.
std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

struct File {
  core::Digest digest;
  std::string path;
};

std::string file_line(std::string_view word, const core::Digest& digest, std::string_view path) {
  return fmt::format("{} {} {}\n", word, detail::digest_word(digest), detail::escape_rest(path));
}

/// Empty when the line is no such line.
std::optional<File> parse_file_line(std::string_view line) {
  const auto words = detail::split(line, ' ');
  if (words.size() < 3) return std::nullopt;
  const std::optional<core::Digest> digest = detail::parse_digest_word(words[1]);
  const std::optional<std::string> path =
      detail::unescape(line.substr(words[0].size() + words[1].size() + 2));
  if (!digest || !path) return std::nullopt;
  return File{*digest, *path};
}

}  // namespace

std::string to_text(const Pending& pending) {
  std::string text(kMagic);
  text += fmt::format("runs {} {}\n", pending.agreed ? "agreed" : "disagreed", pending.runs);
  text += file_line("model", pending.model_file, pending.model_path);
  if (pending.weights_file) {
    text += file_line("weights", *pending.weights_file, pending.weights_path);
  }
  return with_end(text + to_text(pending.baseline));
}

Pending pending_from_text(std::string_view text, const std::string& origin) {
  const std::string name = core::printable(origin);
  const auto damaged = [&] {
    return core::Error(core::ErrorKind::kDumpDamaged,
                       name + ": changed or cut short since the gate wrote it",
                       "run the gate again");
  };
  if (!text.starts_with("repro-pending ")) {
    throw core::Error(core::ErrorKind::kDumpUnknown,
                      name + ": not a pending baseline of repro-check",
                      "give a file NAME-KEY.repro.new that the gate has written");
  }
  if (!text.starts_with(kMagic)) {
    throw core::Error(core::ErrorKind::kDumpUnknown, name + ": a version this tool does not read");
  }
  const std::size_t end = text.rfind("\npending ");
  if (end == std::string_view::npos) throw damaged();
  const std::string_view whole = text.substr(0, end + 1);
  std::string_view rest = whole.substr(kMagic.size());
  const auto runs = detail::split(take_line(rest), ' ');
  const std::optional<File> model = parse_file_line(take_line(rest));
  if (runs.size() != 3 || !model) throw damaged();
  Pending pending;
  const std::optional<std::uint64_t> count = detail::parse_count(runs[2]);
  if (!count) throw damaged();
  if (rest.starts_with("weights ")) {
    const std::optional<File> weights = parse_file_line(take_line(rest));
    if (!weights) throw damaged();
    pending.weights_file = weights->digest;
    pending.weights_path = weights->path;
  }
  pending.agreed = runs[1] == "agreed";
  pending.runs = *count;
  pending.model_file = model->digest;
  pending.model_path = model->path;
  pending.baseline = baseline_from_text(rest, origin);
  if (to_text(pending) != text) throw damaged();
  return pending;
}

}  // namespace repro_check::baselines
