// SPDX-License-Identifier: Apache-2.0
#include "core/trace/op_record.h"

#include <doctest/doctest.h>

#include "core/tensor/tensor_record.h"
#include "core/trace/run_manifest.h"

namespace repro_check::core {
namespace {

CallSite site_of(std::vector<SourceFrame> frames) { return {"", "", std::move(frames)}; }

TEST_CASE("the frame shown is the innermost of the user's own") {
  const CallSite site =
      site_of({{"/usr/lib/python3/dist-packages/torch/nn/modules/linear.py", 134, "forward"},
               {"/home/me/model.py", 12, "forward"},
               {"/home/me/model.py", 40, "forward"}});
  REQUIRE(display_frame(site) != nullptr);
  CHECK(display_frame(site)->line == 12);
}

TEST_CASE("a frame inside the framework is better than none, one without a line is not") {
  const CallSite inside = site_of({{"", 0, ""}, {"torch/nn/functional.py", 9, "linear"}});
  REQUIRE(display_frame(inside) != nullptr);
  CHECK(display_frame(inside)->line == 9);
  CHECK(display_frame(site_of({{"model.py", 0, ""}})) == nullptr);
  CHECK(display_frame(site_of({})) == nullptr);
}

TEST_CASE("a folder of the user's called torch is the user's") {
  const CallSite site =
      site_of({{"/home/me/torch/model.py", 3, "forward"}, {"/home/me/run.py", 5, ""}});
  CHECK(display_frame(site)->line == 3);
}

TEST_CASE("names") {
  CHECK(OperatorInfo{"aten::add", "Tensor"}.full_name() == "aten::add.Tensor");
  CHECK(OperatorInfo{"aten::relu", ""}.full_name() == "aten::relu");
  CHECK(name_of(Phase::kForward) == "forward");
  CHECK(name_of(Phase::kBackward) == "backward");
  CHECK(name_of(Phase::kOptimizer) == "optimizer");
  CHECK(content_state_name(ContentState::kUninitialised) == "uninitialised");
  CHECK(name_of(DeterminismMode::kWarn) == "warn");
  CHECK(name_of(RngMode::kHost) == "host");
  CHECK(name_of(GradMode::kInference) == "inference");
  CHECK(name_of(DumpLevel::kStats) == "stats");
  CHECK(name_of(DumpDepth::kLeaf) == "leaf");
  CHECK(parse_name<DumpDepth>("all") == DumpDepth::kAll);
  CHECK_FALSE(parse_name<DumpDepth>("al"));
}

TEST_CASE("content is named by digest, dtype and shape") {
  const Digest digest{1, 2};
  CHECK(content_name({Dtype::kFloat32, {2, 3}, digest}) ==
        "00000000000000010000000000000002-float32-2x3");
  CHECK(content_name({Dtype::kBool, {}, digest}) == "00000000000000010000000000000002-bool-scalar");
  CHECK(content_name({Dtype::kInt64, {0}, digest}) == "00000000000000010000000000000002-int64-0");
}

TEST_CASE("of some arguments the form alone is taken, or their memory") {
  const auto reads = [](const char* name, const char* overload, const char* argument) {
    return reads_values(OperatorInfo{name, overload}, argument);
  };
  CHECK_FALSE(reads("aten::mul", "out", "out"));
  CHECK_FALSE(reads("aten::split", "Tensor_out", "out.1"));
  CHECK(reads("aten::mul", "out", "other"));
  CHECK_FALSE(reads("aten::rand_like", "", "self"));
  CHECK_FALSE(reads("aten::zeros_like", "", "self.values"));
  CHECK(reads("aten::zeros_like", "", "self.sizes"));
  CHECK_FALSE(reads("aten::set_", "source_Tensor", "self"));
  CHECK(reads("aten::set_", "source_Tensor", "source"));
  CHECK(reads("aten::randint_like", "Tensor", "high"));
  CHECK(reads("mine::softmax_like", "", "self"));
  CHECK_FALSE(reads("aten::new_zeros", "", "self"));
  CHECK_FALSE(reads("aten::to", "other", "other"));
  CHECK(reads("aten::to", "other", "self"));
  CHECK_FALSE(reads("aten::expand_as", "", "other"));
  CHECK_FALSE(reads("aten::result_type", "Tensor", "tensor"));
  CHECK(reads("aten::equal", "", "other"));
}

}  // namespace
}  // namespace repro_check::core
