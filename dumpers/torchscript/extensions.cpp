// SPDX-License-Identifier: Apache-2.0
#include "dumpers/torchscript/extensions.h"

#include <dlfcn.h>
#include <torch/version.h>

#include <exception>
#include <string>

#include "core/digest/digest.h"
#include "core/error.h"
#include "dumpers/torchscript/detail/exception_text.h"
#include "dumpers/torchscript/model_file.h"

namespace repro_check::torchscript {
namespace {

core::Error refusal(const std::filesystem::path& library, const std::string& why) {
  return {core::ErrorKind::kUsage,
          library.string() + ": this extension cannot be loaded: " + why,
          "it must be built against the LibTorch of this recorder, " TORCH_VERSION
          ", and find every other library that it needs"};
}

}  // namespace

std::vector<core::EnvironmentFact> load_extensions(
    const std::vector<std::filesystem::path>& libraries) {
  std::vector<core::EnvironmentFact> facts;
  for (const std::filesystem::path& library : libraries) {
    try {
      // As torch.ops.load_library does: one may need what an earlier one defines.
      if (::dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
        const char* why = ::dlerror();
        throw refusal(library, why == nullptr ? "no reason given" : why);
      }
    } catch (const core::Error&) {
      throw;
    } catch (const std::exception& error) {  // what registers operators may throw
      throw refusal(library, first_useful_line(error));
    }
    facts.push_back(
        {"extension." + library.filename().string(), core::to_hex(digest_file(library))});
  }
  return facts;
}

}  // namespace repro_check::torchscript
