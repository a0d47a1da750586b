// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <variant>
#include <vector>

#include "configs/spec/run_config.h"

namespace repro_check::configs {

/// Calls `visit` with every input that holds no others, in order.
template <typename Visit>
void for_each_leaf(const InputSpec& input, const Visit& visit) {
  const auto each = [&](const std::vector<InputSpec>& items) {
    for (const InputSpec& item : items) for_each_leaf(item, visit);
  };
  if (const auto* list = std::get_if<ListInput>(&input.source)) {
    each(list->items);
  } else if (const auto* tuple = std::get_if<TupleInput>(&input.source)) {
    each(tuple->items);
  } else if (const auto* dict = std::get_if<DictInput>(&input.source)) {
    for (const DictEntry& entry : dict->entries) for_each_leaf(entry.value, visit);
  } else {
    visit(input);
  }
}

/// As above, of every input of every call.
template <typename Visit>
void for_each_leaf(const RunSpec& run, const Visit& visit) {
  for (const CallSpec& call : run.calls) {
    for (const InputSpec& input : call) for_each_leaf(input, visit);
  }
}

/// The file an input is read from; null where it is not.
inline const std::filesystem::path* file_of(const InputSpec& input) {
  // One for each kind, so that a new one cannot be forgotten.
  struct FileOf {
    const std::filesystem::path* operator()(const NpyInput& from) const { return &from.path; }
    const std::filesystem::path* operator()(const TorchInput& from) const { return &from.path; }
    const std::filesystem::path* operator()(const Hdf5Input& from) const { return &from.path; }
    const std::filesystem::path* operator()(const GeneratedInput&) const { return nullptr; }
    const std::filesystem::path* operator()(const ValueInput&) const { return nullptr; }
    const std::filesystem::path* operator()(const ListInput&) const { return nullptr; }
    const std::filesystem::path* operator()(const TupleInput&) const { return nullptr; }
    const std::filesystem::path* operator()(const DictInput&) const { return nullptr; }
  };
  return std::visit(FileOf{}, input.source);
}

}  // namespace repro_check::configs
