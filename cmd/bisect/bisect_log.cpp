// SPDX-License-Identifier: Apache-2.0
#include "cmd/bisect/bisect_log.h"

#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "cmd/render/text.h"
#include "cmd/terminal/logging.h"
#include "core/error.h"

namespace repro_check::cmd {
namespace {

constexpr const char* kFormat = "repro-check-bisect-log";
constexpr const char* kVersion = "1.0";

using comparators::TrialOutcome;

TrialOutcome outcome_called(const std::string& name) {
  for (const TrialOutcome outcome : {TrialOutcome::kShows, TrialOutcome::kPasses}) {
    if (outcome_name(outcome) == name) return outcome;
  }
  return TrialOutcome::kUnresolved;
}

}  // namespace

std::string_view outcome_name(TrialOutcome outcome) noexcept {
  switch (outcome) {
    case TrialOutcome::kShows:
      return "diverged";
    case TrialOutcome::kPasses:
      return "reproducible";
    case TrialOutcome::kUnresolved:
      break;
  }
  return "unresolved";
}

BisectLog::BisectLog(std::filesystem::path file, std::string key)
    : file_(std::move(file)), key_(std::move(key)) {
  std::error_code error;
  if (std::filesystem::exists(file_, error)) read();
  if (resumed_) return;
  write_line({{"format", kFormat}, {"version", kVersion}, {"key", key_}});
}

void BisectLog::read() {
  std::ifstream stream(file_, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(stream), {}};
  if (!stream) throw core::Error(core::ErrorKind::kIo, "cannot read " + file_.string());
  const std::size_t whole = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
  if (whole != text.size()) {
    std::error_code error;
    std::filesystem::resize_file(file_, whole, error);
    if (error) {
      throw core::Error(core::ErrorKind::kIo,
                        "cannot write " + file_.string() + ": " + error.message());
    }
    log_info(file_.string() + ": a line that was not written to its end was taken away");
  }
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < whole;) {
    const std::size_t end = text.find('\n', begin);
    take_line(text.substr(begin, end - begin), ++number);
    begin = end + 1;
  }
  resumed_ = number != 0;
}

void BisectLog::take_line(const std::string& line, std::size_t number) {
  const Json json = Json::parse(line, nullptr, false);
  const std::string where = "line " + std::to_string(number);
  if (!json.is_object()) refuse(where + " is no JSON object");
  try {
    if (number == 1) {
      if (json.value("format", "") != kFormat) refuse("it is no log of a bisect");
      if (json.value("version", "") != kVersion) refuse("it is of another version");
      if (json.value("key", "") != key_) {
        refuse("it belongs to another configuration, or a model or input file has changed since");
      }
    } else if (json.contains("baseline")) {
      baseline_ = json.at("baseline").get<std::string>();
    } else {
      trials_.push_back({json.at("changes").get<std::vector<std::string>>(),
                         outcome_called(json.at("outcome").get<std::string>()),
                         json.at("headline").get<std::string>()});
    }
  } catch (const Json::exception&) {
    refuse(where + " is not what a bisect writes");
  }
}

void BisectLog::note_baseline(const std::string& digest) {
  baseline_ = digest;
  write_line({{"baseline", digest}});
}

void BisectLog::append(const LoggedTrial& trial) {
  trials_.push_back({trial.changes, trial.outcome, clean_utf8(trial.headline)});
  const LoggedTrial& clean = trials_.back();
  write_line({{"changes", clean.changes},
              {"outcome", outcome_name(clean.outcome)},
              {"headline", clean.headline}});
}

void BisectLog::write_line(const Json& line) {
  std::ofstream stream(file_, std::ios::binary | std::ios::app);
  stream << to_document(line, false) << std::flush;
  if (!stream) {
    throw core::Error(core::ErrorKind::kIo,
                      "cannot write " + file_.string(),
                      "is the disk full? the bisect goes on from here when it is run again");
  }
}

void BisectLog::refuse(const std::string& why) const {
  throw core::Error(core::ErrorKind::kUsage,
                    file_.string() + " cannot be continued: " + why,
                    "start anew with --force, or in another directory with --out");
}

}  // namespace repro_check::cmd
