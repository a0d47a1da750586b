// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/index/index_rows.h"

#include <array>
#include <type_traits>

namespace repro_check::store {
namespace {

template <typename T>
constexpr Scalar scalar_of() {
  if constexpr (std::is_same_v<T, std::uint8_t>) {
    return Scalar::kUInt8;
  } else if constexpr (std::is_same_v<T, std::uint16_t>) {
    return Scalar::kUInt16;
  } else if constexpr (std::is_same_v<T, std::uint32_t>) {
    return Scalar::kUInt32;
  } else if constexpr (std::is_same_v<T, std::uint64_t>) {
    return Scalar::kUInt64;
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    return Scalar::kInt64;
  } else {
    static_assert(std::is_same_v<T, double>);
    return Scalar::kFloat64;
  }
}

}  // namespace

#define REPRO_CHECK_MEMBER(Row, member) \
  Member { #member, offsetof(Row, member), scalar_of < decltype(Row::member)>() }

namespace {

constexpr std::array kOpMembers{REPRO_CHECK_MEMBER(OpRow, parent),
                                REPRO_CHECK_MEMBER(OpRow, wall_ns),
                                REPRO_CHECK_MEMBER(OpRow, values_begin),
                                REPRO_CHECK_MEMBER(OpRow, tensors_begin),
                                REPRO_CHECK_MEMBER(OpRow, substitutions_begin),
                                REPRO_CHECK_MEMBER(OpRow, generator),
                                REPRO_CHECK_MEMBER(OpRow, op),
                                REPRO_CHECK_MEMBER(OpRow, site),
                                REPRO_CHECK_MEMBER(OpRow, depth),
                                REPRO_CHECK_MEMBER(OpRow, phase),
                                REPRO_CHECK_MEMBER(OpRow, step),
                                REPRO_CHECK_MEMBER(OpRow, rank),
                                REPRO_CHECK_MEMBER(OpRow, lane),
                                REPRO_CHECK_MEMBER(OpRow, argument_rows),
                                REPRO_CHECK_MEMBER(OpRow, result_rows),
                                REPRO_CHECK_MEMBER(OpRow, tensor_count),
                                REPRO_CHECK_MEMBER(OpRow, substitution_count),
                                REPRO_CHECK_MEMBER(OpRow, reserved)};
constexpr std::array kValueMembers{REPRO_CHECK_MEMBER(ValueRow, integer),
                                   REPRO_CHECK_MEMBER(ValueRow, real),
                                   REPRO_CHECK_MEMBER(ValueRow, imaginary),
                                   REPRO_CHECK_MEMBER(ValueRow, name),
                                   REPRO_CHECK_MEMBER(ValueRow, kind),
                                   REPRO_CHECK_MEMBER(ValueRow, level)};
constexpr std::array kTensorMembers{REPRO_CHECK_MEMBER(TensorRow, digest_high),
                                    REPRO_CHECK_MEMBER(TensorRow, digest_low),
                                    REPRO_CHECK_MEMBER(TensorRow, storage_offset),
                                    REPRO_CHECK_MEMBER(TensorRow, storage),
                                    REPRO_CHECK_MEMBER(TensorRow, producer),
                                    REPRO_CHECK_MEMBER(TensorRow, stats),
                                    REPRO_CHECK_MEMBER(TensorRow, shape_begin),
                                    REPRO_CHECK_MEMBER(TensorRow, strides_begin),
                                    REPRO_CHECK_MEMBER(TensorRow, shape_count),
                                    REPRO_CHECK_MEMBER(TensorRow, strides_count),
                                    REPRO_CHECK_MEMBER(TensorRow, slot),
                                    REPRO_CHECK_MEMBER(TensorRow, device),
                                    REPRO_CHECK_MEMBER(TensorRow, layout),
                                    REPRO_CHECK_MEMBER(TensorRow, attributes),
                                    REPRO_CHECK_MEMBER(TensorRow, name),
                                    REPRO_CHECK_MEMBER(TensorRow, role),
                                    REPRO_CHECK_MEMBER(TensorRow, state),
                                    REPRO_CHECK_MEMBER(TensorRow, dtype),
                                    REPRO_CHECK_MEMBER(TensorRow, flags)};
constexpr std::array kStatsMembers{REPRO_CHECK_MEMBER(StatsRow, min),
                                   REPRO_CHECK_MEMBER(StatsRow, max),
                                   REPRO_CHECK_MEMBER(StatsRow, mean),
                                   REPRO_CHECK_MEMBER(StatsRow, std),
                                   REPRO_CHECK_MEMBER(StatsRow, l2),
                                   REPRO_CHECK_MEMBER(StatsRow, zeros),
                                   REPRO_CHECK_MEMBER(StatsRow, nans),
                                   REPRO_CHECK_MEMBER(StatsRow, positive_infs),
                                   REPRO_CHECK_MEMBER(StatsRow, negative_infs),
                                   REPRO_CHECK_MEMBER(StatsRow, subnormals)};
constexpr std::array kNonFiniteMembers{REPRO_CHECK_MEMBER(NonFiniteRow, tensor),
                                       REPRO_CHECK_MEMBER(NonFiniteRow, nans),
                                       REPRO_CHECK_MEMBER(NonFiniteRow, positive_infs),
                                       REPRO_CHECK_MEMBER(NonFiniteRow, negative_infs)};
constexpr std::array kContentMembers{
    REPRO_CHECK_MEMBER(ContentRow, digest_high),
    REPRO_CHECK_MEMBER(ContentRow, digest_low),
    REPRO_CHECK_MEMBER(ContentRow, shape_begin),
    REPRO_CHECK_MEMBER(ContentRow, bytes),
    REPRO_CHECK_MEMBER(ContentRow, shape_count),
    REPRO_CHECK_MEMBER(ContentRow, dtype),
    Member{"packed", offsetof(ContentRow, packed), Scalar::kInt64, true}};
constexpr std::array kSliceMembers{REPRO_CHECK_MEMBER(SliceRow, digest_high),
                                   REPRO_CHECK_MEMBER(SliceRow, digest_low),
                                   REPRO_CHECK_MEMBER(SliceRow, slice_high),
                                   REPRO_CHECK_MEMBER(SliceRow, slice_low),
                                   REPRO_CHECK_MEMBER(SliceRow, elements),
                                   REPRO_CHECK_MEMBER(SliceRow, stride),
                                   REPRO_CHECK_MEMBER(SliceRow, shape_begin),
                                   REPRO_CHECK_MEMBER(SliceRow, shape_count),
                                   REPRO_CHECK_MEMBER(SliceRow, dtype)};
constexpr std::array kGeneratorMembers{REPRO_CHECK_MEMBER(GeneratorRow, seed),
                                       REPRO_CHECK_MEMBER(GeneratorRow, position_before),
                                       REPRO_CHECK_MEMBER(GeneratorRow, position_after),
                                       REPRO_CHECK_MEMBER(GeneratorRow, drawn),
                                       REPRO_CHECK_MEMBER(GeneratorRow, device),
                                       REPRO_CHECK_MEMBER(GeneratorRow, reserved)};
constexpr std::array kSubstitutionMembers{REPRO_CHECK_MEMBER(SubstitutionRow, argument),
                                          REPRO_CHECK_MEMBER(SubstitutionRow, from),
                                          REPRO_CHECK_MEMBER(SubstitutionRow, to),
                                          REPRO_CHECK_MEMBER(SubstitutionRow, reason)};
constexpr std::array kOperatorMembers{REPRO_CHECK_MEMBER(OperatorRow, name),
                                      REPRO_CHECK_MEMBER(OperatorRow, overload),
                                      REPRO_CHECK_MEMBER(OperatorRow, seeded)};
constexpr std::array kSiteMembers{REPRO_CHECK_MEMBER(SiteRow, module_path),
                                  REPRO_CHECK_MEMBER(SiteRow, module_type),
                                  REPRO_CHECK_MEMBER(SiteRow, frames_begin),
                                  REPRO_CHECK_MEMBER(SiteRow, frame_count)};
constexpr std::array kFrameMembers{REPRO_CHECK_MEMBER(FrameRow, file),
                                   REPRO_CHECK_MEMBER(FrameRow, line),
                                   REPRO_CHECK_MEMBER(FrameRow, function)};
constexpr std::array kByteMembers{Member{"", 0, Scalar::kUInt8}};
constexpr std::array kUInt64Members{Member{"", 0, Scalar::kUInt64}};
constexpr std::array kInt64Members{Member{"", 0, Scalar::kInt64}};

static_assert(sizeof(OpRow) == 96 && sizeof(ValueRow) == 32 && sizeof(TensorRow) == 96);
static_assert(sizeof(StatsRow) == 80 && sizeof(ContentRow) == 48 && sizeof(GeneratorRow) == 40);
static_assert(sizeof(SliceRow) == 64 && sizeof(NonFiniteRow) == 32);

}  // namespace
#undef REPRO_CHECK_MEMBER

const TableLayout kPackedTable{"packed", sizeof(std::uint8_t), kByteMembers};
const TableLayout kOpsTable{"ops", sizeof(OpRow), kOpMembers};
const TableLayout kValuesTable{"values", sizeof(ValueRow), kValueMembers};
const TableLayout kTensorsTable{"tensors", sizeof(TensorRow), kTensorMembers};
const TableLayout kStatsTable{"stats", sizeof(StatsRow), kStatsMembers};
const TableLayout kNonFiniteTable{"non_finite", sizeof(NonFiniteRow), kNonFiniteMembers};
const TableLayout kContentsTable{"contents", sizeof(ContentRow), kContentMembers};
const TableLayout kSlicesTable{"slices", sizeof(SliceRow), kSliceMembers};
const TableLayout kGeneratorsTable{"generators", sizeof(GeneratorRow), kGeneratorMembers};
const TableLayout kSubstitutionsTable{
    "substitutions", sizeof(SubstitutionRow), kSubstitutionMembers};
const TableLayout kOperatorsTable{"operators", sizeof(OperatorRow), kOperatorMembers};
const TableLayout kSitesTable{"sites", sizeof(SiteRow), kSiteMembers};
const TableLayout kFramesTable{"frames", sizeof(FrameRow), kFrameMembers};
const TableLayout kDimsTable{"dims", sizeof(std::int64_t), kInt64Members};
const TableLayout kTextBytesTable{"text_bytes", sizeof(std::uint8_t), kByteMembers};
const TableLayout kTextOffsetsTable{"text_offsets", sizeof(std::uint64_t), kUInt64Members};

std::span<const TableLayout* const> index_tables() noexcept {
  static constexpr std::array kTables{&kContentsTable,
                                      &kDimsTable,
                                      &kFramesTable,
                                      &kGeneratorsTable,
                                      &kOperatorsTable,
                                      &kOpsTable,
                                      &kSitesTable,
                                      &kStatsTable,
                                      &kSubstitutionsTable,
                                      &kTensorsTable,
                                      &kTextBytesTable,
                                      &kTextOffsetsTable,
                                      &kValuesTable};
  return kTables;
}

}  // namespace repro_check::store
