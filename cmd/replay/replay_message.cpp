// SPDX-License-Identifier: Apache-2.0
#include "cmd/replay/replay_message.h"

#include <fmt/format.h>

#include "core/error.h"

namespace repro_check::cmd {

/// Who reads it stands somewhere else.
void describe(JsonWriter f, const std::filesystem::path& path) {
  f.json() = std::filesystem::absolute(path).string();
}
void describe(JsonReader f, std::filesystem::path& path) { path = f.json().get<std::string>(); }

template <typename F>
void describe(F f, Of<F, ReplaySide>& side) {
  f("dump", side.dump);
  f("references", side.references);
  f("op", side.op);
}

template <typename F>
void describe(F f, Of<F, ReplayQuestion>& question) {
  f("recorded", question.recorded);
  f("calls", question.how.calls);
  f("threads", question.how.threads);
  f("device", question.how.device);
  f("float64", question.float64);
  f("against", question.against);
}

template <typename F>
void describe(F f, Of<F, ReplayAnswer>& answer) {
  f("libtorch", answer.libtorch);
  f("cpu_capability", answer.cpu_capability);
  f("rounds", answer.rounds);
  f("baseline", answer.baseline);
  f("candidate", answer.candidate);
  f("notes", answer.notes);
}

std::string to_text(const ReplayQuestion& question) {
  return to_document(json_of(question), false);
}

ReplayQuestion parse_question(std::string_view text) {
  try {
    ReplayQuestion question;
    describe(JsonReader(Json::parse(text)), question);
    question.how.op = question.recorded.op;
    return question;
  } catch (const std::exception& error) {
    throw core::Error(core::ErrorKind::kUsage,
                      fmt::format("no request to replay: {}", error.what()),
                      "a recorder is started by the `repro-check replay` of its own version");
  }
}

std::string to_text(const ReplayAnswer& answer) { return to_document(json_of(answer), false); }

ReplayAnswer parse_answer(std::string_view line) {
  try {
    ReplayAnswer answer;
    describe(JsonReader(Json::parse(line)), answer);
    return answer;
  } catch (const std::exception& error) {
    throw core::Error(core::ErrorKind::kRunFailed,
                      fmt::format("the recorder's answer cannot be read: {}", error.what()),
                      "use the recorder that belongs to this repro-check");
  }
}

}  // namespace repro_check::cmd
