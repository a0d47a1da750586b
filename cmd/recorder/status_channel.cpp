// SPDX-License-Identifier: Apache-2.0
#include "cmd/recorder/status_channel.h"

#include <unistd.h>

#include <cerrno>

#include "cmd/recorder/json_line.h"
#include "core/digest/digest.h"

namespace repro_check::recorder {
void StatusChannel::write_line(const std::string& line) {
  const std::lock_guard lock(mutex_);
  const char* data = line.data();
  std::size_t left = line.size();
  while (left > 0) {
    const ssize_t written = ::write(descriptor_, data, left);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    data += written;
    left -= static_cast<std::size_t>(written);
  }
}

void StatusChannel::phase(const std::string& name) {
  write_line(to_line({{"type", "phase"}, {"name", name}}));
}

void StatusChannel::progress(std::uint64_t operators, std::uint64_t bytes) {
  write_line(to_line({{"type", "progress"}, {"operators", operators}, {"bytes", bytes}}));
}

void StatusChannel::done(std::uint64_t operators,
                         std::uint64_t tensors,
                         std::uint64_t bytes,
                         double seconds,
                         const std::optional<core::Digest>& dump) {
  nlohmann::ordered_json line{{"type", "done"},
                              {"operators", operators},
                              {"tensors", tensors},
                              {"bytes", bytes},
                              {"seconds", seconds},
                              {"dump", nullptr}};
  if (dump) line["dump"] = core::to_hex(*dump);
  write_line(to_line(line));
}

void StatusChannel::outputs(const std::vector<torchscript::ReturnedValue>& values) {
  for (const torchscript::ReturnedValue& value : values) {
    write_line(to_line({{"type", "output"},
                        {"name", value.name},
                        {"what", value.what},
                        {"digest", core::to_hex(value.digest)}}));
  }
}

void StatusChannel::error(const core::Error& error) {
  write_line(to_line({{"type", "error"},
                      {"kind", std::string(core::error_kind_name(error.kind()))},
                      {"message", std::string(error.what())},
                      {"hint", error.hint()}}));
}

}  // namespace repro_check::recorder
