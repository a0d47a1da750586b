// SPDX-License-Identifier: Apache-2.0
#include "comparators/cause/nondeterministic_operators.h"

#include <algorithm>
#include <array>
#include <variant>

#include "core/tensor/tensor_view.h"

namespace repro_check::comparators {
namespace {

constexpr std::string_view kArrival = "it adds in the order in which threads arrive";
constexpr std::string_view kLastWriter = "of several values for one place any may come last";
constexpr std::string_view kPut = "several values for one place come in the order of their threads";
constexpr std::string_view kBlocks =
    "a device may add the parts of a sum in the order in which its blocks finish";
constexpr std::string_view kAlgorithm =
    "the device's library chooses among algorithms, by timing where it is let, and some of them "
    "add in the order in which threads arrive";
constexpr std::string_view kRecurrent =
    "the device's library computes layers side by side, in streams that share a workspace";

struct Row {
  std::string_view name;
  bool on_cpu;
  std::string_view why;
};

constexpr auto kRows = std::to_array<Row>({
    {"aten::_index_put_impl_", true, kPut},
    {"aten::_unsafe_index_put", true, kPut},
    {"aten::index_put", true, kPut},
    {"aten::index_put_", true, kPut},
    {"aten::put", true, kPut},
    {"aten::put_", true, kPut},
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
    {"aten::lstm", false, kRecurrent},
    {"aten::gru", false, kRecurrent},
    {"aten::rnn_tanh", false, kRecurrent},
    {"aten::rnn_relu", false, kRecurrent},
    {"aten::_cudnn_rnn", false, kRecurrent},
    {"aten::_cudnn_rnn_backward", false, kRecurrent},
    {"aten::miopen_rnn", false, kRecurrent},
    {"aten::miopen_rnn_backward", false, kRecurrent},
    {"aten::conv1d", false, kAlgorithm},
    {"aten::conv2d", false, kAlgorithm},
    {"aten::conv3d", false, kAlgorithm},
    {"aten::conv_transpose1d", false, kAlgorithm},
    {"aten::conv_transpose2d", false, kAlgorithm},
    {"aten::conv_transpose3d", false, kAlgorithm},
    {"aten::convolution", false, kAlgorithm},
    {"aten::_convolution", false, kAlgorithm},
    {"aten::convolution_backward", false, kAlgorithm},
    {"aten::cudnn_convolution", false, kAlgorithm},
    {"aten::cudnn_convolution_transpose", false, kAlgorithm},
    {"aten::cudnn_convolution_relu", false, kAlgorithm},
    {"aten::cudnn_convolution_add_relu", false, kAlgorithm},
    {"aten::miopen_convolution", false, kAlgorithm},
    {"aten::miopen_convolution_transpose", false, kAlgorithm},
    {"aten::miopen_depthwise_convolution", false, kAlgorithm},
    {"aten::sum", false, kBlocks},
    {"aten::nansum", false, kBlocks},
    {"aten::mean", false, kBlocks},
    {"aten::prod", false, kBlocks},
    {"aten::norm", false, kBlocks},
    {"aten::linalg_vector_norm", false, kBlocks},
    {"aten::std", false, kBlocks},
    {"aten::std_mean", false, kBlocks},
    {"aten::var", false, kBlocks},
    {"aten::var_mean", false, kBlocks},
    {"aten::logsumexp", false, kBlocks},
});

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

/// Elementwise functions that ATen hands to MKL's vector mathematics. trunc is left out: it is
/// exact in every kernel, which sqrt is not in those of lower accuracy.
constexpr std::array<std::string_view, 18> kVectorFunctions{"acos",
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
                                                            "sqrt",
                                                            "tan",
                                                            "tanh"};
/// ATen splits these functions among threads beyond so many elements (UnaryOpsKernel.cpp,
/// IMPLEMENT_VML_KERNEL), not at::internal::GRAIN_SIZE as other elementwise work.
constexpr std::int64_t kGrain = 2'048;

bool is_vector_function(std::string_view name) {
  constexpr std::string_view kPrefix = "aten::";
  if (!name.starts_with(kPrefix)) return false;
  name.remove_prefix(kPrefix.size());
  if (name.ends_with('_')) name.remove_suffix(1);
  return std::ranges::find(kVectorFunctions, name) != kVectorFunctions.end();
}

/// Whether what is put is added; empty where the record does not say.
std::optional<bool> accumulates(const core::OpRecord& record) {
  const auto found = std::ranges::find(record.arguments, "accumulate", &core::Argument::name);
  if (found == record.arguments.end()) return std::nullopt;
  if (const auto* flag = std::get_if<bool>(&found->value.data)) return *flag;
  return std::nullopt;
}

std::string_view reason_of(const Row& row, const core::OpRecord& record) {
  if (row.why != kPut) return row.why;
  const auto adds = accumulates(record);
  if (!adds) return row.why;
  return *adds ? kArrival : kLastWriter;
}

}  // namespace

bool on_accelerator(const core::OpRecord& record) {
  return std::ranges::any_of(record.tensors, [](const core::TensorRecord& tensor) {
    return !tensor.device.empty() && !tensor.device.starts_with("cpu");
  });
}

std::optional<std::string_view> known_nondeterminism(const core::OpRecord& record) {
  if (!record.op) return std::nullopt;
  for (const Row& row : kRows) {
    if (row.name != record.op->name) continue;
    if (row.on_cpu || on_accelerator(record)) return reason_of(row, record);
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
