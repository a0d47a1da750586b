// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>

#include "cmd/recording/recorder_process.h"

namespace repro_check::cmd {

// What records: the recorder of models, and the probe of programs. Both lie beside this program, or
// are built of the kit at first use.

/// A recorder that is there: the first that can be run of what REPRO_CHECK_RECORDER names, or else
/// of those beside this program and where an installation puts it; then what require_recorder() has
/// built at an earlier use.
std::optional<std::filesystem::path> find_recorder();

/// The same, or one that is built now, against the PyTorch of the first that has one: the virtual
/// environment that this program is installed in, the active one ($VIRTUAL_ENV), `python3` of PATH.
/// @param named  a recorder named in the configuration, which then is the only candidate
/// @throws core::Error{kUsage} saying where it was looked for, or why it cannot be built, and how
/// to
///         get one; core::Error{kInterrupted}
std::filesystem::path require_recorder(const std::optional<std::filesystem::path>& named);

/// Whether a file is one, or is called so; false of one that is not there.
/// @throws core::Error{kUsage} when it is unreadable
bool is_onnx_model(const std::filesystem::path& model);

/// What records that model: require_recorder(), or of an ONNX model the recorder in Python, run by
/// the first interpreter that has ONNX Runtime, in the same order. Its verbs are to follow.
/// @param named  as require_recorder() takes it
/// @throws as require_recorder(); core::Error{kUsage} where there is no such interpreter
ProcessPlan require_recorder_of_model(const std::filesystem::path& model,
                                      const std::optional<std::filesystem::path>& named);

/// The folder of what is loaded into programs, its Python side, and the kit.
/// @throws core::Error{kUsage} when there is none, saying where it was looked for
std::filesystem::path require_libexec();

/// The folder of the documentation that was installed with this program; empty where there is none.
std::optional<std::filesystem::path> find_documentation();

/// Whether the loader can be told of a library in that folder.
bool can_preload(const std::filesystem::path& folder);

/// Sees to it that there is a probe for the PyTorch of the program's interpreter, which is asked
/// without importing it; one that has to be built is, as a line on stderr says. Where the command
/// is none of which the interpreter can be told (a script of a shell, a launcher), nothing is done:
/// its Python processes see to it themselves. The same for a program that is linked to LibTorch, by
/// the python3 of its PATH.
/// @param folder   require_libexec()
/// @param program  with the environment that it will have, ours not yet in it
/// @return the probe, where it is the program itself that has to load it
/// @throws core::Error{kUsage} when there can be no probe, saying what to do;
///         core::Error{kInterrupted}
std::optional<std::filesystem::path> prepare_probe(const std::filesystem::path& folder,
                                                   const ProcessPlan& program);

/// The folder of this command alone that it built in, since others can write to the cache; empty if
/// there is none.
std::filesystem::path private_build_folder();

/// For a process that ends without its destructors.
void remove_private_build_folder();

}  // namespace repro_check::cmd
