// SPDX-License-Identifier: Apache-2.0
// Lists how a trace is laid out and holds it against layout-<version>.txt. When it fails: raise
// kDumpFormatMajor or kDumpFormatMinor, describe the change in docs/DUMP_FORMAT.md, and add the
// listing of the new version; those of older versions stay as they are.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "core/tensor/dtype.h"
#include "core/trace/run_manifest.h"
#include "dumpers/store/file/hdf5.h"
#include "dumpers/store/file/trace_file.h"
#include "tests/dumpers/store/sample_dump.h"
#include "tests/support/temp_directory.h"

namespace repro_check::store {
namespace {

std::string order_of(hid_t type) { return H5Tget_order(type) == H5T_ORDER_LE ? "LE" : "BE"; }

std::string describe(hid_t type);

std::string describe_float(hid_t type) {
  std::size_t sign = 0;
  std::size_t exponent = 0;
  std::size_t exponent_size = 0;
  std::size_t mantissa = 0;
  std::size_t mantissa_size = 0;
  H5Tget_fields(type, &sign, &exponent, &exponent_size, &mantissa, &mantissa_size);
  return fmt::format("float{}{} sign {} exponent {}+{} mantissa {}+{} bias {}",
                     8 * H5Tget_size(type),
                     order_of(type),
                     sign,
                     exponent,
                     exponent_size,
                     mantissa,
                     mantissa_size,
                     H5Tget_ebias(type));
}

std::string describe_members(hid_t type) {
  std::string text = fmt::format("record of {} bytes", H5Tget_size(type));
  for (int i = 0; i < H5Tget_nmembers(type); ++i) {
    const auto at = static_cast<unsigned>(i);
    char* name = H5Tget_member_name(type, at);
    const TypeHandle member(H5Tget_member_type(type, at));
    text +=
        fmt::format("\n  {:3} {} {}", H5Tget_member_offset(type, at), name, describe(member.get()));
    H5free_memory(name);
  }
  return text;
}

std::string describe_enum(hid_t type) {
  std::string text = fmt::format("enum of {} bytes", H5Tget_size(type));
  for (int i = 0; i < H5Tget_nmembers(type); ++i) {
    const auto at = static_cast<unsigned>(i);
    char* name = H5Tget_member_name(type, at);
    signed char value = 0;
    H5Tget_member_value(type, at, &value);
    text += fmt::format(" {}={}", name, static_cast<int>(value));
    H5free_memory(name);
  }
  return text;
}

std::string describe(hid_t type) {
  switch (H5Tget_class(type)) {
    case H5T_INTEGER:
      return fmt::format("{}int{}{}",
                         H5Tget_sign(type) == H5T_SGN_NONE ? "u" : "",
                         8 * H5Tget_size(type),
                         H5Tget_size(type) == 1 ? "" : order_of(type));
    case H5T_FLOAT:
      return describe_float(type);
    case H5T_COMPOUND:
      return describe_members(type);
    case H5T_ENUM:
      return describe_enum(type);
    case H5T_STRING:
      return H5Tis_variable_str(type) > 0 ? "text of variable length"
                                          : fmt::format("text of {} bytes", H5Tget_size(type));
    default:
      return "another type";
  }
}

std::string describe_attributes(hid_t object) {
  std::string text;
  const auto note = [](hid_t at, const char* name, const H5A_info_t* /*info*/, void* into) {
    const AttributeHandle attribute(H5Aopen(at, name, H5P_DEFAULT));
    const TypeHandle type(H5Aget_type(attribute.get()));
    *static_cast<std::string*>(into) += fmt::format("\n  @{} {}", name, describe(type.get()));
    return herr_t{0};
  };
  H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_INC, nullptr, note, &text);
  return text;
}

using Listing = std::map<std::string, std::string>;  ///< by path

herr_t note_object(hid_t file, const char* name, const H5O_info_t* info, void* data) {
  auto* listing = static_cast<Listing*>(data);
  std::string path = name;
  const std::string first_op = "ops/000000 aten::add.Tensor";
  // Operators are alike: the first one speaks for all.
  if (path.starts_with("ops/") && !path.starts_with(first_op)) return 0;
  std::string type;
  const bool dataset = info->type == H5O_TYPE_DATASET;
  const hid_t object = H5Oopen(file, name, H5P_DEFAULT);
  if (dataset) {
    const TypeHandle stored(H5Dget_type(object));
    const PropertyHandle list(H5Dget_create_plist(object));
    type = describe(stored.get());
    if (H5Pget_layout(list.get()) != H5D_CONTIGUOUS) type += ", not contiguous";
  } else {
    type = "group";
  }
  if (path.starts_with("content/")) {  // names without the digest; one a dtype
    path = "content/<digest>" + path.substr(path.find('-'));
    if (!path.ends_with("-scalar")) path.clear();
  }
  if (!path.empty()) (*listing)[path] = type + describe_attributes(object);
  H5Oclose(object);
  return 0;
}

/// Names of the manifest's fields, in order, without their values.
std::string manifest_fields(const std::string& text) {
  std::string fields;
  std::size_t at = 0;
  while ((at = text.find("\": ", at)) != std::string::npos) {
    const std::size_t begin = text.rfind('"', at - 1) + 1;
    const std::size_t line = text.rfind('\n', at) + 1;
    fields += std::string(begin - 1 - line, ' ') + text.substr(begin, at - begin) + "\n";
    ++at;
  }
  return fields;
}

void note_objects(const std::filesystem::path& dump, Listing& listing) {
  const Hdf5Scope scope;
  const FileHandle file(H5Fopen((dump / "trace.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  H5Ovisit2(file.get(), H5_INDEX_NAME, H5_ITER_INC, &note_object, &listing, H5O_INFO_BASIC);
}

std::string list_layout() {
  const test_support::TempDirectory directory;
  const auto dump = directory / "dump";
  test_support::Sample sample = test_support::make_sample(1, 20);
  sample.manifest.settings = {{"a", "b", "c"}};
  sample.manifest.environment = {{"a", "b"}};
  Listing listing;
  // With a tree and without one: what only one of them has is listed as well.
  for (const auto browse :
       {DumpWriterOptions::Browse::kAlways, DumpWriterOptions::Browse::kNever}) {
    test_support::write_dump(dump, sample, {.replace_existing = true, .browse = browse});
    note_objects(dump, listing);
  }
  const DumpWriterOptions slicing{.slice = core::SliceRule{2, 1, std::nullopt}};
  test_support::write_dump(directory / "sliced", sample, slicing);
  note_objects(directory / "sliced", listing);
  // Its manifest has the fields that only some dumps have.
  core::OpRecord returned;
  returned.index = sample.ops.size();
  returned.op = std::make_shared<const core::OperatorInfo>(
      core::OperatorInfo{std::string(core::kReturnedOperator), "", false});
  sample.ops.push_back(std::move(returned));
  ++sample.manifest.trace.operators;
  sample.manifest.trace.returned = 1;
  const auto referring = directory / "referring";
  test_support::write_dump(
      referring, sample, {.slice = slicing.slice, .reference = directory / "sliced"});
  std::string objects;
  for (const auto& [path, text] : listing) objects += fmt::format("/{} {}\n", path, text);
  return fmt::format("trace.h5\n{}\nmanifest.json\n{}",
                     objects,
                     manifest_fields(test_support::read_bytes(referring / "manifest.json")));
}

TEST_CASE("the layout of a dump changes only together with its version") {
  const auto golden = std::filesystem::path(REPRO_CHECK_LAYOUT_DIRECTORY) /
                      fmt::format("layout-{}.txt", format_version());
  const std::string layout = list_layout();
  REQUIRE_MESSAGE(std::filesystem::exists(golden),
                  "no listing for this format version; it would be:\n",
                  layout);
  CHECK(layout == test_support::read_bytes(golden));
}

}  // namespace
}  // namespace repro_check::store
