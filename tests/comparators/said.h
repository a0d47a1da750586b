// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "cmd/words/causes.h"
#include "comparators/report/report.h"

namespace repro_check::comparators {

/// A cause as a reader is told it.
struct SaidCause {
  CauseKind kind = comparators::CauseKind::kNone;
  std::string title;
  std::string evidence;
  std::string advice;
  std::string headline;
  std::vector<SaidCause> also = {};
  std::vector<std::string> not_recorded = {};

  [[nodiscard]] const std::string& name() const { return title; }
};

inline SaidCause said(const Cause& cause) {
  const cmd::FindingText text = cmd::words_of(cause);
  SaidCause out{cause.kind,
                text.title,
                text.evidence,
                text.fix,
                cmd::headline_of(cause),
                {},
                cause.not_recorded};
  for (const Cause& further : cause.also) out.also.push_back(said(further));
  return out;
}

inline std::string said(const Phrase& phrase) { return cmd::words_of(phrase); }
inline std::vector<std::string> said(const Phrases& phrases) { return cmd::texts_of(phrases); }
/// Of the notes of a tensor.
inline std::string said_as_one(const Phrases& phrases) { return cmd::sentence_of(phrases); }
/// What to do about the first reason.
inline std::string said_fix(const Report& report) {
  return report.reasons.empty() ? std::string() : cmd::fix_of(report.reasons.front());
}

}  // namespace repro_check::comparators
