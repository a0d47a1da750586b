// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>
#include <vector>

#include "core/error.h"

namespace repro_check::torchscript {

using core::usage_error;

/// What a person can act on in an exception of LibTorch: neither its C++ backtrace nor the frame of
/// the TorchScript interpreter around it, one line.
std::string first_useful_line(const std::exception& error);

/// All of the text but the C++ backtrace, for searching in.
std::string full_text(const std::exception& error);

/// Whether the exception is LibTorch's, or the allocator's, way of saying that memory ran out.
bool is_out_of_memory(const std::exception& error);

/// Whether the model calls something as this LibTorch no longer takes it.
bool is_removed_call(const std::exception& error);
inline constexpr const char* kRemovedCallHint =
    "the model calls an operator in a way that this LibTorch no longer has: set \"recorder\" to "
    "one that is built with the LibTorch that saved the model, or save the model again with this "
    "one";

/// Whether determinism mode refused an operator.
bool is_determinism_refusal(const std::exception& error);

/// `; did you mean "mask"?` when a name is near, `; there are "x", "y"` when none is, empty when
/// there are no names at all.
std::string suggest(const std::string& given, const std::vector<std::string>& names);

/// Whatever else LibTorch may throw, as the one exception that leaves this folder.
/// @param mend  what helps where memory ran out
template <typename Work>
auto translated(const char* what, const char* mend, Work&& work) {
  try {
    return work();
  } catch (const core::Error&) {
    throw;
  } catch (const std::exception& error) {
    throw core::run_failed(std::string(what) + " failed: " + first_useful_line(error),
                           is_out_of_memory(error) ? std::string("memory ran out: ") + mend : "");
  }
}

}  // namespace repro_check::torchscript
