// SPDX-License-Identifier: Apache-2.0
#include "cmd/signals.h"

#include <unistd.h>

#include <atomic>
#include <csignal>

#include "core/exit_code.h"

namespace repro_check::cmd {
namespace {

std::atomic<pid_t> guarded_group{0};
std::atomic<bool> was_interrupted{false};
static_assert(std::atomic<pid_t>::is_always_lock_free);
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void on_signal(int) {
  const pid_t group = guarded_group.load();
  // A second signal means that killing the recorder did not bring us back.
  const bool again = was_interrupted.exchange(true);
  if (group > 0) ::kill(-group, SIGKILL);
  if (group == 0 || again) ::_exit(static_cast<int>(core::ExitCode::kInterrupted));
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

bool interrupted() noexcept { return was_interrupted.load(); }

GuardedGroup::GuardedGroup(pid_t group) noexcept { guarded_group.store(group); }

GuardedGroup::~GuardedGroup() { guarded_group.store(0); }

}  // namespace repro_check::cmd
