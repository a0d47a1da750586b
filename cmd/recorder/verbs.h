// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "cmd/recorder/status_channel.h"

namespace repro_check::recorder {

/// Records the one run that the request file describes. Nothing is written before the model is
/// loaded and its inputs are made; what fails afterwards leaves an incomplete dump that says why.
/// @throws core::Error
void record(const std::filesystem::path& request_file, StatusChannel& status);

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
