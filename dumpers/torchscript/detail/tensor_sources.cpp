// SPDX-License-Identifier: Apache-2.0
#include "dumpers/torchscript/detail/tensor_sources.h"

#include <torch/csrc/jit/serialization/pickle.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <variant>
#include <vector>

#include "core/error.h"
#include "core/tensor/npy.h"
#include "dumpers/torchscript/detail/exception_text.h"
#include "dumpers/torchscript/detail/generated_tensor.h"
#include "dumpers/torchscript/detail/torch_types.h"
#include "dumpers/torchscript/detail/usage_error.h"
#include "dumpers/torchscript/model_file.h"

namespace repro_check::torchscript {
namespace {

const std::string kSaveHint =
    "save the tensor alone, in Python: torch.save(tensor.detach().cpu(), path); or as .npy";

/// What a reader of ours complains about, with the place in the configuration in front.
template <typename Read>
auto at_pointer(const std::string& pointer, Read&& read) {
  try {
    return read();
  } catch (const core::Error& error) {
    throw core::Error(error.kind(), pointer + ": " + error.what(), error.hint());
  }
}

std::vector<char> read_all(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
  if (in.bad()) throw usage_error(file.string() + ": cannot be read", "check its permissions");
  return bytes;
}

at::Tensor read_saved(const std::filesystem::path& file) {
  const FileKind kind = identify_file(file);
  if (kind != FileKind::kSavedObject) {
    throw usage_error(file.string() + ": not a tensor written by torch.save but " +
                          std::string(describe_kind(kind)),
                      kSaveHint);
  }
  c10::IValue value;
  try {
    value = torch::jit::pickle_load(read_all(file));
  } catch (const std::exception& error) {
    throw usage_error(file.string() + ": holds something else than one plain tensor (" +
                          first_useful_line(error) + ")",
                      kSaveHint);
  }
  if (!value.isTensor()) {
    throw usage_error(file.string() + ": holds a " + value.type()->str() + ", not a tensor",
                      kSaveHint);
  }
  const at::Tensor tensor = value.toTensor();
  if (tensor.layout() != c10::kStrided || !tensor.device().is_cpu()) {
    throw usage_error(file.string() + ": holds a tensor that is not a dense one on the CPU",
                      kSaveHint);
  }
  // A copy of its own, in the same strides: they can decide which kernel runs.
  return tensor.detach().clone();
}

}  // namespace

std::optional<at::Tensor> read_tensor(const configs::InputSpec& input, const Hdf5Reader& hdf5) {
  const std::string& pointer = input.pointer;
  if (const auto* generated = std::get_if<configs::GeneratedInput>(&input.source)) {
    return generate_tensor(*generated, pointer);
  }
  if (const auto* npy = std::get_if<configs::NpyInput>(&input.source)) {
    return at_pointer(pointer,
                      [&] { return to_tensor(core::read_npy(npy->path), npy->path.string()); });
  }
  if (const auto* saved = std::get_if<configs::TorchInput>(&input.source)) {
    return at_pointer(pointer, [&] { return read_saved(saved->path); });
  }
  if (const auto* stored = std::get_if<configs::Hdf5Input>(&input.source)) {
    return at_pointer(pointer, [&] {
      if (!hdf5) throw usage_error("HDF5 files cannot be read here", "give the tensor as .npy");
      return to_tensor(hdf5(stored->path, stored->dataset), stored->path.string());
    });
  }
  return std::nullopt;
}

}  // namespace repro_check::torchscript
