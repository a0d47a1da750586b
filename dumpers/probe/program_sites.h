// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/system/pinned.h"
#include "core/trace/host_generator_watch.h"
#include "core/trace/recorded_part.h"
#include "dumpers/capture/engine/capture.h"
#include "dumpers/probe/python_frames.h"

namespace c10 {
struct TensorImpl;
}
namespace torch::autograd {
struct Node;
}

namespace repro_check::probe {

/// Where in a training program a call stands: the module that Python's hooks have entered, the line
/// of Python, and in a backward pass the place of the forward call whose node is running.
class ProgramSites final : public capture::SiteProvider {
 public:
  /// @param number  of the module, as enter_module() will give it
  void define_module(std::uint32_t number, std::string path, std::string type);
  /// On the thread that runs the module.
  void enter_module(std::uint32_t number, bool in_eval = false);
  void leave_module();
  /// Whether the calling thread has entered one and not left it.
  [[nodiscard]] static bool is_in_module();
  /// As it was defined; empty for a number that was not.
  [[nodiscard]] std::string path_of(std::uint32_t number);

  /// The calling thread takes up work that has nothing to do with what it did before.
  void begin_work();

  /// What the calling thread does until it leaves the phase.
  void enter_phase(core::Phase phase);
  /// @param next  of what follows outside of modules; empty = what it was before
  void leave_phase(std::optional<core::Phase> next);

  /// Contents of what the calling thread does are not read until it leaves that.
  void mark_unread(bool entered);

  /// Whether contents are read from here on, on all threads.
  void read_contents(bool read) { reads_ = read; }
  /// Whether what the calling thread does is none of the program's computation.
  /// @return whether it was that before
  static bool hide(bool hidden);

  /// A step of an optimizer begins on the calling thread.
  /// @param first  op index that its first operator has
  /// @param plain  what it leaves tells all of it
  void enter_step(std::uint64_t first, bool plain);
  /// @param next  op index behind the last one of the step
  /// @return the operators of the step where they are recorded by themselves alone
  std::optional<core::OpRange> leave_step(std::uint64_t next);
  /// Whether operators of the calling thread are those of a step of which only what it leaves is
  /// recorded.
  [[nodiscard]] static bool hides_step();

  /// Before any is.
  void record_only(core::RecordedPart part) { part_ = std::move(part); }
  [[nodiscard]] bool is_recorded(std::uint32_t step) const {
    return part_.steps.empty() || core::contains(part_.steps, step);
  }

  /// Whether bytes of what the program tells in a step are kept, where any are.
  [[nodiscard]] bool keeps_values(std::uint32_t step) const {
    return part_.keep_steps.empty() || core::contains(part_.keep_steps, step);
  }

  /// So many operators were recorded elsewhere.
  void count(std::uint64_t operators) { recorded_ += operators; }

  /// Names a parameter for the node that accumulates its gradient.
  void name_parameter(const c10::TensorImpl* parameter, const std::string& name);

  /// While it lives, calls of this thread stand at a place of Python that it has left.
  class Elsewhere : core::Pinned {
   public:
    /// @param place  null: where the thread stands
    explicit Elsewhere(const PythonChain* place);
    ~Elsewhere();
  };

  core::HostGeneratorWatch& generators() { return generators_; }

  /// Something reduces gradients over ranks when they have been accumulated.
  void expect_reductions() { reduces_ = true; }

  /// A step has ended, and the next one begins: nodes of the one before it are not looked for any
  /// more.
  void begin_step();

  std::shared_ptr<const core::CallSite> current_site() override;
  [[nodiscard]] std::optional<core::Phase> current_phase() const override;
  [[nodiscard]] bool runs_model(std::uint32_t step) const override;
  [[nodiscard]] std::optional<int> backward_device() const override;
  [[nodiscard]] capture::Reading reading() const override;
  [[nodiscard]] bool calls_in_eval() const override;
  [[nodiscard]] std::string class_of(const void* object) const override {
    return python_class(object);
  }

 private:
  using Site = std::shared_ptr<const core::CallSite>;

  /// Nodes of autograd are numbered in each thread; those from `first` on belong to the call at
  /// `site`, up to the next entry's.
  struct Calls {
    std::vector<std::pair<std::uint64_t, Site>> made;
    std::size_t of_last_step = 0;
    bool steps = false;  ///< begins steps of its own
  };

  Site forward_site();
  Site backward_site(const torch::autograd::Node& node);
  /// Where a hook of the program, or a backward() of its own, runs for the call at `of`.
  Site hook_site(const Site& of, const PythonChain& hook);
  Site make_site(const std::string& path, const std::string& type, const PythonChain* chain);
  void note_call(const Site& site);

  core::RecordedPart part_;
  core::HostGeneratorWatch generators_;
  std::atomic<bool> reduces_ = false;
  std::atomic<bool> reads_ = true;
  std::atomic<std::uint64_t> recorded_ = 0;
  std::mutex mutex_;
  std::unordered_map<std::uint32_t, std::pair<std::string, std::string>> modules_;
  std::map<std::pair<std::uint32_t, std::uint64_t>, Site> sites_;  ///< by module and chain
  std::unordered_map<std::uint64_t, Calls> calls_;                 ///< by autograd's thread number
  std::unordered_map<const c10::TensorImpl*, Site> parameters_;
  std::map<std::pair<Site, std::uint64_t>, Site> hooks_;  ///< by the site of the node, and chain
};

}  // namespace repro_check::probe
