// SPDX-License-Identifier: Apache-2.0
#include "dumpers/probe/first_operator.h"

#include <ATen/record_function.h>

#include <atomic>
#include <memory>

namespace repro_check::probe {
namespace {

std::atomic<bool> ran{false};
std::atomic<at::CallbackHandle> watching{at::INVALID_CALLBACK_HANDLE};

std::unique_ptr<at::ObserverContext> note(const at::RecordFunction& /*call*/) {
  ran = true;
  // The first one may come before the handle is known; then the next one ends it.
  const at::CallbackHandle handle = watching.exchange(at::INVALID_CALLBACK_HANDLE);
  if (handle != at::INVALID_CALLBACK_HANDLE) at::disableCallback(handle);
  return nullptr;
}

}  // namespace

void watch_first_operator() {
  ran = false;
  const at::CallbackHandle before = watching.exchange(at::INVALID_CALLBACK_HANDLE);
  if (before != at::INVALID_CALLBACK_HANDLE) at::removeCallback(before);
  watching =
      at::addGlobalCallback(at::RecordFunctionCallback(&note).scopes({at::RecordScope::FUNCTION}));
}

bool ran_operator() noexcept { return ran; }

}  // namespace repro_check::probe
