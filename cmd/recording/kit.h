// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <initializer_list>
#include <optional>
#include <vector>

#include "cmd/recording/recorder_process.h"

namespace repro_check::cmd {

/// Where what belongs to this program is looked for: what the variable names alone if that is set;
/// otherwise these places, as they lie from this program's own folder.
std::vector<std::filesystem::path> places_beside(const char* variable,
                                                 std::initializer_list<const char*> beside);

/// The folder of what is loaded into programs, its Python side, and the kit: what probe and
/// recorder are built of at first use.
std::optional<std::filesystem::path> find_libexec();

/// @throws core::Error{kUsage} when there is none, saying where it was looked for
std::filesystem::path require_libexec();

/// Asks repro_check_kit.py for what fits the PyTorch of an interpreter; what has to be built is, as
/// a line on stderr says.
/// @param folder    find_libexec()
/// @param asked     the interpreter, and the environment it is started in
/// @param product   `probe`, `recorder`, or `kept`: the recorder if it was built before
/// @param libtorch  libtorch_cpu.so of a program without Python
/// @return empty where there is no such interpreter, or it has no PyTorch
/// @throws core::Error{kUsage} when there can be none, saying what to do; core::Error{kInterrupted}
std::filesystem::path ask_kit(const std::filesystem::path& folder,
                              const ProcessPlan& asked,
                              const char* product,
                              const std::filesystem::path& libtorch = {});

/// What a program said; empty where it cannot be started.
/// @throws core::Error{kInterrupted}
std::string answer_of(const RecorderCall& call);

}  // namespace repro_check::cmd
