// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <variant>

#include "core/printable.h"
#include "dumpers/journal/detail/journal_scan.h"
#include "dumpers/journal/journal.h"

namespace repro_check::journal {
namespace {

/// `aten::conv2d (backbone.conv1, model.py:40)`, without what is not known.
std::string describe(const core::OperatorInfo* op, const core::CallSite* site) {
  constexpr std::size_t kLongest = 200;  // names come from outside: one line is for reading
  std::string text =
      core::printable(op != nullptr ? op->full_name() : "an unknown operator", kLongest);
  if (site == nullptr) return text;
  std::string place = core::printable(site->module_path, kLongest);
  if (const core::SourceFrame* frame = core::display_frame(*site)) {
    if (!place.empty()) place += ", ";
    place += fmt::format(
        "{}:{}",
        core::printable(std::filesystem::path(frame->file).filename().string(), kLongest),
        frame->line);
  }
  return place.empty() ? text : fmt::format("{} ({})", text, place);
}

class Summary {
 public:
  void operator()(const core::OpRecord& record) {
    ++summary_.completed;
    summary_.last = record.index;
    last_op_ = record.op;
    last_site_ = record.site;
    open_.erase(record.index);
  }
  void operator()(const EnteredOp& entered) { open_.insert_or_assign(entered.index, entered); }
  void operator()(const Failure& failure) { summary_.failure = failure.message; }
  void operator()(const StoredContent& /*content*/) {}
  void operator()(const Finished& /*finished*/) {}

  JournalSummary finish() {
    if (summary_.last) summary_.last_operator = describe(last_op_.get(), last_site_.get());
    if (!open_.empty()) {
      // Indices follow the order of entry: the highest is the innermost call.
      const EnteredOp& innermost = open_.rbegin()->second;
      summary_.entered = innermost.index;
      summary_.entered_operator = describe(innermost.op.get(), innermost.site.get());
    }
    return summary_;
  }

 private:
  JournalSummary summary_;
  std::shared_ptr<const core::OperatorInfo> last_op_;
  std::shared_ptr<const core::CallSite> last_site_;
  std::map<std::uint64_t, EnteredOp> open_;
};

}  // namespace

JournalSummary summarise(const std::filesystem::path& file) {
  JournalScan scan(file);
  Summary summary;
  while (const std::optional<Event> event = scan.next()) std::visit(summary, *event);
  return summary.finish();
}

bool is_being_written(const std::filesystem::path& file) noexcept {
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return false;
  const bool locked = ::flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(fd);
  return locked;
}

}  // namespace repro_check::journal
