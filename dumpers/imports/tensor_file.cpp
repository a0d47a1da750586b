// SPDX-License-Identifier: Apache-2.0
#include "dumpers/imports/tensor_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>

#include "core/error.h"
#include "core/tensor/npy.h"
#include "core/text/strict_json.h"
#include "core/text/text.h"
#include "dumpers/model_file/model_file.h"
#include "dumpers/model_file/pickled_tensors.h"

namespace repro_check::imports {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using model_file::EntryReader;
using model_file::FileKind;

[[noreturn]] void refuse_file(const fs::path& file, const std::string& what) {
  throw core::usage_error(core::printable(file.string()) + ": " + what,
                          "copy it again from an undamaged file, or save it again");
}

core::Error unknown_dtype(const fs::path& file, const std::string& name, const std::string& dtype) {
  return core::usage_error(
      fmt::format("{}: {} is of {}, which a dump cannot hold",
                  core::printable(file.string()),
                  name.empty() ? "the tensor" : core::printable(name),
                  dtype.empty() ? "an unknown dtype" : "dtype " + core::printable(dtype)),
      "save it in another dtype, or leave it out");
}

/// Bytes of a tensor of that shape; empty where there are too many to be true.
std::optional<std::uint64_t> bytes_of(core::Dtype dtype, const std::vector<std::int64_t>& shape) {
  try {
    const auto count = static_cast<std::uint64_t>(core::element_count(shape));
    std::uint64_t bytes = 0;
    if (__builtin_mul_overflow(count, core::element_size(dtype), &bytes)) return std::nullopt;
    return bytes;
  } catch (const core::Error&) {
    return std::nullopt;
  }
}

// A .safetensors file: eight bytes, so long is the JSON behind them, then the bytes of all tensors.
// Source: https://huggingface.co/docs/safetensors, "Format".

constexpr std::uint64_t kLongestHeader = 100'000'000;  // as their own reader has it

core::Dtype safetensors_dtype(std::string_view name) {
  using core::Dtype;
  constexpr std::array<std::pair<std::string_view, Dtype>, 18> kNames{
      {{"BOOL", Dtype::kBool},
       {"U8", Dtype::kUInt8},
       {"I8", Dtype::kInt8},
       {"U16", Dtype::kUInt16},
       {"I16", Dtype::kInt16},
       {"U32", Dtype::kUInt32},
       {"I32", Dtype::kInt32},
       {"U64", Dtype::kUInt64},
       {"I64", Dtype::kInt64},
       {"F16", Dtype::kFloat16},
       {"BF16", Dtype::kBFloat16},
       {"F32", Dtype::kFloat32},
       {"F64", Dtype::kFloat64},
       {"F8_E4M3", Dtype::kFloat8E4M3FN},
       {"F8_E5M2", Dtype::kFloat8E5M2},
       {"F8_E8M0", Dtype::kFloat8E8M0FNU},
       {"C64", Dtype::kComplex64},
       {"C128", Dtype::kComplex128}}};
  const auto* row = std::ranges::find(kNames, name, &std::pair<std::string_view, Dtype>::first);
  return row == kNames.end() ? Dtype::kUnknown : row->second;
}

Json safetensors_header(std::ifstream& stream, const fs::path& file, std::uint64_t& begin) {
  const std::uint64_t size = fs::file_size(file);
  std::uint64_t length = 0;
  stream.read(reinterpret_cast<char*>(&length), sizeof(length));
  if (!stream || length > kLongestHeader || length > size - sizeof(length)) {
    refuse_file(file, "the length of its header cannot be right");
  }
  std::string text(length, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(length));
  begin = sizeof(length) + length;
  auto header = core::read_strict_json(text, [&](const core::JsonFlaw& flaw) {
    refuse_file(file, "its header is damaged: " + core::printable(flaw.what));
  });
  if (!header || !header->is_object()) refuse_file(file, "its header is no JSON object");
  return std::move(*header);
}

void visit_safetensors(const fs::path& file, const TensorVisit& visit) {
  std::ifstream stream(file, std::ios::binary);
  std::uint64_t begin = 0;
  const Json header = safetensors_header(stream, file, begin);
  const std::uint64_t size = fs::file_size(file) - begin;
  std::size_t place = 0;
  std::vector<std::byte> bytes;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const auto said = entry.at("dtype").get<std::string>();
    const core::Dtype dtype = safetensors_dtype(said);
    if (dtype == core::Dtype::kUnknown) throw unknown_dtype(file, name, said);
    const auto shape = entry.at("shape").get<std::vector<std::int64_t>>();
    const auto offsets = entry.at("data_offsets").get<std::array<std::uint64_t, 2>>();
    const auto wanted = bytes_of(dtype, shape);
    if (!wanted || offsets[1] < offsets[0] || offsets[1] > size ||
        offsets[1] - offsets[0] != *wanted) {
      refuse_file(file, fmt::format("{} does not fill its shape", core::printable(name)));
    }
    bytes.resize(*wanted);
    stream.seekg(static_cast<std::streamoff>(begin + offsets[0]));
    stream.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(*wanted));
    if (!stream) refuse_file(file, "it cannot be read to its end");
    visit({name, place++, {dtype, shape, bytes}});
  }
}

void visit_npz(const fs::path& file, const TensorVisit& visit) {
  std::size_t place = 0;
  model_file::visit_entries(file, [&](const std::string& entry, const EntryReader& read) {
    const fs::path origin = file / entry;
    if (!entry.ends_with(".npy")) refuse_file(file, core::printable(entry) + " in it is no .npy");
    std::string text = read(std::string().max_size());
    const std::size_t size = text.size();
    std::istringstream stream(std::move(text));
    const core::HostTensor tensor = core::read_npy(stream, size, origin);
    visit({entry.substr(0, entry.size() - 4), place++, tensor.view()});
  });
}

// A file of torch.save: `archive/data.pkl`, the pickle, and `archive/data/0`, a storage.

/// The elements of a tensor, in logical order.
std::vector<std::byte> elements_of(const model_file::PickledTensor& tensor,
                                   std::string_view storage,
                                   const fs::path& file) {
  const std::size_t element = core::element_size(tensor.dtype);
  const auto wanted = bytes_of(tensor.dtype, tensor.shape);
  const std::size_t axes = tensor.shape.size();
  if (!wanted || tensor.strides.size() != axes || tensor.offset < 0) {
    refuse_file(file, "a tensor in it has an impossible shape");
  }
  if (*wanted == 0) return {};
  // The element that lies farthest must be there; then all are.
  auto farthest = static_cast<std::uint64_t>(tensor.offset);
  for (std::size_t axis = 0; axis < axes; ++axis) {
    std::uint64_t reach = 0;
    if (tensor.strides[axis] < 0 ||
        __builtin_mul_overflow(static_cast<std::uint64_t>(tensor.shape[axis] - 1),
                               static_cast<std::uint64_t>(tensor.strides[axis]),
                               &reach) ||
        __builtin_add_overflow(farthest, reach, &farthest)) {
      refuse_file(file, "a tensor in it has impossible strides");
    }
  }
  if (farthest >= storage.size() / element) {
    refuse_file(file, "a storage in it is shorter than its tensor");
  }
  // A tensor that `expand` made has more elements than its storage.
  constexpr std::uint64_t kMostExpanded = std::uint64_t{1} << 34U;
  if (*wanted > kMostExpanded && *wanted > storage.size()) {
    refuse_file(file, "a tensor in it is larger than all that it holds");
  }
  std::vector<std::byte> bytes(*wanted);
  std::vector<std::int64_t> index(axes);
  // Along the last axis by rows, where its elements lie side by side.
  const bool has_rows = axes > 0 && tensor.strides[axes - 1] == 1;
  const std::size_t row = has_rows ? static_cast<std::size_t>(tensor.shape[axes - 1]) : 1;
  const std::size_t outer = has_rows ? axes - 1 : axes;
  auto from = static_cast<std::size_t>(tensor.offset);
  for (std::size_t to = 0; to < bytes.size(); to += row * element) {
    std::memcpy(bytes.data() + to, storage.data() + from * element, row * element);
    for (std::size_t axis = outer; axis-- > 0;) {
      from += static_cast<std::size_t>(tensor.strides[axis]);
      if (++index[axis] < tensor.shape[axis]) break;
      from -= static_cast<std::size_t>(tensor.strides[axis] * tensor.shape[axis]);
      index[axis] = 0;
    }
  }
  if (tensor.dtype == core::Dtype::kBool) {
    for (std::byte& value : bytes) value = std::byte{value != std::byte{0}};
  }
  return bytes;
}

std::vector<std::string> visit_saved(const fs::path& file, const TensorVisit& visit) {
  constexpr std::size_t kMostPickle = std::size_t{1} << 30U;
  constexpr std::string_view kStorages = "/data/";
  std::string pickle;
  model_file::visit_entries(file, [&](const std::string& name, const EntryReader& read) {
    if (name.ends_with("/data.pkl")) pickle = read(kMostPickle);
    constexpr std::size_t kWord = 16;
    if (name.ends_with("/byteorder") && read(kWord) != "little") {
      refuse_file(file, "its values are big-endian");
    }
  });
  auto saved = model_file::read_pickled_object(pickle, file.string());
  const auto& tensors = saved.tensors;
  std::multimap<std::string, std::size_t, std::less<>> by_storage;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].tensor.dtype == core::Dtype::kUnknown) {
      throw unknown_dtype(file, tensors[i].name, "");
    }
    by_storage.emplace(tensors[i].tensor.storage, i);
  }
  std::size_t visited = 0;
  model_file::visit_entries(file, [&](const std::string& name, const EntryReader& read) {
    const std::size_t at = name.rfind(kStorages);
    if (at == std::string::npos) return;
    const auto [first, last] = by_storage.equal_range(name.substr(at + kStorages.size()));
    if (first == last) return;
    const std::string storage = read(std::string().max_size());
    for (auto each = first; each != last; ++each, ++visited) {
      const auto& [key, tensor] = tensors[each->second];
      const std::vector<std::byte> bytes = elements_of(tensor, storage, file);
      visit({key, each->second, {tensor.dtype, tensor.shape, bytes}});
    }
  });
  if (visited != tensors.size()) refuse_file(file, "a storage of its tensors is missing in it");
  return std::move(saved.left_out);
}

}  // namespace

bool is_tensor_file(const fs::path& file) {
  constexpr std::array<std::string_view, 7> kEndings{
      ".safetensors", ".npz", ".npy", ".pt", ".pth", ".bin", ".ckpt"};
  return std::ranges::find(kEndings, file.extension().string()) != kEndings.end();
}

std::vector<std::string> visit_tensors(const fs::path& file, const TensorVisit& visit) {
  const FileKind kind = model_file::identify_file(file);
  try {
    switch (kind) {
      case FileKind::kSafetensors:
        visit_safetensors(file, visit);
        return {};
      case FileKind::kNumpy:
        visit({"", 0, core::read_npy(file).view()});
        return {};
      case FileKind::kSavedObject:
        return visit_saved(file, visit);
      case FileKind::kOtherZip:
        if (file.extension() != ".npz") break;
        visit_npz(file, visit);
        return {};
      default:
        break;
    }
  } catch (const Json::exception& error) {
    refuse_file(file, std::string("its header is damaged: ") + error.what());
  } catch (const fs::filesystem_error& error) {
    refuse_file(file, "cannot be read: " + error.code().message());
  }
  throw core::usage_error(
      fmt::format("{}: is {}, and not a file of tensors that can be imported",
                  core::printable(file.string()),
                  model_file::describe_kind(kind)),
      "save tensors with safetensors, numpy.save, numpy.savez or torch.save of PyTorch 1.6 or "
      "later");
}

}  // namespace repro_check::imports
