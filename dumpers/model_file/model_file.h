// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace repro_check::model_file {

/// What a file given as a model, or as a saved tensor, turns out to be.
enum class FileKind : std::uint8_t {
  kTorchScript,
  kSavedObject,      ///< torch.save, zip form: a tensor, a state_dict, a whole eager module
  kLegacyPickle,     ///< torch.save before 1.6, or a plain pickle
  kExportedProgram,  ///< torch.export.save, `.pt2`
  kTorchPackage,
  kExecuTorch,
  kOnnx,
  kSafetensors,
  kHdf5,
  kNumpy,
  kOtherZip,
  kTruncatedZip,
  kText,
  kEmpty,
  kUnknown,
};

/// Told from the first bytes and, in an archive, from the names of its entries.
/// @throws core::Error{kUsage} when the file is missing, a directory or unreadable
FileKind identify_file(const std::filesystem::path& file);

/// "an eager checkpoint (torch.save)", "an ONNX model", ...
std::string_view describe_kind(FileKind kind) noexcept;

/// @return kTorchScript or kExportedProgram
/// @throws core::Error{kUsage} for another file, saying what it is and how to mend it
FileKind require_model(const std::filesystem::path& file);

/// For a model that LibTorch could not make sense of: it reads parts of the file when it first
/// needs them, and checks none of them.
/// @throws core::Error{kUsage} where an entry of the archive is not what its checksum is of
void require_undamaged(const std::filesystem::path& file);

/// Reads so many bytes of an entry at most, from its begin; to be called once.
using EntryReader = std::function<std::string(std::size_t most)>;

/// Calls `visit` for every entry of a zip archive.
/// @throws core::Error{kUsage} where the archive, or an entry that is read, is damaged
void visit_entries(const std::filesystem::path& file,
                   const std::function<void(const std::string& name, const EntryReader&)>& visit);

/// Names of the entries of a zip archive, by its central directory.
/// @return empty when there is no whole central directory: no zip, or a truncated one
std::optional<std::vector<std::string>> zip_entry_names(const std::filesystem::path& file);

}  // namespace repro_check::model_file
