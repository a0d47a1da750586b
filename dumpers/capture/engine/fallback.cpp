// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/engine/fallback.h"

#include <pthread.h>
#include <torch/library.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "core/error.h"
#include "dumpers/capture/engine/engine.h"
#include "dumpers/capture/torch/torch_compat.h"

namespace repro_check::capture {
namespace {

/// Who records. The counters are what lets a thread that still runs an operator (one that inherited
/// the key and outlived its scope) finish before the engine goes.
struct Active {
  std::atomic<Engine*> engine = nullptr;
  std::atomic<int> inside = 0;
  std::mutex mutex;
  int scopes = 0;
};

Active& active() {
  static auto* state = new Active;  // outlives every thread
  return *state;
}

class Inside {
 public:
  Inside() : state_(active()) {
    state_.inside.fetch_add(1);
    engine_ = state_.engine.load();
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  Inside(Inside&&) = delete;
  Inside& operator=(Inside&&) = delete;
  ~Inside() { state_.inside.fetch_sub(1); }

  [[nodiscard]] Engine* engine() const { return engine_; }

 private:
  Active& state_;
  Engine* engine_ = nullptr;
};

void fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const Inside inside;
  const Call call{op, below_capture(keys), *stack};
  if (inside.engine() == nullptr) {
    op.redispatchBoxed(call.keys, stack);
  } else {
    inside.engine()->intercept(call);
  }
}

/// A forked child has the key and the engine of its parent, but not the parent's dump.
void forget_in_child() {
  active().engine = nullptr;
  active().inside = 0;
}

}  // namespace

void ensure_fallback() {
  static std::once_flag once;
  std::call_once(once, [] {
    auto* library = new torch::Library(torch::Library::IMPL, "_", kCaptureKey, __FILE__, __LINE__);
    library->fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
    pthread_atfork(nullptr, nullptr, &forget_in_child);
  });
}

void activate(Engine& engine) {
  Active& state = active();
  const std::lock_guard<std::mutex> lock(state.mutex);
  if (state.scopes > 0 && state.engine.load() != &engine) {
    throw core::Error(core::ErrorKind::kInternal, "two recordings at once in one process");
  }
  state.engine = &engine;
  ++state.scopes;
}

void deactivate(Engine& engine) noexcept {
  Active& state = active();
  const std::lock_guard<std::mutex> lock(state.mutex);
  if (--state.scopes > 0) return;
  Engine* expected = &engine;
  state.engine.compare_exchange_strong(expected, nullptr);
}

void drain(Engine& engine) noexcept {
  Active& state = active();
  Engine* expected = &engine;
  state.engine.compare_exchange_strong(expected, nullptr);
  while (state.inside.load() > 0) std::this_thread::yield();
}

bool set_intercepting(bool on) noexcept {
  const bool before = c10::impl::tls_is_dispatch_key_included(kCaptureKey);
  c10::impl::tls_set_dispatch_key_included(kCaptureKey, on);
  return before;
}

}  // namespace repro_check::capture
