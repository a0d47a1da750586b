// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace repro_check::recorder {

/// Answers to what can be asked of a recorder, each one line of JSON.

/// {"method", "methods": [...], "arguments": [{"name","type","has_default","default_value"}]}
std::string describe(const std::filesystem::path& model, const std::string& method);

/// Which tensors two versions of a model file hold with other bits:
/// {"names": [...], "different": [{"names": [...], "what", "elements", "differing"}], "obstacle",
/// "mend"}, see torchscript::WeightVersions
std::string weights(const std::filesystem::path& first, const std::filesystem::path& second);

/// {"settings": [{"name","value"}], "environment": [{"name","value"}]}
std::string environment();

/// {"tool","libtorch","hdf5","dump_format"}
std::string version();

}  // namespace repro_check::recorder
