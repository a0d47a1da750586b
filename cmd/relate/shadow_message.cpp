// SPDX-License-Identifier: Apache-2.0
#include "cmd/relate/shadow_message.h"

#include "cmd/precision/precision_message.h"

namespace repro_check::cmd {

DESCRIBE(ShadowQuestion, MEMBER(recorded) MEMBER(tensors) MEMBER(given) MEMBER(out))
DESCRIBE(replay::ShadowValuesOutcome, MEMBER(counts) MEMBER(cuts))
DESCRIBE(ShadowAnswer, MEMBER(libtorch) MEMBER(outcome))

std::string to_text(const ShadowQuestion& question) {
  return to_document(json_of(question), false);
}

ShadowQuestion parse_shadow_question(std::string_view text) {
  ShadowQuestion question;
  read_question(text, question);
  return question;
}

std::string to_text(const ShadowAnswer& answer) { return to_document(json_of(answer), false); }

ShadowAnswer parse_shadow_answer(std::string_view line) {
  ShadowAnswer answer;
  read_answer(line, answer);
  return answer;
}

}  // namespace repro_check::cmd
