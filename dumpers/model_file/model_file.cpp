// SPDX-License-Identifier: Apache-2.0
#include "dumpers/model_file/model_file.h"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <functional>
#include <ios>
#include <memory>
#include <utility>

#include "core/error.h"
#include "core/text/text.h"

namespace repro_check::model_file {
namespace {

/// In the order of FileKind.
constexpr std::string_view kKinds =
    "a TorchScript module|an eager checkpoint (torch.save)|"
    "a pickle (an eager checkpoint of an old torch.save)|"
    "an ExportedProgram (torch.export.save, .pt2)|a torch.package archive|an ExecuTorch program|"
    "an ONNX model|a safetensors file (weights only)|an HDF5 file|a NumPy array (.npy)|"
    "a zip archive of another kind|a truncated archive|a text file|an empty file|"
    "a file of unknown format";
constexpr std::size_t kHeadSize = 512;

std::string read_head(const std::filesystem::path& file) {
  std::error_code failure;
  const auto status = std::filesystem::status(file, failure);
  if (!std::filesystem::exists(status)) {
    throw core::usage_error(
        file.string() + ": no such file",
        "check the path; in a configuration it is relative to the folder of the "
        "configuration file");
  }
  if (std::filesystem::is_directory(status)) {
    throw core::usage_error(file.string() + ": is a directory", "name the model file inside it");
  }
  // A pipe or a device would block or never end.
  if (!std::filesystem::is_regular_file(status)) {
    throw core::usage_error(file.string() + ": is not a regular file", "copy it to a file first");
  }
  std::ifstream in(file, std::ios::binary);
  if (!in) throw core::usage_error(file.string() + ": cannot be read", "check its permissions");
  std::string head(kHeadSize, '\0');
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(in.gcount()));
  return head;
}

/// Calls `visit` for every entry of a zip archive, until it returns false.
/// @return whether the last one was reached
bool visit_zip(const std::filesystem::path& file,
               const std::function<bool(archive*, const std::string&)>& visit) {
  constexpr std::size_t kBlock = std::size_t{16} << 10U;
  const std::unique_ptr<archive, int (*)(archive*)> zip(archive_read_new(), &archive_read_free);
  archive_read_support_format_zip_seekable(zip.get());
  if (archive_read_open_filename(zip.get(), file.c_str(), kBlock) != ARCHIVE_OK) return false;
  for (;;) {
    archive_entry* entry = nullptr;
    const int code = archive_read_next_header(zip.get(), &entry);
    if (code == ARCHIVE_EOF) return true;
    if (code != ARCHIVE_OK && code != ARCHIVE_WARN) return false;
    const char* name = archive_entry_pathname(entry);
    if (!visit(zip.get(), name == nullptr ? "" : name)) return false;
  }
}

/// Whether the bytes of the entry that was reached last are stored or deflated, as PyTorch and zip
/// write them. Other ways of packing need codecs that a program with its libraries inside lacks.
bool is_readable(archive* zip) {
  const char* name = archive_format_name(zip);
  const std::string_view format(name == nullptr ? "" : name);
  return format.ends_with("(uncompressed)") || format.ends_with("(deflation)");
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

FileKind identify_zip(const std::filesystem::path& file, std::string_view head) {
  // libarchive refuses what is nothing but the record that ends an archive.
  constexpr std::size_t kEndRecord = 22;
  if (head.starts_with("PK\x05\x06") && head.size() >= kEndRecord) return FileKind::kOtherZip;
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
  std::string make = "make a model file in Python: torch.jit.script(model).save(\"" + name +
                     "\"), or torch.export.save(torch.export.export(model, example_inputs), \"" +
                     name + "2\")";
  switch (kind) {
    case FileKind::kSavedObject:
    case FileKind::kLegacyPickle:
      return "a checkpoint holds weights or a Python object, not the code of the model: load it "
             "into the model, then " +
             make;
    case FileKind::kTruncatedZip:
      return "the file was not copied or written to its end; copy or save it again";
    case FileKind::kEmpty:
      return "the file has no bytes; save the model again";
    default:
      return make;
  }
}

/// The first entry whose bytes are not those that its checksum is of; empty where there is none.
std::string damaged_entry(const std::filesystem::path& file) {
  std::string damaged;
  visit_zip(file, [&](archive* zip, const std::string& name) {
    if (!is_readable(zip)) {
      damaged = name;
      return false;
    }
    const void* block = nullptr;
    std::size_t size = 0;
    std::int64_t offset = 0;
    int code = ARCHIVE_OK;
    while (code == ARCHIVE_OK) code = archive_read_data_block(zip, &block, &size, &offset);
    if (code != ARCHIVE_EOF) damaged = name;
    return damaged.empty();
  });
  return damaged;
}

}  // namespace

FileKind identify_file(const std::filesystem::path& file) {
  const std::string head = read_head(file);
  const std::string_view view(head);
  if (view.empty()) return FileKind::kEmpty;
  if (view.starts_with("PK")) return identify_zip(file, view);
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
  return core::word_at(kKinds, static_cast<std::size_t>(kind));
}

FileKind require_model(const std::filesystem::path& file) {
  const FileKind kind = identify_file(file);
  if (kind == FileKind::kTorchScript || kind == FileKind::kExportedProgram) return kind;
  throw core::usage_error(file.string() +
                              ": neither TorchScript nor of torch.export nor ONNX but " +
                              std::string(describe_kind(kind)),
                          advice(kind, file.stem().string() + ".pt"));
}

void require_undamaged(const std::filesystem::path& file) {
  const std::string damaged = damaged_entry(file);
  if (damaged.empty()) return;
  throw core::usage_error(
      file.string() + ": the file is damaged: " + damaged + " in it does not match its checksum",
      "copy it again from an undamaged file, or export the model again");
}

void visit_entries(const std::filesystem::path& file,
                   const std::function<void(const std::string&, const EntryReader&)>& visit) {
  const auto refuse = [&](const std::string& what) {
    return core::usage_error(file.string() + ": the file is damaged: " + what,
                             "copy it again from an undamaged file, or export the model again");
  };
  const bool is_whole = visit_zip(file, [&](archive* zip, const std::string& name) {
    visit(name, [&](std::size_t most) {
      if (!is_readable(zip))
        throw refuse(name + " in it is packed in a way that no PyTorch writes");
      std::string bytes;
      for (;;) {
        constexpr std::size_t kPiece = std::size_t{64} << 10U;
        const std::size_t begin = bytes.size();
        bytes.resize(std::min(most, begin + kPiece));
        const auto got = archive_read_data(zip, bytes.data() + begin, bytes.size() - begin);
        if (got < 0) throw refuse(name + " in it cannot be read");
        bytes.resize(begin + static_cast<std::size_t>(got));
        if (got == 0 || bytes.size() == most) return bytes;
      }
    });
    return true;
  });
  if (!is_whole) throw refuse("it is no whole archive");
}

std::optional<std::vector<std::string>> zip_entry_names(const std::filesystem::path& file) {
  std::vector<std::string> names;
  const bool is_whole = visit_zip(file, [&](archive*, const std::string& name) {
    names.push_back(name);
    return true;
  });
  return is_whole ? std::optional(std::move(names)) : std::nullopt;
}

}  // namespace repro_check::model_file
