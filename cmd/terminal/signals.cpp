// SPDX-License-Identifier: Apache-2.0
#include "cmd/terminal/signals.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <string_view>

#include "core/error.h"

namespace repro_check::cmd {
namespace {

std::atomic<pid_t> guarded_group{0};
std::atomic<bool> guarded_work{false};
std::atomic<bool> was_interrupted{false};
static_assert(std::atomic<pid_t>::is_always_lock_free);
static_assert(std::atomic<bool>::is_always_lock_free);

/// The path is kept in place, so that the handler never reads memory that was freed.
struct FileSlot {
  std::atomic<bool> taken{false};
  std::atomic<bool> armed{false};
  std::array<char, 4096> path{};
};
std::array<FileSlot, 4> guarded_files;

void remove_guarded_files() noexcept {
  for (const FileSlot& slot : guarded_files) {
    if (slot.armed.load() && ::unlink(slot.path.data()) != 0) ::rmdir(slot.path.data());
  }
}

/// What a log line would look like; a handler may call nothing that formats one.
void say_interrupted() noexcept {
  constexpr std::string_view kLine = "repro-check: error: interrupted\n";
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, kLine.data(), kLine.size());
}

extern "C" void on_signal(int) {
  const pid_t group = guarded_group.load();
  // A second signal means that killing the recorder did not bring us back.
  const bool again = was_interrupted.exchange(true);
  if (group > 0) ::kill(-group, SIGKILL);
  if ((group > 0 || guarded_work.load()) && !again) return;
  remove_guarded_files();
  say_interrupted();
  ::_exit(static_cast<int>(core::ExitCode::kInterrupted));
}

}  // namespace

void install_signal_handlers() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  ::sigemptyset(&action.sa_mask);
  // No SA_RESTART: a wait in poll() must come back.
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  action.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &action, nullptr);
}

void ignore_signals() noexcept {
  struct sigaction action = {};
  action.sa_handler = SIG_IGN;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

bool interrupted() noexcept { return was_interrupted.load(); }

GuardedGroup::GuardedGroup(pid_t group) noexcept { guarded_group.store(group); }

GuardedGroup::~GuardedGroup() { guarded_group.store(0); }

GuardedWork::GuardedWork() noexcept { guarded_work.store(true); }

GuardedWork::~GuardedWork() { guarded_work.store(false); }

GuardedFile::GuardedFile(const std::string& path) noexcept : slot_(guarded_files.size()) {
  for (std::size_t i = 0; i < guarded_files.size(); ++i) {
    FileSlot& slot = guarded_files[i];
    if (path.size() >= slot.path.size() || slot.taken.exchange(true)) continue;
    slot.path[path.copy(slot.path.data(), path.size())] = '\0';
    slot.armed.store(true);
    slot_ = i;
    return;
  }
}

GuardedFile::~GuardedFile() {
  if (slot_ == guarded_files.size()) return;
  guarded_files[slot_].armed.store(false);
  guarded_files[slot_].taken.store(false);
}

}  // namespace repro_check::cmd
