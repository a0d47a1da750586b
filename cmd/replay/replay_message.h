// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cmd/render/json_form.h"
#include "dumpers/replay/replay.h"

namespace repro_check::cmd {

/// One operator of one dump.
struct ReplaySide {
  std::filesystem::path dump;
  std::vector<std::filesystem::path> references;
  std::uint64_t op = 0;
};

/// What a recorder is to execute, under the settings of the dump's manifest.
struct ReplayQuestion {
  ReplaySide recorded;
  replay::Request how;
  bool float64 = false;               ///< measure the recorded outputs from the float64 result
  std::optional<ReplaySide> against;  ///< and those of this side
};

/// What it found.
struct ReplayAnswer {
  std::string libtorch;
  std::string cpu_capability;
  std::vector<replay::Round> rounds;
  std::optional<replay::ReferenceDistance> baseline;   ///< of the dump
  std::optional<replay::ReferenceDistance> candidate;  ///< of the other side
  std::vector<std::string> notes;
};

/// What calls of an operator gave, as docs/replay.schema.json has it; the answer is made of the
/// same.
template <typename F>
void describe(F f, Of<F, replay::OutputDistance>& it) {
  f MEMBER(slot) MEMBER(elements) MEMBER(differing) MEMBER(incomparable) MEMBER(max_abs)
      MEMBER(rmse);
}

template <typename F>
void describe(F f, Of<F, replay::Result>& it) {
  f MEMBER(digest) MEMBER(calls) NAMED("first_call", first) MEMBER(as_recorded) MEMBER(to_recorded);
}

template <typename F>
void describe(F f, Of<F, replay::Round>& it) {
  f MEMBER(threads);
  f.derived("calls", [&] { return it.sequence.size(); });
  f.derived("distinct", [&] { return it.results.size(); });
  f MEMBER(sequence) MEMBER(results);
}

template <typename F>
void describe(F f, Of<F, replay::ReferenceDistance>& it) {
  f MEMBER(outputs) TEXT(problem);
}

/// Who reads a path stands somewhere else.
void describe(JsonWriter f, const std::filesystem::path& path);
void describe(JsonReader f, std::filesystem::path& path);

template <typename F>
void describe(F f, Of<F, ReplaySide>& it) {
  f MEMBER(dump) MEMBER(references) MEMBER(op);
}

template <typename F>
void describe(F f, Of<F, ReplayQuestion>& it) {
  f MEMBER(recorded) NAMED("op", how.op) NAMED("calls", how.calls) NAMED("threads", how.threads)
      NAMED("device", how.device) MEMBER(float64) MEMBER(against);
}

template <typename F>
void describe(F f, Of<F, ReplayAnswer>& it) {
  f MEMBER(libtorch) MEMBER(cpu_capability) MEMBER(rounds) MEMBER(baseline) MEMBER(candidate)
      MEMBER(notes);
}

[[noreturn]] void refuse_question(const std::exception& error);
[[noreturn]] void refuse_answer(const std::exception& error);

/// A question is a file, an answer one line on stdout, both of them JSON; what is not UTF-8 in what
/// they quote is replaced.
template <typename Message>
std::string message_text(const Message& message) {
  return to_document(json_of(message), false);
}

/// @throws core::Error{kUsage} when `text` is no such question
template <typename Question>
Question read_question(std::string_view text) {
  Question question;
  try {
    describe(JsonReader(Json::parse(text)), question);
  } catch (const std::exception& error) {
    refuse_question(error);
  }
  return question;
}

/// @throws core::Error{kRunFailed} when `line` is no such answer
template <typename Answer>
Answer read_answer(std::string_view line) {
  Answer answer;
  try {
    describe(JsonReader(Json::parse(line)), answer);
  } catch (const std::exception& error) {
    refuse_answer(error);
  }
  return answer;
}

}  // namespace repro_check::cmd
