// SPDX-License-Identifier: Apache-2.0
#include "dumpers/torchscript/model_file.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <fstream>
#include <ios>
#include <span>

#include "core/error.h"
#include "dumpers/torchscript/failures.h"

namespace repro_check::torchscript {
namespace {

/// In the order of FileKind.
constexpr std::array<std::string_view, 15> kKinds{
    "a TorchScript module",
    "an eager checkpoint (torch.save)",
    "a pickle (an eager checkpoint of an old torch.save)",
    "an ExportedProgram (torch.export.save, .pt2)",
    "a torch.package archive",
    "an ExecuTorch program",
    "an ONNX model",
    "a safetensors file (weights only)",
    "an HDF5 file",
    "a NumPy array (.npy)",
    "a zip archive of another kind",
    "a truncated archive",
    "a text file",
    "an empty file",
    "a file of unknown format"};
constexpr std::size_t kHeadSize = 512;

std::string read_head(const std::filesystem::path& file) {
  std::error_code failure;
  const auto status = std::filesystem::status(file, failure);
  if (!std::filesystem::exists(status)) {
    throw usage_error(file.string() + ": no such file",
                      "check the path; in a configuration it begins in the folder of that file");
  }
  if (std::filesystem::is_directory(status)) {
    throw usage_error(file.string() + ": is a directory", "name the model file inside it");
  }
  // A pipe or a device would block or never end.
  if (!std::filesystem::is_regular_file(status)) {
    throw usage_error(file.string() + ": is not a regular file", "copy it to a file first");
  }
  std::ifstream in(file, std::ios::binary);
  if (!in) throw usage_error(file.string() + ": cannot be read", "check its permissions");
  std::string head(kHeadSize, '\0');
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(in.gcount()));
  return head;
}

/// Archives made by LibTorch keep everything below one folder, named after the file.
bool has_entry(const std::vector<std::string>& names, std::string_view wanted) {
  return std::ranges::any_of(names, [&](const std::string& name) {
    return name == wanted || (name.size() > wanted.size() && name.ends_with(wanted) &&
                              name[name.size() - wanted.size() - 1] == '/');
  });
}

bool has_folder(const std::vector<std::string>& names, const std::string& folder) {
  return std::ranges::any_of(names, [&](const std::string& name) {
    return name.starts_with(folder + "/") || name.find("/" + folder + "/") != std::string::npos;
  });
}

FileKind identify_zip(const std::filesystem::path& file) {
  const auto names = zip_entry_names(file);
  if (!names) return FileKind::kTruncatedZip;
  if (has_entry(*names, "serialized_exported_program.json") ||
      has_entry(*names, "archive_format") ||
      (has_folder(*names, "models") && !has_entry(*names, "constants.pkl"))) {
    return FileKind::kExportedProgram;
  }
  if (has_entry(*names, ".data/extern_modules")) return FileKind::kTorchPackage;
  if (has_entry(*names, "constants.pkl") || has_folder(*names, "code")) {
    return FileKind::kTorchScript;
  }
  return has_entry(*names, "data.pkl") ? FileKind::kSavedObject : FileKind::kOtherZip;
}

bool looks_like_safetensors(std::string_view head) {
  if (head.size() < 10 || head[8] != '{') return false;
  // The length of the JSON header stands first, little-endian; its upper half is always zero.
  return head.substr(4, 4) == std::string_view("\0\0\0\0", 4);
}

/// An ONNX file is a protobuf message whose first fields are ir_version (a small number) and a
/// string: producer_name, or for models by hand the domain or the opset.
bool looks_like_onnx(std::string_view head, const std::filesystem::path& file) {
  if (head.size() < 4 || head[0] != '\x08') return false;
  const bool small_version = head[1] > 0 && head[1] < 32;
  return small_version && (head[2] == '\x12' || file.extension() == ".onnx");
}

bool is_text(std::string_view head) {
  return std::ranges::all_of(head, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte == '\n' || byte == '\r' || byte == '\t' || (byte >= 0x20 && byte < 0x7F);
  });
}

std::string advice(FileKind kind, const std::string& name) {
  std::string make = "make a TorchScript file in Python: torch.jit.script(model).save(\"" + name +
                     "\"), or torch.jit.trace(model, example_inputs).save(...)";
  switch (kind) {
    case FileKind::kSavedObject:
    case FileKind::kLegacyPickle:
      return "a checkpoint holds weights or a Python object, not the code of the model: load it "
             "into the model, then " +
             make;
    case FileKind::kExportedProgram:
      return "from the same program: torch.jit.trace(torch.export.load(path).module(), "
             "example_inputs).save(...); or from the model itself, " +
             make;
    case FileKind::kTruncatedZip:
      return "the file was not copied or written to its end; copy or save it again";
    case FileKind::kEmpty:
      return "the file has no bytes; save the model again";
    default:
      return make;
  }
}

}  // namespace

FileKind identify_file(const std::filesystem::path& file) {
  const std::string head = read_head(file);
  const std::string_view view(head);
  if (view.empty()) return FileKind::kEmpty;
  if (view.starts_with("PK")) return identify_zip(file);
  if (view.starts_with("\x89HDF\r\n\x1a\n")) return FileKind::kHdf5;
  if (view.starts_with("\x93NUMPY")) return FileKind::kNumpy;
  if (view.size() >= 8 && view.substr(4, 2) == "ET") return FileKind::kExecuTorch;
  if (view.size() >= 2 && view[0] == '\x80' && view[1] >= 2 && view[1] <= 5) {
    return FileKind::kLegacyPickle;
  }
  if (looks_like_safetensors(view)) return FileKind::kSafetensors;
  if (looks_like_onnx(view, file)) return FileKind::kOnnx;
  return is_text(view) ? FileKind::kText : FileKind::kUnknown;
}

std::string_view describe_kind(FileKind kind) noexcept {
  return kKinds[static_cast<std::size_t>(kind)];
}

void require_torchscript(const std::filesystem::path& file) {
  const FileKind kind = identify_file(file);
  if (kind == FileKind::kTorchScript) return;
  throw usage_error(file.string() + ": not TorchScript but " + std::string(describe_kind(kind)),
                    advice(kind, file.stem().string() + ".pt"));
}

core::Digest digest_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::vector<std::byte> chunk(core::kDigestChunk);
  std::vector<core::Digest> leaves;
  while (in) {
    in.read(reinterpret_cast<char*>(chunk.data()), static_cast<std::streamsize>(chunk.size()));
    const auto got = static_cast<std::size_t>(in.gcount());
    if (got > 0) leaves.push_back(core::digest_leaf(std::span(chunk).first(got)));
  }
  if (!in.eof()) throw usage_error(file.string() + ": cannot be read", "check its permissions");
  if (leaves.empty()) leaves.push_back(core::digest_leaf({}));
  return core::digest_of_leaves(leaves);
}

namespace {

// Record layouts are those of the .ZIP File Format Specification (APPNOTE.TXT 6.3, PKWARE).
constexpr std::string_view kEndMark("PK\x05\x06", 4);
constexpr std::string_view kEnd64Mark("PK\x06\x06", 4);
constexpr std::string_view kLocatorMark("PK\x06\x07", 4);
constexpr std::string_view kEntryMark("PK\x01\x02", 4);
constexpr std::size_t kEndSize = 22;
constexpr std::size_t kEnd64Size = 56;
constexpr std::size_t kLocatorSize = 20;
constexpr std::size_t kEntrySize = 46;
constexpr std::size_t kMaxComment = 0xFFFF;
// A model has thousands of entries, not millions: beyond this it is an attack or no model.
constexpr std::uint64_t kMaxDirectory = std::uint64_t{256} << 20U;

struct DirectoryPlace {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

std::uint64_t little_endian(std::string_view bytes, std::size_t at, std::size_t width) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < width; ++i) {
    value |= std::uint64_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  }
  return value;
}

std::optional<std::string> read_range(std::ifstream& in, std::uint64_t offset, std::uint64_t size) {
  std::string bytes(static_cast<std::size_t>(size), '\0');
  in.clear();
  in.seekg(static_cast<std::streamoff>(offset));
  in.read(bytes.data(), static_cast<std::streamsize>(size));
  if (!in) return std::nullopt;
  return bytes;
}

/// Archives beyond 4 GiB keep the true numbers in a second record, found through a locator that
/// stands right before the first.
std::optional<DirectoryPlace> read_end64(std::ifstream& in,
                                         std::uint64_t end_offset,
                                         std::uint64_t file_size) {
  if (end_offset < kLocatorSize) return std::nullopt;
  const auto locator = read_range(in, end_offset - kLocatorSize, kLocatorSize);
  if (!locator || !locator->starts_with(kLocatorMark)) return std::nullopt;
  const std::uint64_t at = little_endian(*locator, 8, 8);
  if (file_size < kEnd64Size || at > file_size - kEnd64Size) return std::nullopt;
  const auto end64 = read_range(in, at, kEnd64Size);
  if (!end64 || !end64->starts_with(kEnd64Mark)) return std::nullopt;
  return DirectoryPlace{little_endian(*end64, 48, 8), little_endian(*end64, 40, 8)};
}

std::optional<DirectoryPlace> find_directory(std::ifstream& in, std::uint64_t file_size) {
  const std::uint64_t tail = std::min<std::uint64_t>(file_size, kEndSize + kMaxComment);
  const auto bytes = read_range(in, file_size - tail, tail);
  if (!bytes) return std::nullopt;
  const std::size_t at = bytes->rfind(kEndMark);
  if (at == std::string::npos || bytes->size() - at < kEndSize) return std::nullopt;
  const DirectoryPlace place{little_endian(*bytes, at + 16, 4), little_endian(*bytes, at + 12, 4)};
  if (place.offset == 0xFFFFFFFFU || place.size == 0xFFFFFFFFU) {
    return read_end64(in, file_size - tail + at, file_size);
  }
  return place;
}

std::vector<std::string> names_in(std::string_view directory) {
  std::vector<std::string> names;
  while (directory.size() >= kEntrySize && directory.starts_with(kEntryMark)) {
    const std::uint64_t name = little_endian(directory, 28, 2);
    const std::uint64_t extra = little_endian(directory, 30, 2);
    const std::uint64_t comment = little_endian(directory, 32, 2);
    const std::uint64_t whole = kEntrySize + name + extra + comment;
    if (whole > directory.size()) break;
    names.emplace_back(directory.substr(kEntrySize, static_cast<std::size_t>(name)));
    directory.remove_prefix(static_cast<std::size_t>(whole));
  }
  return names;
}

}  // namespace

std::optional<std::vector<std::string>> zip_entry_names(const std::filesystem::path& file) {
  std::error_code failure;
  const std::uint64_t size = std::filesystem::file_size(file, failure);
  if (failure || size < kEndSize) return std::nullopt;
  std::ifstream in(file, std::ios::binary);
  const auto place = in ? find_directory(in, size) : std::nullopt;
  if (!place || place->size > kMaxDirectory) return std::nullopt;
  if (place->size > size || place->offset > size - place->size) return std::nullopt;
  const auto directory = read_range(in, place->offset, place->size);
  if (!directory) return std::nullopt;
  return names_in(*directory);
}

}  // namespace repro_check::torchscript
