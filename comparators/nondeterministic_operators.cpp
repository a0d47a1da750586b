// SPDX-License-Identifier: Apache-2.0
#include "comparators/nondeterministic_operators.h"

#include <algorithm>
#include <array>

#include "core/tensor_view.h"

namespace repro_check::comparators {
namespace {

constexpr std::string_view kArrival = "it adds in the order in which threads arrive";
constexpr std::string_view kLastWriter = "of several values for one place any may come last";

struct Row {
  std::string_view name;
  bool on_cpu;
  std::string_view why;
};

constexpr std::array<Row, 39> kRows{{
    {"aten::_index_put_impl_", true, kArrival},
    {"aten::_unsafe_index_put", true, kArrival},
    {"aten::index_put", true, kArrival},
    {"aten::index_put_", true, kArrival},
    {"aten::put", true, kArrival},
    {"aten::put_", true, kArrival},
    {"aten::index_copy", true, kLastWriter},
    {"aten::index_copy_", true, kLastWriter},
    {"aten::index_backward", true, kArrival},
    {"aten::take_backward", true, kArrival},
    {"aten::index_add", false, kArrival},
    {"aten::index_add_", false, kArrival},
    {"aten::index_reduce", false, kArrival},
    {"aten::index_reduce_", false, kArrival},
    {"aten::scatter", false, kLastWriter},
    {"aten::scatter_", false, kLastWriter},
    {"aten::scatter_add", false, kArrival},
    {"aten::scatter_add_", false, kArrival},
    {"aten::scatter_reduce", false, kArrival},
    {"aten::scatter_reduce_", false, kArrival},
    {"aten::bincount", false, kArrival},
    {"aten::histc", false, kArrival},
    {"aten::cumsum", false, kArrival},
    {"aten::median", false, "of equal values any may be chosen"},
    {"aten::kthvalue", false, "of equal values any may be chosen"},
    {"aten::embedding_bag", false, kArrival},
    {"aten::embedding_dense_backward", false, kArrival},
    {"aten::_embedding_bag_dense_backward", false, kArrival},
    {"aten::grid_sampler_2d_backward", false, kArrival},
    {"aten::grid_sampler_3d_backward", false, kArrival},
    {"aten::max_unpool2d", false, kLastWriter},
    {"aten::max_unpool3d", false, kLastWriter},
    {"aten::upsample_bilinear2d_backward", false, kArrival},
    {"aten::upsample_bicubic2d_backward", false, kArrival},
    {"aten::upsample_nearest2d_backward", false, kArrival},
    {"aten::nll_loss2d_forward", false, kArrival},
    {"aten::_ctc_loss_backward", false, kArrival},
    {"aten::_scaled_dot_product_flash_attention_backward", false, kArrival},
    {"aten::_scaled_dot_product_efficient_attention_backward", false, kArrival},
}};

constexpr std::array<std::string_view, 11> kTieBreakers{"aten::topk",
                                                        "aten::sort",
                                                        "aten::argsort",
                                                        "aten::argmax",
                                                        "aten::argmin",
                                                        "aten::max",
                                                        "aten::min",
                                                        "aten::median",
                                                        "aten::nanmedian",
                                                        "aten::mode",
                                                        "aten::kthvalue"};

/// Elementwise functions that ATen hands to MKL's vector mathematics. sqrt and trunc are left out:
/// they are rounded correctly by every kernel.
constexpr std::array<std::string_view, 17> kVectorFunctions{"acos",
                                                            "asin",
                                                            "atan",
                                                            "cos",
                                                            "erf",
                                                            "erfc",
                                                            "erfinv",
                                                            "exp",
                                                            "expm1",
                                                            "lgamma",
                                                            "log",
                                                            "log10",
                                                            "log1p",
                                                            "log2",
                                                            "sin",
                                                            "tan",
                                                            "tanh"};
/// ATen splits elementwise work among threads beyond so many elements (at::internal::GRAIN_SIZE).
constexpr std::int64_t kGrain = 32'768;

bool is_vector_function(std::string_view name) {
  constexpr std::string_view kPrefix = "aten::";
  if (!name.starts_with(kPrefix)) return false;
  name.remove_prefix(kPrefix.size());
  if (name.ends_with('_')) name.remove_suffix(1);
  return std::ranges::find(kVectorFunctions, name) != kVectorFunctions.end();
}

bool on_accelerator(const core::OpRecord& record) {
  return std::ranges::any_of(record.tensors, [](const core::TensorRecord& tensor) {
    return !tensor.device.empty() && !tensor.device.starts_with("cpu");
  });
}

}  // namespace

std::optional<std::string_view> known_nondeterminism(const core::OpRecord& record) {
  if (!record.op) return std::nullopt;
  for (const Row& row : kRows) {
    if (row.name != record.op->name) continue;
    if (row.on_cpu || on_accelerator(record)) return row.why;
  }
  return std::nullopt;
}

std::optional<std::string_view> differs_between_processes(const core::OpRecord& record,
                                                          std::uint64_t threads) {
  if (!record.op || threads < 2 || !is_vector_function(record.op->name)) return std::nullopt;
  const bool large = std::ranges::any_of(record.tensors, [](const core::TensorRecord& tensor) {
    const bool real =
        tensor.dtype == core::Dtype::kFloat32 || tensor.dtype == core::Dtype::kFloat64;
    return real && tensor.role == core::TensorRole::kOutput &&
           core::element_count(tensor.shape) > kGrain;
  });
  if (!large || on_accelerator(record)) return std::nullopt;
  return "MKL may give one of its threads a kernel of lower accuracy on the first call in a "
         "process";
}

bool breaks_ties(const core::OperatorInfo& op) noexcept {
  return std::ranges::find(kTieBreakers, op.name) != kTieBreakers.end();
}

bool is_dropout(const core::OperatorInfo& op) noexcept {
  return op.name.find("dropout") != std::string::npos;
}

}  // namespace repro_check::comparators
