// SPDX-License-Identifier: Apache-2.0
#include "cmd/replay/replay_message.h"

#include <fmt/format.h>

#include "core/error.h"

namespace repro_check::cmd {

void describe(JsonWriter f, const std::filesystem::path& path) {
  f.json() = std::filesystem::absolute(path).string();
}
void describe(JsonReader f, std::filesystem::path& path) { path = f.json().get<std::string>(); }

template <typename F>
void describe(F f, Of<F, ReplayQuestion>& it) {
  f MEMBER(recorded) NAMED("calls", how.calls) NAMED("threads", how.threads)
      NAMED("device", how.device) MEMBER(float64) MEMBER(against);
}

template <typename F>
void describe(F f, Of<F, ReplayAnswer>& it) {
  f MEMBER(libtorch) MEMBER(cpu_capability) MEMBER(rounds) MEMBER(baseline) MEMBER(candidate)
      MEMBER(notes);
}

std::string to_text(const ReplayQuestion& question) {
  return to_document(json_of(question), false);
}

void refuse_question(const std::exception& error) {
  throw core::usage_error(fmt::format("no request that can be read: {}", error.what()),
                          "a recorder is started by the repro-check of its own version");
}

void refuse_answer(const std::exception& error) {
  throw core::run_failed(fmt::format("the recorder's answer cannot be read: {}", error.what()),
                         "use the recorder that belongs to this repro-check");
}

ReplayQuestion parse_question(std::string_view text) {
  ReplayQuestion question;
  read_question(text, question);
  question.how.op = question.recorded.op;
  return question;
}

std::string to_text(const ReplayAnswer& answer) { return to_document(json_of(answer), false); }

ReplayAnswer parse_answer(std::string_view line) {
  ReplayAnswer answer;
  read_answer(line, answer);
  return answer;
}

}  // namespace repro_check::cmd
