// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/file/hdf5.h"

#include <fmt/format.h>

#include <type_traits>

#include "core/tensor/tensor_record.h"
#include "core/text/text.h"

namespace repro_check::store {

namespace {

std::recursive_mutex& library_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

/// The library's own clean-up at exit would try again, and complain, when a file could not be
/// closed because the disk is full.
void prepare_library() {
  static const herr_t once = H5dont_atexit();
  (void)once;
}

herr_t keep_innermost(unsigned /*n*/, const H5E_error2_t* error, void* into) {
  if (error->desc != nullptr && *error->desc != '\0') {
    *static_cast<std::string*>(into) = error->desc;
  }
  return 0;
}

/// Descriptions can quote names and numbers out of a damaged file, over several lines.
std::string innermost_reason() {
  constexpr std::size_t kLongest = 200;
  std::string reason;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, &keep_innermost, &reason);
  return core::printable(reason, kLongest);
}

}  // namespace

Hdf5Scope::Hdf5Scope() : lock_(library_mutex()) {
  prepare_library();
  H5Eget_auto2(H5E_DEFAULT, &print_, &data_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

Hdf5Scope::~Hdf5Scope() { H5Eset_auto2(H5E_DEFAULT, print_, data_); }

void close_quietly(herr_t (*close)(hid_t), hid_t id) noexcept {
  const Hdf5Scope scope;
  close(id);
}

Blame Blame::inside(std::string_view inner) const {
  return {kind_, fmt::format("{}: {}", where_, core::printable(inner)), hint_};
}

void Blame::fail(std::string_view what) const {
  throw core::Error(kind_, fmt::format("{}: {}", where_, what), hint_);
}

void Blame::library_failed(std::string_view doing) const {
  const std::string reason = innermost_reason();
  fail(reason.empty() ? std::string(doing) : fmt::format("{} ({})", doing, reason));
}

namespace {

using core::Dtype;

/// Made as h5py makes its own float16, so that the two are equal.
TypeHandle make_float(Dtype dtype, const Blame& blame) {
  const core::FloatLayout& layout = core::row_of(dtype).layout;
  const std::size_t exponent = layout.mantissa_bits;
  const std::size_t sign = exponent + layout.exponent_bits;
  TypeHandle type(blame.id(H5Tcopy(H5T_IEEE_F32LE), "cannot make a float type"));
  const hid_t id = type.get();
  blame.ok(H5Tset_fields(id, sign, exponent, layout.exponent_bits, 0, layout.mantissa_bits),
           "cannot make a float type");
  blame.ok(H5Tset_size(id, core::element_size(dtype)), "cannot make a float type");
  blame.ok(H5Tset_ebias(id, static_cast<std::size_t>(layout.bias())), "cannot make a float type");
  return type;
}

TypeHandle make_bool(const Blame& blame) {
  TypeHandle type(blame.id(H5Tenum_create(H5T_STD_I8LE), "cannot make the bool type"));
  const signed char no = 0;
  const signed char yes = 1;
  blame.ok(H5Tenum_insert(type.get(), "FALSE", &no), "cannot make the bool type");
  blame.ok(H5Tenum_insert(type.get(), "TRUE", &yes), "cannot make the bool type");
  return type;
}

TypeHandle make_complex(hid_t part, const Blame& blame) {
  const std::size_t size = H5Tget_size(part);
  TypeHandle type(blame.id(H5Tcreate(H5T_COMPOUND, 2 * size), "cannot make a complex type"));
  blame.ok(H5Tinsert(type.get(), "r", 0, part), "cannot make a complex type");
  blame.ok(H5Tinsert(type.get(), "i", size, part), "cannot make a complex type");
  return type;
}

TypeHandle make_type(Dtype dtype, const Blame& blame) {
  switch (dtype) {
    case Dtype::kBool:
      return make_bool(blame);
    case Dtype::kFloat16:
    case Dtype::kBFloat16:
    case Dtype::kFloat8E4M3FN:
    case Dtype::kFloat8E5M2:
    case Dtype::kFloat8E4M3FNUZ:
    case Dtype::kFloat8E5M2FNUZ:
      return make_float(dtype, blame);
    case Dtype::kComplex32:
      return make_complex(make_float(Dtype::kFloat16, blame).get(), blame);
    case Dtype::kComplex64:
      return make_complex(H5T_IEEE_F32LE, blame);
    case Dtype::kComplex128:
      return make_complex(H5T_IEEE_F64LE, blame);
    default:
      return TypeHandle(blame.id(H5Tcopy(number_type(dtype)), "cannot copy a type"));
  }
}

}  // namespace

hid_t number_type(Dtype dtype) {
  if (dtype == Dtype::kFloat32) return H5T_IEEE_F32LE;
  if (dtype == Dtype::kFloat64) return H5T_IEEE_F64LE;
  hid_t type = H5T_STD_U8LE;
  core::visit_integer(dtype, [&](auto zero) {
    constexpr bool kSigned = std::is_signed_v<decltype(zero)>;
    if (sizeof(zero) == 1) type = kSigned ? H5T_STD_I8LE : H5T_STD_U8LE;
    if (sizeof(zero) == 2) type = kSigned ? H5T_STD_I16LE : H5T_STD_U16LE;
    if (sizeof(zero) == 4) type = kSigned ? H5T_STD_I32LE : H5T_STD_U32LE;
    if (sizeof(zero) == 8) type = kSigned ? H5T_STD_I64LE : H5T_STD_U64LE;
  });
  return type;
}

ElementTypes::ElementTypes(const Blame& blame) {
  for (std::size_t i = 1; i < types_.size(); ++i) {
    types_[i] = make_type(static_cast<Dtype>(i), blame);
  }
}

hid_t ElementTypes::of(Dtype dtype) const {
  const auto index = static_cast<std::size_t>(dtype);
  if (dtype == Dtype::kUnknown || index >= types_.size()) {
    throw core::internal_error("content of an unknown dtype cannot be stored");
  }
  return types_[index].get();
}

std::optional<Dtype> ElementTypes::recognise(hid_t type) const {
  for (std::size_t i = 1; i < types_.size(); ++i) {
    if (H5Tequal(type, types_[i].get()) > 0) return static_cast<Dtype>(i);
  }
  return std::nullopt;
}

std::vector<hsize_t> dataset_dims(std::span<const std::int64_t> shape) {
  if (shape.size() > H5S_MAX_RANK) return {static_cast<hsize_t>(core::element_count(shape))};
  return {shape.begin(), shape.end()};
}

SpaceHandle make_space(std::span<const hsize_t> dims, const Blame& blame) {
  if (dims.empty()) {
    return SpaceHandle(blame.id(H5Screate(H5S_SCALAR), "cannot make a dataspace"));
  }
  return SpaceHandle(blame.id(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr),
                              "cannot make a dataspace"));
}

void write_attribute(
    hid_t object, const char* name, hid_t type, const void* value, const Blame& blame) {
  const SpaceHandle space = make_space({}, blame);
  const AttributeHandle attribute(
      blame.id(H5Acreate2(object, name, type, space.get(), H5P_DEFAULT, H5P_DEFAULT),
               "cannot make an attribute"));
  blame.ok(H5Awrite(attribute.get(), type, value), "cannot write an attribute");
}

void write_text_attribute(hid_t object,
                          const char* name,
                          std::string_view text,
                          const Blame& blame) {
  const TypeHandle type(blame.id(H5Tcopy(H5T_C_S1), "cannot make a text type"));
  blame.ok(H5Tset_size(type.get(), H5T_VARIABLE), "cannot make a text type");
  blame.ok(H5Tset_cset(type.get(), H5T_CSET_UTF8), "cannot make a text type");
  const std::string terminated(text);
  const char* pointer = terminated.c_str();
  write_attribute(object, name, type.get(), &pointer, blame);
}

}  // namespace repro_check::store
