// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/engine/capture.h"

#include <exception>

#include "dumpers/capture/engine/engine.h"
#include "dumpers/capture/engine/fallback.h"

namespace repro_check::capture {

class Capture::Impl {
 public:
  Impl(const CaptureOptions& options, core::DumpSink& sink, SiteProvider* sites)
      : engine_(options, sink, sites) {
    ensure_fallback();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  Impl(Impl&&) = delete;
  Impl& operator=(Impl&&) = delete;
  ~Impl() { drain(engine_); }

  Engine& engine() noexcept { return engine_; }

 private:
  Engine engine_;
};

Capture::Capture(const CaptureOptions& options, core::DumpSink& sink, SiteProvider* sites)
    : impl_(std::make_unique<Impl>(options, sink, sites)) {}

Capture::~Capture() = default;

void Capture::name_tensor(const at::Tensor& tensor, const std::string& name) {
  impl_->engine().name_tensor(tensor, name);
}

std::vector<core::TensorRecord> Capture::describe(const at::Tensor& tensor,
                                                  const std::string& slot) {
  return impl_->engine().describe(tensor, slot);
}

NamedTensors Capture::unpack(const c10::IValue& object, const std::string& name) {
  return impl_->engine().unpack(object, name);
}

void Capture::set_step(std::uint32_t step) { impl_->engine().set_step(step); }

void Capture::set_phase(core::Phase phase) { impl_->engine().set_phase(phase); }

void Capture::record_returned(const c10::IValue& value) { impl_->engine().record_returned(value); }

void Capture::record_values(const std::string& name, const NamedValues& values) {
  impl_->engine().record_values(name, values);
}

std::optional<std::uint32_t> Capture::fork_lane() { return impl_->engine().fork_lane(); }

CaptureCounts Capture::counts() const { return impl_->engine().counts(); }

std::vector<std::string> Capture::warnings() const { return impl_->engine().warnings(); }

void Capture::rethrow_failure() const { impl_->engine().rethrow_failure(); }

std::vector<std::string> Capture::unmatched_include() const {
  return impl_->engine().unmatched_include();
}

std::string Capture::last_operator() const { return impl_->engine().last_operator(); }

struct Capture::Scope::LaneGuard {
  LaneGuard(Engine& engine, std::optional<std::uint32_t> lane)
      : guard(LaneState::kind(), engine.begin_lane(lane)) {}

  c10::DebugInfoGuard guard;
};

Capture::Scope::Scope(Capture& capture, std::optional<std::uint32_t> lane)
    : impl_(capture.impl_.get()), exceptions_(std::uncaught_exceptions()) {
  lane_ = std::make_unique<LaneGuard>(impl_->engine(), lane);
  activate(impl_->engine());
  previous_ = set_intercepting(true);
}

Capture::Scope::~Scope() {
  set_intercepting(previous_);
  lane_.reset();
  deactivate(impl_->engine());
  // A call that raised and left the scope with its exception is the operator the run died in: it
  // stays open in the dump.
  if (std::uncaught_exceptions() == exceptions_) impl_->engine().settle();
}

}  // namespace repro_check::capture
