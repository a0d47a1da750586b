// SPDX-License-Identifier: Apache-2.0
#include <c10/util/Exception.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "dumpers/capture/engine/engine.h"
#include "dumpers/capture/settings/determinism.h"
#include "dumpers/capture/torch/torch_compat.h"

namespace repro_check::capture {
namespace {

/// A model that warns in a loop must not fill the memory.
constexpr std::size_t kMaxTexts = 1000;

class Handler final : public WarningListener {
 public:
  [[nodiscard]] std::vector<std::string> texts() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return texts_;
  }

 private:
  void hear(const std::string& said) override {
    // LibTorch says what a kernel lacks, and not who called it.
    const std::string call = running_call();
    std::string text = call.empty() ? said : call + ": " + said;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (texts_.size() >= kMaxTexts) return;
    if (std::find(texts_.begin(), texts_.end(), text) == texts_.end())
      texts_.push_back(std::move(text));
  }

  mutable std::mutex mutex_;
  std::vector<std::string> texts_;
};

}  // namespace

class WarningCollector::Impl {
 public:
  Impl() : previous_(warnings_of::get_warning_handler()), always_(warnings_of::get_warnAlways()) {
    warnings_of::set_warning_handler(&handler_);
    // Warnings given once in a process would be missing from the second run of a warm one.
    warnings_of::set_warnAlways(true);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  Impl(Impl&&) = delete;
  Impl& operator=(Impl&&) = delete;
  ~Impl() {
    warnings_of::set_warning_handler(previous_);
    warnings_of::set_warnAlways(always_);
  }

  [[nodiscard]] std::vector<std::string> texts() const { return handler_.texts(); }

 private:
  Handler handler_;
  c10::WarningHandler* previous_;
  bool always_;
};

WarningCollector::WarningCollector() : impl_(std::make_unique<Impl>()) {}

WarningCollector::~WarningCollector() = default;

std::vector<std::string> WarningCollector::warnings() const { return impl_->texts(); }

}  // namespace repro_check::capture
