// SPDX-License-Identifier: Apache-2.0
// A program must not be able to tell that it is recorded.
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "tests/dumpers/capture/recording.h"

#define DOCTEST_CONFIG_NO_SHORT_MACRO_NAMES
#include <doctest/doctest.h>

namespace repro_check::capture {
namespace {

using core::DumpDepth;
using core::DumpLevel;

/// All that a program could look at.
struct Observed {
  std::vector<at::Tensor> tensors;
  std::vector<std::int64_t> versions;
  std::vector<std::string> flags;
  at::Tensor generator;
};

/// Everything about a tensor that is not its values.
std::string flags_of(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.sizes() << tensor.strides() << " at " << tensor.storage_offset() << ' '
       << tensor.suggest_memory_format() << ", leaf " << tensor.is_leaf() << ", grad "
       << tensor.requires_grad() << ", node " << (tensor.grad_fn() != nullptr) << ':'
       << tensor.output_nr() << ", view " << tensor.is_view() << ", inference "
       << tensor.is_inference() << ", conj " << tensor.is_conj() << ", negative " << tensor.is_neg()
       << ", version " << (tensor.is_inference() ? 0 : tensor._version());
  return text.str();
}

void note_flags(Observed& seen, const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors) seen.flags.push_back(flags_of(tensor));
}

/// Memory formats, views and inference mode, as a convolutional net meets them.
void infer(Observed& seen) {
  const at::Tensor image =
      at::randn({2, 3, 8, 8}).contiguous(at::MemoryFormat::ChannelsLast).set_requires_grad(true);
  const at::Tensor kernel = at::randn({4, 3, 3, 3}).set_requires_grad(true);
  const at::Tensor features = at::conv2d(image, kernel);
  const at::Tensor part = features.select(1, 2).slice(1, 1, 5, 2);
  const at::Tensor copy = at::relu(features).permute({0, 2, 3, 1});
  at::Tensor detached = features.detach();
  detached.add_(1);
  note_flags(seen, {image, kernel, features, part, copy, detached});
  seen.tensors.insert(seen.tensors.end(), {features.detach(), part.detach(), copy.detach()});
  const c10::InferenceMode inference;
  const at::Tensor inferred = at::conv2d(image, kernel);
  note_flags(seen, {inferred, inferred.flatten(), at::_conj(at::complex(inferred, inferred))});
}

Observed train() {
  at::manual_seed(9);
  Observed seen;
  at::Tensor w = at::randn({4, 6}).set_requires_grad(true);
  at::Tensor b = at::zeros({4}).set_requires_grad(true);
  at::Tensor mean = at::zeros({4});
  at::Tensor variance = at::ones({4});
  const at::Tensor x = at::randn({8, 6});
  for (int step = 0; step < 3; ++step) {
    at::Tensor y = at::linear(x, w, b);
    y = at::batch_norm(y, {}, {}, mean, variance, true, 0.1, 1e-5, false);
    y = at::dropout(at::gelu(y), 0.2, true);
    at::Tensor z = y.transpose(0, 1).contiguous().view({-1});
    z = at::cat({z, z.slice(0, 0, 3)});
    const at::Tensor loss = z.pow(2).mean() + at::layer_norm(y, {4}).sum().mul(1e-3);
    loss.backward();
    const at::NoGradGuard no_grad;
    w.sub_(w.grad(), 0.1);
    b.sub_(b.grad(), 0.1);
    w.grad().zero_();
    note_flags(seen, {w, b, y, z, loss, w.grad(), mean});
    seen.tensors.push_back(loss.detach());
    seen.tensors.push_back(y.detach());
  }
  const at::Tensor spectrum = at::_conj(at::complex(x, x)).mul(2);
  const at::Tensor sparse = at::eye(4).to_sparse();
  seen.tensors.insert(seen.tensors.end(),
                      {w.detach(),
                       b.detach(),
                       mean,
                       variance,
                       b.grad(),
                       at::real(spectrum),
                       at::mm(sparse, w.detach())});
  for (const at::Tensor& tensor : seen.tensors) {
    seen.versions.push_back(tensor._version());
    for (const std::int64_t stride : tensor.strides()) seen.versions.push_back(stride);
  }
  seen.versions.push_back(sparse.is_coalesced() ? 1 : 0);
  seen.versions.push_back(w._version());
  infer(seen);
  seen.generator = at::globalContext().defaultGenerator(at::kCPU).get_state();
  return seen;
}

void check_equal(const Observed& bare, const Observed& recorded) {
  DOCTEST_REQUIRE(bare.tensors.size() == recorded.tensors.size());
  for (std::size_t i = 0; i < bare.tensors.size(); ++i) {
    DOCTEST_CAPTURE(i);
    DOCTEST_CHECK(same_bits(bare.tensors[i], recorded.tensors[i]));
  }
  DOCTEST_CHECK(bare.versions == recorded.versions);
  DOCTEST_CHECK(bare.flags == recorded.flags);
  DOCTEST_CHECK(same_bits(bare.generator, recorded.generator));
}

DOCTEST_TEST_CASE("values, versions, strides and generators are those of a bare run") {
  const Observed bare = train();
  for (const DumpDepth depth : {DumpDepth::kTop, DumpDepth::kLeaf, DumpDepth::kAll}) {
    for (const DumpLevel level : {DumpLevel::kDigest, DumpLevel::kStats, DumpLevel::kTensor}) {
      for (const bool verify : {false, true}) {
        CaptureOptions options = options_for(depth, level);
        options.verify_inputs = verify;
        Observed recorded;
        MemorySink sink;
        Capture capture(options, sink, nullptr);
        {
          const Capture::Scope scope(capture);
          recorded = train();
        }
        capture.rethrow_failure();
        check_equal(bare, recorded);
        DOCTEST_CHECK(capture.counts().stale_inputs == 0);
        for (const std::string& warning : capture.warnings()) {
          DOCTEST_CHECK_MESSAGE(warning.empty(), warning);
        }
      }
    }
  }
}

DOCTEST_TEST_CASE("the digest cache says what hashing anew says") {
  for (const DumpDepth depth : {DumpDepth::kTop, DumpDepth::kLeaf, DumpDepth::kAll}) {
    CaptureOptions options = options_for(depth);
    const Trace cached = record(options, [] { train(); });
    options.verify_inputs = true;
    const Trace anew = record(options, [] { train(); });
    DOCTEST_REQUIRE(cached.records.size() == anew.records.size());
    for (std::size_t i = 0; i < cached.records.size(); ++i) {
      const core::OpRecord& a = cached.records[i];
      const core::OpRecord& b = anew.records[i];
      DOCTEST_REQUIRE(a.tensors.size() == b.tensors.size());
      for (std::size_t k = 0; k < a.tensors.size(); ++k) {
        DOCTEST_CHECK_MESSAGE(
            a.tensors[k].digest == b.tensors[k].digest, a.op->full_name(), " ", a.tensors[k].slot);
      }
    }
  }
}

DOCTEST_TEST_CASE("autograd's own calls are recorded, and gradients are right") {
  class PhaseOnly final : public SiteProvider {
   public:
    std::shared_ptr<const core::CallSite> current_site() override { return nullptr; }
    [[nodiscard]] std::optional<core::Phase> current_phase() const override { return phase; }
    core::Phase phase = core::Phase::kForward;
  } sites;
  const at::Tensor x = at::ones({3, 2}).set_requires_grad(true);
  MemorySink sink;
  Capture capture(options_for(DumpDepth::kTop), sink, &sites);
  {
    const Capture::Scope scope(capture);
    const at::Tensor loss = x.mul(3).sum();
    sites.phase = core::Phase::kBackward;
    loss.backward();
  }
  DOCTEST_CHECK(same_bits(x.grad(), at::full({3, 2}, 3.0F)));
  std::size_t backward = 0;
  for (const core::OpRecord& record : sink.records) {
    if (record.phase == core::Phase::kBackward) ++backward;
  }
  DOCTEST_CHECK(backward >= 2);
  DOCTEST_CHECK(sink.records[0].tensors[0].requires_grad);
}

DOCTEST_TEST_CASE("scopes leave the thread as they found it") {
  const auto before = c10::impl::tls_local_dispatch_key_set();
  record(options_for(DumpDepth::kAll), [] { at::linear(at::ones({2, 2}), at::ones({2, 2})); });
  const auto after = c10::impl::tls_local_dispatch_key_set();
  DOCTEST_CHECK((before.included_ == after.included_));
  DOCTEST_CHECK((before.excluded_ == after.excluded_));
}

}  // namespace
}  // namespace repro_check::capture
