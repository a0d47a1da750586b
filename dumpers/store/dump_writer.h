// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "core/trace/dump.h"
#include "core/trace/run_manifest.h"

namespace repro_check::store {

inline constexpr std::size_t kDefaultMemory = std::size_t{256} << 20U;

struct DumpWriterOptions {
  /// Bytes of tensors on their way from the model to the disk.
  std::size_t memory = kDefaultMemory;
  /// Contents beyond this many bytes together are not stored; their digests go on.
  std::optional<std::uint64_t> max_bytes = std::nullopt;
  /// Contents it applies to are not stored whole.
  std::optional<core::SliceRule> slice = std::nullopt;
  /// A dump whose contents are referred to instead of stored again; readers must then be given it.
  /// The dump that is made here is none.
  std::optional<std::filesystem::path> reference = std::nullopt;
  /// A file system with less free space than this is refused before anything is recorded.
  std::uint64_t needed_space = 0;
  bool replace_existing = false;  ///< put a complete dump in the place of another, when complete
  /// Whether the browsable tree is made at the end: `auto` makes it up to kBrowseLimit operators.
  enum class Browse { kAuto, kAlways, kNever } browse = Browse::kAuto;
};

inline constexpr std::uint64_t kBrowseLimit = 50'000;

/// Writes one dump directory. Records go to the journal, contents to trace.h5, most of them by a
/// thread of its own, so that what put_content hands over may fail in a later call. finish() folds
/// the journal into the packed index, makes the browsable tree, and writes manifest.json last.
class DumpWriter final : public core::DumpSink {
 public:
  /// Creates the directory. With replace_existing it records into `<directory>.recording` beside it
  /// and takes the place of the old dump only in finish().
  /// @throws core::Error{kUsage} when a dump, or another recording, is already there;
  ///         core::Error{kIo}, also where there is less than options.needed_space; as
  ///         require_reference() for options.reference
  DumpWriter(const std::filesystem::path& directory, const DumpWriterOptions& options);
  ~DumpWriter() override;

  void begin(const core::RunManifest& manifest) override;
  void enter(const core::OpHead& call) override;
  [[nodiscard]] bool has_content(const core::ContentKey& key) const override;
  using core::DumpSink::put_content;
  bool put_content(const core::ContentKey& key, const core::ContentBytes& bytes) override;
  void append(const core::OpRecord& record) override;
  void block(const core::BlockRow& row) override;
  void parameter(const core::ParameterRow& row) override;
  void fail(const std::string& message) override;

  /// For a recording that is played into this dump: names the dump that it refers to, and a content
  /// of that, for which put_content() is then not called.
  void refer_to(const core::TraceReference& dump);
  void put_reference(const core::ContentKey& key);

  /// For such a recording as well: what is stored of a content, put before as a content of its own.
  void put_slice(const core::ContentKey& key, const core::ContentSlice& slice);

  /// Bytes of contents written so far; readable from any thread.
  [[nodiscard]] std::uint64_t stored_bytes() const noexcept;

  /// Completes the dump. Fills manifest.trace.contents, stored_bytes, slices, reference,
  /// io, bytes_limit_reached_at and index_digest, and counts its blocks.
  /// @return the digest of the manifest that was written
  /// @throws core::Error{kIo}
  core::Digest finish(core::RunManifest manifest);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace repro_check::store
