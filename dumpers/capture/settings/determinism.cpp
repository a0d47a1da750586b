// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/settings/determinism.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/text/near_miss.h"
#include "core/trace/known_variables.h"
#include "dumpers/capture/engine/capture.h"
#include "dumpers/capture/settings/environment.h"
#include "dumpers/capture/settings/setting_table.h"
#include "dumpers/capture/torch/torch_compat.h"

namespace repro_check::capture {

namespace {

constexpr std::string_view kUnreadable = "unreadable: ";

const SettingRow* find_row(std::string_view name) {
  for (const SettingRow& row : setting_rows()) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

const SettingRow& require_row(const std::string& name) {
  if (const SettingRow* row = find_row(name)) return *row;
  std::vector<std::string_view> names;
  for (const SettingRow& row : setting_rows()) names.push_back(row.name);
  const std::optional<std::string_view> near = core::near_miss(name, names);
  throw core::Error(core::ErrorKind::kUsage,
                    fmt::format("this LibTorch has no setting {}", name),
                    near ? fmt::format("did you mean {}?", *near)
                         : "`repro-check env` lists the settings there are");
}

/// Sets, and makes sure that LibTorch reports what was set.
void set_and_check(const SettingRow& row, const std::string& value) {
  if (!row.set) {
    throw core::Error(core::ErrorKind::kUsage,
                      fmt::format("setting {} can be read but not set", row.name),
                      "leave it out of the configuration");
  }
  try {
    row.set(value);
  } catch (const UnknownSettingValue&) {
    throw core::Error(core::ErrorKind::kUsage,
                      fmt::format("setting {} does not take `{}`", row.name, value),
                      fmt::format("it takes {}", row.accepts));
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    throw core::Error(core::ErrorKind::kUsage,
                      fmt::format("LibTorch refused to set {} to `{}`: {}",
                                  row.name,
                                  value,
                                  text.substr(0, text.find('\n'))),
                      fmt::format("it takes {}", row.accepts));
  }
  const std::string reported = read_setting(row);
  if (reported != value) {
    throw core::Error(
        core::ErrorKind::kRunFailed,
        fmt::format("set {} to `{}`, but LibTorch reports `{}`", row.name, value, reported),
        "this processor or build cannot do it: leave the setting as it is");
  }
}

/// Sets what this release has; what it lacks needs no pinning.
void apply_where_present(std::string_view name, const std::string& value) {
  const SettingRow* row = find_row(name);
  if (row != nullptr && row->set && read_setting(*row) != value) set_and_check(*row, value);
}

void apply_determinism(core::DeterminismMode mode) {
  apply_where_present("deterministic_algorithms", std::string(core::name_of(mode)));
  for (const char* name :
       {"deterministic_fill_uninitialized_memory", "cudnn.deterministic", "mkldnn.deterministic"}) {
    apply_where_present(name, "on");
  }
  for (const char* name : {"cudnn.benchmark",
                           "tf32.cublas",
                           "tf32.cudnn",
                           "tf32.onednn",
                           "cublas.fp16_reduction",
                           "cublas.bf16_reduction",
                           "cublas.fp16_accumulation",
                           "cpu.fp16_reduction",
                           "sdp.math_reduction",
                           "nnpack.enabled",
                           "native_aot.allow"}) {
    apply_where_present(name, "off");
  }
}

void append_variables(std::vector<core::Setting>& settings) {
  for (const core::KnownVariable& variable : core::known_variables()) {
    const char* value = std::getenv(std::string(variable.name).c_str());
    const std::string text = value != nullptr ? value : "unset";
    settings.push_back({fmt::format("env.{}", variable.name), text, text});
  }
}

void seed_one(const at::Generator& given,
              const std::string& name,
              std::uint64_t seed,
              std::vector<core::Setting>& settings) {
  at::Generator generator = given;
  const std::lock_guard<std::mutex> lock(generator.mutex());
  const std::string found = std::to_string(generator.current_seed());
  generator.set_current_seed(seed);
  settings.push_back({name, found, std::to_string(generator.current_seed())});
}

}  // namespace

std::vector<core::EnvironmentFact> read_settings() {
  std::vector<core::EnvironmentFact> facts;
  for (const SettingRow& row : setting_rows()) facts.push_back({row.name, read_setting(row)});
  return facts;
}

class DeterminismPin::Impl : core::Pinned {
 public:
  explicit Impl(const PinRequest& request) {
    for (const SettingRow& row : setting_rows()) found_.push_back(read_setting(row));
    try {
      apply_request(request);
    } catch (...) {
      restore();
      throw;
    }
  }
  ~Impl() { restore(); }

  [[nodiscard]] std::vector<core::Setting> settings() const {
    std::vector<core::Setting> all;
    const SettingRows& rows = setting_rows();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      all.push_back({rows[i].name, found_[i], read_setting(rows[i])});
    }
    append_variables(all);
    return all;
  }

 private:
  void apply_request(const PinRequest& request) {
    for (const SettingRow& row : setting_rows()) {
      const bool autocast = row.name.rfind("autocast.", 0) == 0 && row.name != "autocast.cache";
      if (autocast) apply_where_present(row.name, "off");
    }
    apply_where_present("flush_denormal", "off");
    if (request.threads)
      set_and_check(require_row("threads.intra_op"), std::to_string(*request.threads));
    if (request.interop_threads) {
      set_and_check(require_row("threads.inter_op"), std::to_string(*request.interop_threads));
    }
    if (request.determinism != core::DeterminismMode::kOff) {
      apply_determinism(request.determinism);
    }
    for (const auto& [name, value] : request.settings) set_and_check(require_row(name), value);
    note_pinned_threads(request.threads || request.settings.count("threads.intra_op") > 0);
    if (request.grad == core::GradMode::kInference) {
      inference_.emplace();
    } else if (request.settings.count("grad_mode") == 0) {
      at::GradMode::set_enabled(request.grad == core::GradMode::kEnabled);
    }
  }

  void restore() noexcept {
    inference_.reset();
    note_pinned_threads(false);
    // Setters have side effects on each other, so that one round may not be enough.
    constexpr int kRounds = 3;
    for (int round = 0; round < kRounds && restore_once(); ++round) {
    }
  }

  /// In the opposite order, and only what differs. @return whether anything did
  bool restore_once() noexcept {
    bool changed = false;
    const SettingRows& rows = setting_rows();
    for (std::size_t i = rows.size(); i > 0; --i) {
      const SettingRow& row = rows[i - 1];
      const std::string& found = found_[i - 1];
      if (!row.set || row.name == "threads.inter_op" || found.rfind(kUnreadable, 0) == 0) continue;
      try {
        if (read_setting(row) == found) continue;
        changed = true;
        row.set(found);
      } catch (...) {
        // A value LibTorch reported and does not take back; the next run reads it afresh.
      }
    }
    return changed;
  }

  std::vector<std::string> found_;
  std::optional<c10::InferenceMode> inference_;
};

DeterminismPin::DeterminismPin(const PinRequest& request)
    : impl_(std::make_unique<Impl>(request)) {}

DeterminismPin::~DeterminismPin() = default;

std::vector<core::Setting> DeterminismPin::settings() const { return impl_->settings(); }

void seed_generators(std::uint64_t seed, std::vector<core::Setting>& settings) {
  constexpr std::uint64_t kMaxSeed = 0xffffffff;
  if (seed > kMaxSeed) {
    throw core::Error(core::ErrorKind::kUsage,
                      fmt::format("seed {} is above 4294967295", seed),
                      "LibTorch's CPU generator uses 32 bits of it: take a smaller one");
  }
  seed_one(at::detail::getDefaultCPUGenerator(), "generator.cpu", seed, settings);
  for (const c10::Device& device : present_devices()) {
    const std::string name = "generator." + device.str();
    try {
      seed_one(at::globalContext().defaultGenerator(device), name, seed, settings);
    } catch (const c10::Error& error) {
      const std::string text = error.what_without_backtrace();
      settings.push_back({name, "none", "none: " + text.substr(0, text.find('\n'))});
    }
  }
}

namespace {

/// A model that warns in a loop must not fill the memory.
constexpr std::size_t kMaxTexts = 1000;

}  // namespace

class WarningCollector::Impl final : public WarningListener, core::Pinned {
 public:
  Impl() : previous_(warnings_of::get_warning_handler()), always_(warnings_of::get_warnAlways()) {
    warnings_of::set_warning_handler(this);
    // Warnings given once in a process would be missing from the second run of a warm one.
    warnings_of::set_warnAlways(true);
  }
  ~Impl() override {
    warnings_of::set_warning_handler(previous_);
    warnings_of::set_warnAlways(always_);
  }

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
  c10::WarningHandler* previous_;
  bool always_;
};

WarningCollector::WarningCollector() : impl_(std::make_unique<Impl>()) {}

WarningCollector::~WarningCollector() = default;

std::vector<std::string> WarningCollector::warnings() const { return impl_->texts(); }

}  // namespace repro_check::capture
