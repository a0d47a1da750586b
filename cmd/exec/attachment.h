// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace repro_check::cmd {

/// What is recorded of a program, and what is set for it before its first line.
struct AttachmentPlan {
  std::vector<std::string> command;
  std::string level;
  std::string depth;
  std::string determinism;
  std::vector<std::string> include;
  std::vector<std::string> exclude;
  std::optional<std::uint32_t> seed;
  bool disable_dropout = false;
};

/// A process below the program that has loaded PyTorch, as it says itself.
struct AttachedProcess {
  pid_t process = 0;
  std::filesystem::path journal;  ///< its directory
  std::string failure;            ///< why nothing was recorded, or no more; empty = nothing failed
  std::vector<std::string> notes;
  bool ended = false;  ///< it came to its end, and its journal is whole
  bool recorded = false;
};

/// What makes the Python processes below a program record themselves: a folder for their journals, a
/// plan that they read, and the variables that lead them to it. All of it is removed with the object, unless it is to be kept.
class Attachment {
 public:
  /// @param beside  where the dump will be; the folder is made next to it
  /// @throws core::Error{kUsage} where the probe is missing, or the folder cannot be made
  Attachment(const AttachmentPlan& plan, const std::filesystem::path& beside);
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;
  Attachment(Attachment&&) = delete;
  Attachment& operator=(Attachment&&) = delete;
  ~Attachment();

  /// Set over the inherited environment.
  [[nodiscard]] std::map<std::string, std::string> environment() const;

  /// Those that attached, in the order of their numbers.
  [[nodiscard]] std::vector<AttachedProcess> processes() const;

  void keep() { kept_ = true; }

 private:
  AttachmentPlan plan_;
  std::filesystem::path directory_;
  std::filesystem::path python_;  ///< the folder that goes on PYTHONPATH
  bool kept_ = false;
};

}  // namespace repro_check::cmd
