// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/trace/dump.h"

namespace repro_check::capture {

/// What a recording left behind.
struct Trace {
  /// The records of `name`, with or without its overload.
  [[nodiscard]] std::vector<const core::OpRecord*> all(const std::string& name) const {
    std::vector<const core::OpRecord*> found;
    for (const core::OpRecord& record : records) {
      if (record.op->name == name || record.op->full_name() == name) found.push_back(&record);
    }
    return found;
  }

  [[nodiscard]] const core::OpRecord& only(const std::string& name) const {
    const std::vector<const core::OpRecord*> found = all(name);
    if (found.size() != 1) {
      throw std::runtime_error(std::to_string(found.size()) + " records of " + name + " in " +
                               names());
    }
    return *found.front();
  }

  /// Names in order of entry, without `aten::`, with a space between.
  [[nodiscard]] std::string names() const {
    constexpr std::size_t kNamespace = 6;
    std::map<std::uint64_t, std::string> ordered;
    for (const core::OpRecord& record : records) ordered[record.index] = record.op->name;
    std::string text;
    for (const auto& [index, name] : ordered) {
      if (!text.empty()) text += ' ';
      text.append(name, kNamespace);
    }
    return text;
  }

  std::vector<std::uint64_t> entered;
  std::vector<core::OpRecord> records;
  std::map<core::ContentKey, std::vector<std::byte>> contents;
  std::vector<std::string> warnings;
  std::string failure;
};

/// Keeps everything in memory.
class MemorySink final : public core::DumpSink, public Trace {
 public:
  void enter(const core::OpHead& call) override {
    if (fail_at && call.index == *fail_at) {
      throw core::Error(core::ErrorKind::kIo, "no space left on the disk", "free some");
    }
    entered.push_back(call.index);
  }

  [[nodiscard]] bool has_content(const core::ContentKey& key) const override {
    return contents.count(key) > 0;
  }

  using core::DumpSink::put_content;
  bool put_content(const core::ContentKey& key, const core::ContentBytes& bytes) override {
    std::vector<std::byte> copy(bytes.size());
    bytes.read(0, copy);
    contents.emplace(core::key_of_read(key, bytes), std::move(copy));
    return true;
  }

  void append(const core::OpRecord& record) override { records.push_back(record); }

  void fail(const std::string& message) override { failure = message; }

  std::optional<std::uint64_t> fail_at;
};

/// The record of a tensor, by slot and role.
inline const core::TensorRecord* find_tensor(const core::OpRecord& record,
                                             const std::string& slot,
                                             core::TensorRole role) {
  for (const core::TensorRecord& tensor : record.tensors) {
    if (tensor.slot == slot && tensor.role == role) return &tensor;
  }
  return nullptr;
}

inline const core::TensorRecord& input(const core::OpRecord& record, const std::string& slot) {
  const core::TensorRecord* found = find_tensor(record, slot, core::TensorRole::kInput);
  if (found == nullptr) throw std::runtime_error("no input " + slot + " of " + record.op->name);
  return *found;
}

inline const core::TensorRecord& output(const core::OpRecord& record, const std::string& slot) {
  const core::TensorRecord* found = find_tensor(record, slot, core::TensorRole::kOutput);
  if (found == nullptr) throw std::runtime_error("no output " + slot + " of " + record.op->name);
  return *found;
}

inline const core::Value& argument(const core::OpRecord& record, const std::string& name) {
  for (const core::Argument& argument : record.arguments) {
    if (argument.name == name) return argument.value;
  }
  throw std::runtime_error("no argument " + name + " of " + record.op->name);
}

}  // namespace repro_check::capture
