// SPDX-License-Identifier: Apache-2.0
// `precision`: where a recorded result lost its digits.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cmd/options/command.h"
#include "cmd/options/command_line.h"
#include "cmd/precision/precision.h"
#include "cmd/render/json_form.h"
#include "cmd/render/say.h"
#include "cmd/render/text.h"
#include "cmd/replay/replay.h"
#include "cmd/reports/verdict.h"
#include "cmd/terminal/output.h"
#include "cmd/words/catalogue.h"
#include "core/error.h"
#include "dumpers/replay/precision.h"
#include "dumpers/store/directory/dump_directory.h"

namespace repro_check::cmd {
namespace {

constexpr std::size_t kShownItems = 8;
constexpr double kLeastShown = 0.01;

/// The longer lists cut, and what was left out said.
Json shortened(Json document, bool all) {
  std::size_t large = 0;
  for (const Json& place : document["places"]) {
    if (place["share"].get<double>() >= kLeastShown) ++large;
  }
  for (const char* list : {"places", "modules", "cuts"}) {
    const std::size_t there = document[list].size();
    const std::size_t most = std::min(kShownItems, std::string_view(list) == "places" ? large : there);
    if (all || there <= most) continue;
    Json& items = document[list];
    items.erase(items.begin() + static_cast<std::ptrdiff_t>(most), items.end());
    document[std::string("more_") + list] = there - most;
  }
  return document;
}

class PrecisionCommand final : public Command {
 public:
  PrecisionCommand()
      : Command({"precision", "Find the operators at which a recorded result lost its digits"}) {}

  core::ExitCode run(const GlobalOptions& globals) override {
    Json document;
    try {
      document = measure_precision(plan());
    } catch (const core::Error& error) {
      store::refuse_bare_folder(dump_, error);
      return report_unreadable(dump_, error, format_, globals);
    }
    if (format_ == "json") {
      write_document(output_, to_document(document, !output_ && stdout_is_terminal()));
    } else {
      std::string text = escape_name(document["headline"].get<std::string>()) + "\n";
      if (!globals.quiet) {
        text += say_lines(view_lines("precision"), shortened(document, globals.verbosity > 0), 2);
      }
      const RenderOptions options = render_options(globals, !output_ && stdout_is_terminal());
      write_document(output_, wrapped(text, options.columns));
    }
    return static_cast<core::ExitCode>(document["exit_code"].get<int>());
  }

 private:
  [[nodiscard]] PrecisionPlan plan() const {
    if (!(at_least_ >= 0 && at_least_ <= replay::kAllDigits)) {
      throw core::usage_error("--at-least takes a number from 0 to 16");
    }
    if (timeout_ && (*timeout_ == 0 || *timeout_ > kLongestTimeout)) {
      throw core::usage_error("--timeout takes a number from 1 to 31536000");
    }
    if (output_) require_writable(*output_);
    if (export_) require_writable(*export_);
    PrecisionPlan plan;
    plan.dump = dump_;
    plan.references = {references_.begin(), references_.end()};
    plan.of = of_;
    if (export_) plan.values = *export_;
    if (at_least_ > 0) plan.at_least = at_least_;
    if (recorder_) plan.recorder = *recorder_;
    if (timeout_) plan.timeout = std::chrono::seconds(*timeout_);
    return plan;
  }

  std::string dump_ = value(&dump_, "dump DUMP", {.takes = Takes::kDump, .required = true});
  std::string of_ = value(&of_, "--of NAME");
  std::optional<std::string> export_ = value(&export_, "--export FILE", {.takes = Takes::kFile});
  double at_least_ = value(&at_least_, "--at-least DIGITS");
  std::optional<std::string> recorder_ =
      value(&recorder_, "--recorder FILE", {.takes = Takes::kFile});
  std::optional<std::uint64_t> timeout_ = value(&timeout_, "--timeout SECONDS");
  std::vector<std::string> references_ = references(&references_);
  std::optional<std::string> output_ = value(&output_, "--output FILE", {.takes = Takes::kFile});
  std::string format_ = word(&format_, "--format text|json", "text");
};

}  // namespace

std::unique_ptr<Command> precision_command() { return std::make_unique<PrecisionCommand>(); }

}  // namespace repro_check::cmd
