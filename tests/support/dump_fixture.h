// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <string_view>
#include <vector>

#include "core/tensor/tensor_record.h"
#include "core/trace/block_row.h"
#include "core/trace/op_record.h"
#include "core/trace/run_manifest.h"

namespace repro_check::test_support {

/// A recording, whole, in memory.
struct DumpFixture {
  core::RunManifest manifest;
  std::vector<core::OpRecord> ops;
  std::map<core::ContentKey, std::vector<std::byte>> contents;
  std::vector<core::BlockRow> blocks;
  std::vector<core::ParameterRow> parameters;
};

/// Reads a recording described as JSON. One object:
///   run       name of the run
///   manifest  level, depth, seed, determinism, device, rng, grad, disable_dropout, model (hex
///   digest,
///             or any text, which is hashed), digest_algorithm, include, exclude, keep_ops,
///             warnings, settings {name: used | {found, used}}, environment {name: value}
///   tensors   {name: {dtype, shape, and one of values | bits (hexadecimal, most significant first)
///   |
///             fill | state}}; optional storage (name of the tensor it aliases), strides, offset,
///             device, layout, attributes, requires_grad, watch (steady | moved), name, parts
///             {ending: name of the tensor recorded as `<slot>.<ending>`}, stored, damaged (a
///             stored byte is flipped). Values take "nan", "inf", "-inf", "-0"; a complex value is
///             [re, im]. Of what is no tensor only the type may be known: {"opaque": type}.
///   named     [{kind: input | parameter | buffer, name, tensor}]
///   ops       [{operator, module, module_type, source, inputs {argument: tensor | [tensors] |
///   null},
///             outputs [tensors], scalars {argument: value}, results [values], seeded, generator
///             {device, seed, before, after, drawn}, substitutions, depth, parent, step, rank,
///             lane, modes, phase, stored, view, strides {slot: [...]}, wall_ns}]; what a call
///             returned is {returned {path: tensor | value}, step, rank}, and what a program names
///             itself the same with its operator
///   blocks    [{step, path, call, phase, in, out, unopened}] of depth blocks; `in` and `out` are
///   any
///             texts, which are hashed, or null
///   parameters  [{step, name, value}], value as `in`
///   every, unopened {type: count}, not_seen  of the blocks, as the manifest has them
/// Each tensor name is a storage of its own unless it says otherwise. Storage numbers, producers
/// and names are derived as a recorder would; an output that equals an input of the same storage
/// counts as an untouched alias.
/// @throws core::Error{kUsage} naming what is wrong with the description
DumpFixture parse_dump_fixture(std::string_view json);

}  // namespace repro_check::test_support
