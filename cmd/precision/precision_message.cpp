// SPDX-License-Identifier: Apache-2.0
#include "cmd/precision/precision_message.h"

namespace repro_check::cmd {

DESCRIBE(replay::FarthestElement, MEMBER(element) MEMBER(recorded) MEMBER(float64) MEMBER(row))
DESCRIBE(replay::CallPrecision,
         MEMBER(op) MEMBER(digits_in) MEMBER(digits_out) MEMBER(own_digits) MEMBER(moved)
             MEMBER(passes) MEMBER(terms) MEMBER(farthest))
DESCRIBE(replay::PrecisionOutcome,
         MEMBER(digits) MEMBER(relative_error) MEMBER(farthest) MEMBER(calls) MEMBER(overflow)
             MEMBER(explained) MEMBER(underived) MEMBER(values) MEMBER(counts) MEMBER(cuts))
DESCRIBE(PrecisionQuestion, MEMBER(recorded) MEMBER(result))
DESCRIBE(PrecisionAnswer, MEMBER(libtorch) MEMBER(outcome))

std::string to_text(const PrecisionQuestion& question) {
  return to_document(json_of(question), false);
}

PrecisionQuestion parse_precision_question(std::string_view text) {
  PrecisionQuestion question;
  read_question(text, question);
  return question;
}

std::string to_text(const PrecisionAnswer& answer) { return to_document(json_of(answer), false); }

PrecisionAnswer parse_precision_answer(std::string_view line) {
  PrecisionAnswer answer;
  read_answer(line, answer);
  return answer;
}

}  // namespace repro_check::cmd
