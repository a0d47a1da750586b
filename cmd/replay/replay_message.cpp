// SPDX-License-Identifier: Apache-2.0
#include "cmd/replay/replay_message.h"

#include <fmt/format.h>

#include "core/error.h"

namespace repro_check::cmd {

void describe(JsonWriter f, const std::filesystem::path& path) {
  f.json() = std::filesystem::absolute(path).string();
}
void describe(JsonReader f, std::filesystem::path& path) { path = f.json().get<std::string>(); }

void refuse_question(const std::exception& error) {
  throw core::usage_error(fmt::format("no request that can be read: {}", error.what()),
                          "a recorder is started by the repro-check of its own version");
}

void refuse_answer(const std::exception& error) {
  throw core::run_failed(fmt::format("the recorder's answer cannot be read: {}", error.what()),
                         "use the recorder that belongs to this repro-check");
}

}  // namespace repro_check::cmd
