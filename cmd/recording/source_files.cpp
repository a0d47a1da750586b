// SPDX-License-Identifier: Apache-2.0
#include "cmd/recording/source_files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/digest/digest.h"
#include "core/system/file_descriptor.h"
#include "core/text/text.h"

namespace repro_check::cmd {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{4} << 20U;
constexpr std::size_t kMostShown = 160;

struct Text {
  std::string bytes;
  double written = 0;  ///< seconds since 1970
};

/// A pipe or a device is not waited for.
std::optional<Text> read_source(const std::string& file) {
  if (!file.starts_with('/')) return std::nullopt;
  const core::FileDescriptor descriptor(
      ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status {};
  if (descriptor.get() < 0 || ::fstat(descriptor.get(), &status) != 0) return std::nullopt;
  if (!S_ISREG(status.st_mode) || status.st_size > kMostBytes) return std::nullopt;
  Text text;
  text.bytes.resize(static_cast<std::size_t>(status.st_size));
  const auto into = std::as_writable_bytes(std::span(text.bytes));
  if (core::read_at(descriptor.get(), 0, into) != into.size()) return std::nullopt;
  text.written = static_cast<double>(status.st_mtim.tv_sec) +
                 static_cast<double>(status.st_mtim.tv_nsec) * 1e-9;
  return text;
}

}  // namespace

std::vector<core::SourceFile> unchanged_sources(const std::set<std::string>& files, double began) {
  std::vector<core::SourceFile> sources;
  for (const std::string& file : files) {
    const std::optional<Text> text = read_source(file);
    if (!text || text->written > began) continue;
    sources.push_back({file, core::digest_bytes(text->bytes)});
  }
  return sources;
}

std::string source_line(const std::vector<core::SourceFile>& sources,
                        const core::SourceFrame& frame) {
  const auto source = std::ranges::find(sources, frame.file, &core::SourceFile::file);
  if (source == sources.end() || frame.line == 0) return {};
  const std::optional<Text> text = read_source(frame.file);
  if (!text || core::digest_bytes(text->bytes) != source->digest) return {};
  std::string_view rest = text->bytes;
  for (std::uint32_t line = 1; line < frame.line; ++line) {
    const std::size_t end = rest.find('\n');
    if (end == std::string_view::npos) return {};
    rest.remove_prefix(end + 1);
  }
  rest = core::trimmed(rest.substr(0, rest.find('\n')), " \t\r");
  return std::string(rest.substr(0, kMostShown));
}

}  // namespace repro_check::cmd
