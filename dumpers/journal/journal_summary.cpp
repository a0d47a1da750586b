// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <variant>

#include "dumpers/journal/detail/journal_scan.h"
#include "dumpers/journal/detail/summary_builder.h"
#include "dumpers/journal/journal.h"

namespace repro_check::journal {

JournalSummary summarise(const std::filesystem::path& file) {
  JournalScan scan(file);
  SummaryBuilder summary;
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
