// SPDX-License-Identifier: Apache-2.0
#include "cmd/relate/shadow_message.h"

#include "cmd/precision/precision_message.h"

namespace repro_check::cmd {

DESCRIBE(ShadowQuestion, MEMBER(recorded) MEMBER(tensors) MEMBER(given) MEMBER(out))
DESCRIBE(replay::ShadowValuesOutcome, MEMBER(counts) MEMBER(cuts))
DESCRIBE(ShadowAnswer, MEMBER(libtorch) MEMBER(outcome))

std::string to_text(const ShadowQuestion& question) { return message_text(question); }

ShadowQuestion parse_shadow_question(std::string_view text) {
  return read_question<ShadowQuestion>(text);
}

std::string to_text(const ShadowAnswer& answer) { return message_text(answer); }

ShadowAnswer parse_shadow_answer(std::string_view line) { return read_answer<ShadowAnswer>(line); }

}  // namespace repro_check::cmd
