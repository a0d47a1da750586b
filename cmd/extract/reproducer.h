// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/trace/dump_source.h"
#include "core/trace/replay_inputs.h"

namespace repro_check::cmd {

/// One recorded output of the operator.
struct ExpectedOutput {
  const core::TensorRecord* tensor = nullptr;  ///< borrowed from Reproducer::op
  std::string file;                            ///< empty = its values are not stored
};

/// What a stand-alone reproducer is made of.
struct Reproducer {
  core::OpRecord op;
  core::RunManifest manifest;
  std::vector<core::InputStorage> storages;
  std::vector<std::string> files;  ///< by storage, below `data`
  std::vector<ExpectedOutput> outputs;
  std::vector<std::string> result_slots;  ///< of the tensors among the results, in order
  std::string script;                     ///< file name of the reproducer
  std::string data;                       ///< name of the directory beside it
  std::optional<std::uint64_t> drawn;     ///< 32-bit numbers drawn since the seed; if known
};

/// Needs torch and numpy alone; exits 0 when every call gives the recorded result, else 1.
std::string python_reproducer(const Reproducer& reproducer);

/// A C++ program for LibTorch, with the CMake file it needs in its first comment.
std::string cpp_reproducer(const Reproducer& reproducer);

/// How a language of reproducers writes recorded values, and statements of them. Formats are those
/// of fmt.
struct ReproducerDialect {
  std::string_view yes;
  std::string_view no;
  std::string_view truth;  ///< of one of these
  std::string_view integer;
  std::string (*real)(double);
  std::string (*complex)(double real, double imaginary);
  std::string_view text;                      ///< of a literal
  std::string (*symbol)(const std::string&);  ///< a dtype, layout, memory format or device
  std::string_view tensor;                    ///< of the literal of its slot
  std::string_view undefined;                 ///< tensor
  std::string_view list;                      ///< of items with commas
  std::string_view none;                      ///< a generator too: the default one stands in
  std::string (*dtype)(core::Dtype);
  std::string_view storage;  ///< `storage` from a file, with its dtype and what follows
  std::string_view move;     ///< that follows, to a device
  std::string_view view;     ///< of it by slot, with sizes, strides and offset
  std::string_view sizes;    ///< of numbers with commas
  std::string_view threads;  ///< to this number
  std::string_view strict;   ///< deterministic algorithms, whether they only warn
  std::string_view seed;
  std::string_view skip;      ///< so many numbers that were drawn since
  std::string_view expected;  ///< output, by slot, file and dtype
  std::string_view unstored;  ///< one without a file
  std::string_view unplaced;  ///< a generator of a device, at an offset
};

/// A literal in Python and in C++ alike: nothing but plain characters goes through as it is, since
/// names come from a file, and escapes end after three digits, whatever follows.
std::string string_literal(std::string_view text);

/// The slots of the results, with commas.
std::string slot_literals(const Reproducer& reproducer);

/// An argument in the words of a language.
std::string value_literal(const core::OpRecord& op,
                          const core::Value& value,
                          const ReproducerDialect& dialect);

// Statements, one a line.
std::string tensor_statements(const Reproducer& reproducer, const ReproducerDialect& dialect);
std::string setting_statements(const Reproducer& reproducer, const ReproducerDialect& dialect);
/// Empty when nothing was drawn.
std::string seed_statements(const Reproducer& reproducer, const ReproducerDialect& dialect);
std::string expected_statements(const Reproducer& reproducer, const ReproducerDialect& dialect);
/// What the run was recorded with, as comments.
std::string fact_comments(const Reproducer& reproducer, std::string_view comment);

}  // namespace repro_check::cmd
