// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/tensor/dtype.h"
#include "core/trace/op_record.h"
#include "dumpers/model_file/pickled_tensors.h"

namespace repro_check::model_file {

/// What a file of `torch.export.save` says of itself. Its schema is PyTorch's
/// `torch/_export/serde/schema.py`; keys are its members.
struct ExportedFile {
  using Document = std::shared_ptr<const nlohmann::ordered_json>;

  Document model;      ///< an ExportedProgram
  Document weights;    ///< by name, a PayloadMeta each: parameters and buffers
  Document constants;  ///< as above: constants, and buffers of no state_dict
};

/// @throws core::Error{kUsage} where a part is missing, is no JSON or of a version of the schema
///         that is not known
ExportedFile read_exported_file(const std::filesystem::path& file);

/// The only member of an object that stands for one of several kinds: `{"as_int": 3}`.
struct ExportedItem {
  const std::string& kind;
  const nlohmann::ordered_json& value;
};
/// @throws core::Error{kUsage} where there is none
ExportedItem item_of(const nlohmann::ordered_json& object);

/// What the JSON library threw where the file is not as the schema has it, as an error of the file.
core::Error not_as_exported(const std::filesystem::path& file, const std::exception& error);

/// As the schema numbers them; kUnknown for another number.
core::Dtype exported_dtype(std::int64_t number) noexcept;

/// Where the bytes of a tensor lie: `storage` is the last part of the name of its entry. Empty
/// where they are in a pickle.
/// @param payload  a PayloadMeta
std::optional<PickledTensor> tensor_of(const nlohmann::ordered_json& payload);

/// `weights/weight_0` of `m/data/weights/weight_0`; empty where no folder is called so.
std::string entry_below(const std::string& name, const std::string& folder);

/// The frames of a Python stack as `traceback` prints it, innermost first.
std::vector<core::SourceFrame> frames_of_stack(const std::string& stack);

}  // namespace repro_check::model_file
