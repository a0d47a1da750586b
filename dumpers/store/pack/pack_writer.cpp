// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/pack/pack_writer.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <exception>
#include <new>
#include <span>
#include <vector>

#include "core/error.h"
#include "dumpers/store/file/plain_file.h"

namespace repro_check::store {

/// Where libarchive's bytes go. No exception may cross it: it waits here.
struct PackWriter::Sink {
  ZstdWriter* out;
  std::exception_ptr failure;

  static la_ssize_t write(archive* /*archive*/, void* self, const void* bytes, std::size_t size) {
    auto* sink = static_cast<Sink*>(self);
    try {
      sink->out->write({static_cast<const std::byte*>(bytes), size});
      return static_cast<la_ssize_t>(size);
    } catch (...) {
      sink->failure = std::current_exception();
      return -1;
    }
  }
};

PackWriter::PackWriter(ZstdWriter& out)
    : sink_(std::make_unique<Sink>(Sink{&out, nullptr})), archive_(archive_write_new()) {
  if (archive_ == nullptr) throw std::bad_alloc();
  constexpr int kPiece = 1 << 20;
  constexpr int kTarBlock = 512;
  archive_write_set_format_pax_restricted(archive_);  // plain tar, but for sizes beyond 8 GiB
  archive_write_set_bytes_per_block(archive_, kPiece);
  archive_write_set_bytes_in_last_block(archive_, kTarBlock);
  archive_write_open2(archive_, sink_.get(), nullptr, &Sink::write, nullptr, nullptr);
}

PackWriter::~PackWriter() {
  // What is still in its buffer shall not be written now.
  archive_write_fail(archive_);
  archive_write_free(archive_);
}

void PackWriter::expect(bool good) {
  if (sink_->failure) std::rethrow_exception(sink_->failure);
  if (good) return;
  const char* reason = archive_error_string(archive_);
  throw core::Error(core::ErrorKind::kInternal,
                    fmt::format("libarchive: {}", reason == nullptr ? "no reason" : reason));
}

void PackWriter::start_member(const std::string& name, std::uint64_t size) {
  constexpr int kMode = 0644;
  const std::unique_ptr<archive_entry, void (*)(archive_entry*)> entry(archive_entry_new(),
                                                                       &archive_entry_free);
  if (!entry) throw std::bad_alloc();
  archive_entry_set_pathname(entry.get(), name.c_str());
  archive_entry_set_filetype(entry.get(), AE_IFREG);
  archive_entry_set_perm(entry.get(), kMode);
  archive_entry_set_uid(entry.get(), 0);
  archive_entry_set_gid(entry.get(), 0);
  archive_entry_set_mtime(entry.get(), 0, 0);
  archive_entry_set_size(entry.get(), static_cast<la_int64_t>(size));
  expect(archive_write_header(archive_, entry.get()) == ARCHIVE_OK);
}

void PackWriter::add(const std::string& name,
                     const core::FileDescriptor& file,
                     const std::string& source,
                     const std::function<void(std::uint64_t)>& progress) {
  const std::uint64_t size = size_of(file, source);
  start_member(name, size);
  std::vector<std::byte> piece(std::min<std::uint64_t>(size, std::uint64_t{1} << 20U));
  for (std::uint64_t done = 0; done < size;) {
    const std::size_t wanted = std::min<std::uint64_t>(piece.size(), size - done);
    const std::size_t got = read_some(file.get(), done, std::span(piece).first(wanted), source);
    if (got == 0) {
      throw core::Error(core::ErrorKind::kDumpDamaged,
                        fmt::format("{}: became shorter while it was read", source));
    }
    expect(archive_write_data(archive_, piece.data(), got) == static_cast<la_ssize_t>(got));
    done += got;
    if (progress) progress(done);
  }
}

void PackWriter::finish() {
  expect(archive_write_close(archive_) == ARCHIVE_OK);
  sink_->out->finish();
}

}  // namespace repro_check::store
