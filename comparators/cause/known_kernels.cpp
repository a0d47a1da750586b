// SPDX-License-Identifier: Apache-2.0
#include "comparators/cause/known_kernels.h"

#include <algorithm>
#include <array>

#include "comparators/report/report.h"
#include "core/tensor/dtype.h"
#include "core/tensor/tensor_record.h"
#include "core/text/text.h"
#include "core/trace/program_records.h"

namespace repro_check::comparators {
namespace {

// Keys of phrases.
constexpr std::string_view kArrival = "kernel-arrival";
constexpr std::string_view kLastWriter = "kernel-last-writer";
constexpr std::string_view kPut = "kernel-put";
constexpr std::string_view kBlocks = "kernel-blocks";
constexpr std::string_view kAlgorithm = "kernel-algorithm";
constexpr std::string_view kRecurrent = "kernel-recurrent";
constexpr std::string_view kEqualValues = "kernel-equal-values";

struct Reason {
  bool on_cpu;
  std::string_view why;
  std::string_view operators;  ///< of aten
};

constexpr auto kReasons = std::to_array<Reason>({
    {true, kPut, "_index_put_impl_ _unsafe_index_put index_put index_put_ put put_"},
    {true, kLastWriter, "index_copy index_copy_"},
    {true, kArrival, "index_backward take_backward"},
    {false,
     kArrival,
     "index_add index_add_ index_reduce index_reduce_ scatter_add scatter_add_ "
     "scatter_reduce scatter_reduce_ bincount histc cumsum embedding_bag "
     "embedding_dense_backward _embedding_bag_dense_backward grid_sampler_2d_backward "
     "grid_sampler_3d_backward upsample_bilinear2d_backward upsample_bicubic2d_backward "
     "upsample_nearest2d_backward nll_loss2d_forward _ctc_loss_backward "
     "_scaled_dot_product_flash_attention_backward "
     "_scaled_dot_product_efficient_attention_backward "
     "_scaled_dot_product_cudnn_attention_backward _flash_attention_backward "
     "_efficient_attention_backward"},
    {false, kLastWriter, "scatter scatter_ max_unpool2d max_unpool3d"},
    {false, kEqualValues, "median kthvalue"},
    {false,
     kRecurrent,
     "lstm gru rnn_tanh rnn_relu _cudnn_rnn _cudnn_rnn_backward miopen_rnn "
     "miopen_rnn_backward"},
    {false,
     kAlgorithm,
     "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution "
     "_convolution convolution_backward cudnn_convolution cudnn_convolution_transpose "
     "cudnn_convolution_relu cudnn_convolution_add_relu miopen_convolution "
     "miopen_convolution_transpose miopen_depthwise_convolution"},
    {false,
     kBlocks,
     "sum nansum mean prod norm linalg_vector_norm std std_mean var var_mean logsumexp"},
});

constexpr std::string_view kTieBreakers =
    "topk sort argsort argmax argmin max min median nanmedian mode kthvalue";

/// Elementwise functions that ATen hands to MKL's vector mathematics. trunc is left out: it is
/// exact in every kernel, which sqrt is not in those of lower accuracy.
constexpr std::string_view kVectorFunctions =
    "acos asin atan cos erf erfc erfinv exp expm1 lgamma log log10 log1p log2 sin sqrt tan tanh";
/// ATen splits these functions among threads beyond so many elements (UnaryOpsKernel.cpp,
/// IMPLEMENT_VML_KERNEL), not at::internal::GRAIN_SIZE as other elementwise work.
constexpr std::int64_t kGrain = 2'048;

/// `conv2d` of aten::conv2d; empty for operators of others.
std::string_view aten_name(const core::OperatorInfo& op) noexcept {
  constexpr std::string_view kPrefix = "aten::";
  const std::string_view name = op.name;
  return name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : std::string_view();
}

std::string_view reason_of(const Reason& reason, const core::OpRecord& record) {
  const auto* adds = core::argument_as<bool>(record, "accumulate");
  if (reason.why != kPut || adds == nullptr) return reason.why;
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
  const std::string_view name = aten_name(*record.op);
  for (const Reason& reason : kReasons) {
    if (!is_word_of(reason.operators, name)) continue;
    if (reason.on_cpu || on_accelerator(record)) return reason_of(reason, record);
  }
  return std::nullopt;
}

std::optional<std::string_view> differs_between_processes(const core::OpRecord& record,
                                                          std::uint64_t threads) {
  if (!record.op || threads < 2) return std::nullopt;
  std::string_view name = aten_name(*record.op);
  if (name.ends_with('_')) name.remove_suffix(1);
  if (!is_word_of(kVectorFunctions, name)) return std::nullopt;
  const bool large = std::ranges::any_of(record.tensors, [](const core::TensorRecord& tensor) {
    const bool real =
        tensor.dtype == core::Dtype::kFloat32 || tensor.dtype == core::Dtype::kFloat64;
    return real && core::is_output(tensor) && core::element_count(tensor.shape) > kGrain;
  });
  if (!large || on_accelerator(record)) return std::nullopt;
  return "kernel-mkl-first-call";
}

bool breaks_ties(const core::OperatorInfo& op) noexcept {
  return is_word_of(kTieBreakers, aten_name(op));
}

}  // namespace repro_check::comparators
