// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/engine/dispatch.h"

#include <pthread.h>
#include <torch/library.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "dumpers/capture/engine/capture.h"
#include "dumpers/capture/tensors/strided_bytes.h"
#include "dumpers/capture/torch/torch_compat.h"

namespace repro_check::capture {
namespace {

/// Who records. The counters are what lets a thread that still runs an operator (one that inherited
/// the key and outlived its scope) finish before the capture goes.
struct Active {
  std::atomic<Capture*> capture = nullptr;
  std::atomic<int> inside = 0;
  std::mutex mutex;
  int scopes = 0;
  /// Of a process that was forked from one that records, and does not record itself.
  std::atomic<bool> is_unrecorded = false;
  std::atomic<void (*)()> on_unrecorded = nullptr;
  std::unique_ptr<torch::Library> library;  ///< that holds the fallback, once there is one
  std::vector<std::unique_ptr<torch::Library>> exchanges;  ///< what stands before these
  std::set<std::string> watched;                           ///< operators that `exchanges` hold
};

Active& active() {
  static auto* state = new Active;  // outlives every thread
  return *state;
}

struct InUse : core::Pinned {
  InUse() { active().inside.fetch_add(1); }
  ~InUse() { active().inside.fetch_sub(1); }
};

void fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const InUse until_done;
  const Call call{op, below_capture(keys), *stack};
  if (Capture* capture = active().capture.load()) {
    capture->intercept(call);
  } else {
    if (active().is_unrecorded.load(std::memory_order_relaxed) &&
        active().is_unrecorded.exchange(false)) {
      if (auto* tell = active().on_unrecorded.load()) tell();
    }
    op.redispatchBoxed(call.keys, stack);
  }
}

/// Every thread has it among its keys, and no operator of c10d has a kernel there. So the kernels
/// of exchanges are called although the engine's key is off, and no other operator is slower.
constexpr c10::DispatchKey kExchangeKey = c10::DispatchKey::BackendSelect;

void before_exchange(const c10::OperatorHandle& op,
                     c10::DispatchKeySet keys,
                     torch::jit::Stack* stack) {
  const InUse until_done;
  const Call call{
      op, keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kExchangeKey), *stack};
  if (Capture* capture = active().capture.load()) return capture->intercept_exchange(call);
  op.redispatchBoxed(call.keys, stack);
}

/// A forked child has the key and the capture of its parent, but not the parent's dump, nor its
/// threads: who holds the lock is gone, and a team of OpenMP that the parent used would be waited
/// for without end.
void forget_in_child() {
  Active& state = active();
  state.is_unrecorded = state.capture.load() != nullptr;
  state.capture = nullptr;
  state.inside = 0;
  state.scopes = 0;
  new (&state.mutex) std::mutex;
  read_serially();
}

}  // namespace

/// Stays, as the fallback does. Other libraries bring more operators: asked whenever a group is
/// made.
void ensure_before_exchanges() {
  Active& state = active();
  const std::lock_guard<std::mutex> lock(state.mutex);
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op || !is_exchange(op->schema()) || op->hasKernelForDispatchKey(kExchangeKey)) continue;
    const std::string full = c10::toString(name);
    if (!state.watched.insert(full).second) continue;
    state.exchanges.push_back(std::make_unique<torch::Library>(
        torch::Library::IMPL, full.substr(0, full.find(':')), kExchangeKey, __FILE__, __LINE__));
    state.exchanges.back()->impl(full.c_str(),
                                 torch::CppFunction::makeFromBoxedFunction<&before_exchange>());
  }
}

/// Registers the boxed fallback, once in the life of the process. It stays: taking it away at exit
/// while a thread still has the key set would be a crash.
void ensure_fallback() {
  static std::once_flag once;
  std::call_once(once, [] {
    auto& library = active().library;
    library = std::make_unique<torch::Library>(
        torch::Library::IMPL, "_", kCaptureKey, __FILE__, __LINE__);
    library->fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
    pthread_atfork(nullptr, nullptr, &forget_in_child);
  });
}

/// Makes it the one that records; scopes of the same one nest.
void activate(Capture& capture) {
  Active& state = active();
  const std::lock_guard<std::mutex> lock(state.mutex);
  if (state.scopes > 0 && state.capture.load() != &capture) {
    throw core::internal_error("this process is already being recorded");
  }
  state.capture = &capture;
  state.is_unrecorded = false;
  ++state.scopes;
}

void forget(Capture& capture) noexcept {
  Capture* expected = &capture;
  active().capture.compare_exchange_strong(expected, nullptr);
}

void deactivate(Capture& capture) noexcept {
  Active& state = active();
  const std::lock_guard<std::mutex> lock(state.mutex);
  if (--state.scopes == 0) forget(capture);
}

void wait_until_left() noexcept {
  while (active().inside.load() > 0) std::this_thread::yield();
}

void tell_of_unrecorded_child(void (*told)()) noexcept { active().on_unrecorded = told; }

void expect_unrecorded_child() noexcept { active().is_unrecorded = false; }

}  // namespace repro_check::capture
