// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/trace/op_record.h"

namespace repro_check::probe {

/// Where a thread of the Python program that this process is stands: its innermost frames outside
/// of the framework, a few of them.
struct PythonChain {
  std::uint64_t id = 0;  ///< one for each distinct chain, from 1
  std::vector<core::SourceFrame> frames;
};

/// Of the calling thread. Null where it runs no Python, where there is no Python, and once that is
/// shutting down. Takes the interpreter's lock for a moment: to be called with no lock of ours
/// held. Python's functions are looked up by name, so that the probe is linked to no release of it.
/// @return what is never freed
const PythonChain* python_frames();

/// Files of cells are told as `In [6]` from here on. @param numbers  see repro_check_cells()
void know_cells(void* numbers);

/// Of these, the frames since the autograd engine called Python: a hook, or the backward() of a
/// function of the program. Null outside of it, and where the framework alone was called.
const PythonChain* frames_of_hook();

/// The name of the class of an object of Python's; empty where that cannot be told. Takes no lock.
std::string python_class(const void* object);

}  // namespace repro_check::probe
