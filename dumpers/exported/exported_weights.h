// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace repro_check::exported {

/// Tensors of a file of torch.export by name, on the CPU. Those that lay in one storage when they
/// were saved do so again.
/// @param payloads  a PayloadMeta by name
/// @param folder    of the archive: `weights` or `constants`
/// @throws core::Error{kUsage} where bytes are missing, or lie in a pickle
std::map<std::string, at::Tensor> read_tensors(const std::filesystem::path& file,
                                               const nlohmann::ordered_json& payloads,
                                               const std::string& folder);

}  // namespace repro_check::exported
