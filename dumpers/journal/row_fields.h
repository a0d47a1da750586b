// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <complex>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "core/tensor/tensor_record.h"
#include "core/trace/block_row.h"
#include "core/trace/op_record.h"
#include "dumpers/journal/rows.h"

namespace repro_check::journal {

// What a row says of an object, said once: `f` fills the row (JournalWriter::ToRow) or the object
// (RowDecoder::FromRow). The order is that in which a writer numbers texts and sizes.
template <typename Object, typename Wanted>
concept Either = std::is_same_v<std::remove_const_t<Object>, Wanted>;

template <typename Codec, Either<core::OperatorInfo> Op>
void row_fields(Codec& f, OperatorRow& row, Op& op) {
  f.text(row.name, op.name);
  f.text(row.overload, op.overload);
  f.number(row.seeded, op.seeded);
}

/// Frames left out.
template <typename Codec, Either<core::CallSite> Site>
void row_fields(Codec& f, SiteRow& row, Site& site) {
  f.text(row.module_path, site.module_path);
  f.text(row.module_type, site.module_type);
}

template <typename Codec, Either<core::SourceFrame> Frame>
void row_fields(Codec& f, FrameRow& row, Frame& frame) {
  f.text(row.file, frame.file);
  f.number(row.line, frame.line);
  f.text(row.function, frame.function);
}

template <typename Codec, Either<core::Substitution> Change>
void row_fields(Codec& f, SubstitutionRow& row, Change& change) {
  f.text(row.argument, change.argument);
  f.text(row.from, change.from);
  f.text(row.to, change.to);
  f.text(row.reason, change.reason);
}

template <typename Codec, Either<core::GeneratorUse> Use>
void row_fields(Codec& f, GeneratorRow& row, Use& use) {
  f.number(row.seed, use.seed);
  f.number(row.position_before, use.position_before);
  f.number(row.position_after, use.position_after);
  f.number(row.drawn, use.drawn);
  f.text(row.device, use.device);
}

template <typename Codec, Either<core::BlockRow> Block>
void row_fields(Codec& f, BlockLine& row, Block& block) {
  f.number(row.step, block.step);
  f.text(row.path, block.path);
  f.number(row.call, block.call);
  f.number(row.unopened, block.unopened);
  f.word(row.phase, block.phase, "phase");
  f.flag(row.flags, kBlockTraining, block.training);
  f.digest(row.in, block.in);
  f.digest(row.out, block.out);
}

template <typename Codec, Either<core::ParameterRow> Parameter>
void row_fields(Codec& f, ParameterLine& row, Parameter& parameter) {
  f.number(row.step, parameter.step);
  f.text(row.name, parameter.name);
  f.digest(row.digest, parameter.digest);
}

/// Of contents and slices.
template <typename Codec, typename Row, Either<core::ContentKey> Key>
void row_fields(Codec& f, Row& row, Key& key) {
  f.number(row.digest, key.digest);
  f.sizes(row.shape_begin, row.shape_count, key.shape);
  f.word(row.dtype, key.dtype, "dtype");
}

/// Of a record also; operator, site, and what other tables hold left out.
template <typename Codec, Either<core::OpHead> Head>
void row_fields(Codec& f, OpRow& row, Head& call) {
  f.number(row.parent, call.parent);
  f.number(row.depth, call.depth);
  f.word(row.phase, call.phase, "phase");
  f.number(row.step, call.step);
  f.number(row.rank, call.rank);
  f.number(row.lane, call.lane);
  f.text(row.modes, call.modes);
}

/// Statistics and counts left out.
template <typename Codec, Either<core::TensorRecord> Tensor>
void row_fields(Codec& f, TensorRow& row, Tensor& tensor) {
  f.number(row.digest, tensor.digest);
  f.number(row.storage_offset, tensor.storage_offset);
  f.number(row.storage, tensor.storage);
  f.number(row.producer, tensor.producer);
  f.sizes(row.shape_begin, row.shape_count, tensor.shape);
  f.sizes(row.strides_begin, row.strides_count, tensor.strides);
  f.text(row.slot, tensor.slot);
  f.text(row.device, tensor.device);
  f.text(row.layout, tensor.layout);
  f.text(row.attributes, tensor.attributes);
  f.text(row.name, tensor.name);
  f.word(row.role, tensor.role, "role");
  f.word(row.state, tensor.state, "state");
  f.word(row.dtype, tensor.dtype, "dtype");
  f.flag(row.flags, kTensorRequiresGrad, tensor.requires_grad);
  f.flag(row.flags, kTensorStored, tensor.stored);
  f.flag(row.flags, kTensorSteady, tensor.watch, core::InputWatch::kSteady);
  f.flag(row.flags, kTensorMoved, tensor.watch, core::InputWatch::kMoved);
}

/// Kind and items of a list left out.
template <typename Codec, Either<core::Value> Value>
void row_fields(Codec& f, ValueRow& row, Value& value) {
  const auto field = [&](auto& data) {
    using Data = std::remove_cvref_t<decltype(data)>;
    if constexpr (std::is_same_v<Data, std::string>) {
      f.text(row.integer, data);
    } else if constexpr (std::is_same_v<Data, core::Symbol>) {
      f.text(row.integer, data.name);
    } else if constexpr (std::is_same_v<Data, core::Opaque>) {
      f.text(row.integer, data.type);
    } else if constexpr (std::is_same_v<Data, core::TensorSlot>) {
      f.number(row.integer, data.index);
    } else if constexpr (std::is_same_v<Data, double>) {
      f.number(row.real, data);
    } else if constexpr (std::is_same_v<Data, std::complex<double>>) {
      auto parts = std::pair(data.real(), data.imag());
      f.number(row.real, parts.first);
      f.number(row.imaginary, parts.second);
      if constexpr (Codec::kReads) data = {parts.first, parts.second};
    } else if constexpr (std::is_integral_v<Data>) {
      f.number(row.integer, data);
    }
  };
  std::visit(field, value.data);
}

}  // namespace repro_check::journal
