// SPDX-License-Identifier: Apache-2.0
#include "dumpers/imports/import_dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <set>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/text/text.h"
#include "core/trace/record_names.h"
#include "dumpers/imports/file_names.h"
#include "dumpers/imports/imported_dump.h"
#include "dumpers/imports/msprobe.h"
#include "dumpers/imports/tensor_file.h"
#include "dumpers/store/directory/dump_directory.h"
#include "dumpers/store/directory/rank_dumps.h"

namespace repro_check::imports {
namespace {

namespace fs = std::filesystem;
using core::printable;

constexpr std::string_view kFormats =
    "a file or folder of .safetensors, .npz, .npy or .pt, or a folder that msprobe wrote";

/// A file, and what its name says.
struct ToRead {
  fs::path file;
  NamedFile named;
};

/// One tensor, read, with what orders it.
struct Read {
  std::uint32_t step = 0;
  std::optional<std::uint64_t> call;
  std::size_t file = 0;
  std::size_t place = 0;
  std::string name;
  core::TensorRecord tensor;
};

std::vector<std::string> files_below(const fs::path& from) {
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(from)) {
    if (entry.is_regular_file()) files.push_back(entry.path().lexically_relative(from).string());
  }
  std::ranges::sort(files, &is_before);
  return files;
}

class Import {
 public:
  Import(const fs::path& from, const fs::path& to, const ImportOptions& options)
      : from_(from), to_(to), options_(options) {}

  ImportSummary run() {
    const store::RecordingPlace place = store::prepare_replacement(
        to_, store::temporary_beside(to_), options_.writing.replace_existing);
    working_ = place.working;
    try {
      read_all();
      store::publish(place);
    } catch (...) {
      std::error_code ignored;
      fs::remove_all(working_, ignored);
      throw;
    }
    return std::move(summary_);
  }

 private:
  void read_all() {
    const std::vector<ProbeDump> probes =
        fs::is_directory(from_) ? find_probe_dumps(from_) : std::vector<ProbeDump>();
    if (!probes.empty()) {
      if (options_.pattern) {
        throw core::usage_error("--pattern is for files of tensors: " + printable(from_.string()) +
                                    " is of msprobe, which names its steps and ranks",
                                "leave it out");
      }
      format_ = "msprobe";
      import_probes(probes);
    } else {
      find_files();
      import_files();
    }
  }

  void leave_out(const std::string& what) { ++summary_.left_out[what]; }

  void find_files() {
    const FileNames names(options_.pattern);
    const bool is_folder = fs::is_directory(from_);
    bool is_beside = false;  // a file of tensors is not named as the pattern says
    const std::vector<std::string> paths =
        is_folder ? files_below(from_) : std::vector{from_.filename().string()};
    for (const std::string& path : paths) {
      const fs::path file = is_folder ? from_ / path : from_;
      if (is_folder && !is_tensor_file(file)) {
        const std::string ending = file.extension().string();
        leave_out(ending.empty() ? "file without ending" : "file " + printable(ending));
        continue;
      }
      auto named = names.read(path);
      if (!named) {
        leave_out("file beside the pattern");
        is_beside = true;
        continue;
      }
      files_.push_back({file, std::move(*named)});
    }
    if (files_.empty()) {
      throw core::usage_error(fmt::format("{}: {}",
                                          printable(from_.string()),
                                          is_beside ? "no file in it is named as the pattern says"
                                                    : "holds no file of tensors"),
                              fmt::format("give {}", kFormats));
    }
  }

  /// The ranks that the names tell, in order; empty: they tell none.
  template <typename Items, typename RankOf>
  std::vector<std::optional<std::uint32_t>> ranks_of(const Items& items, RankOf rank_of) {
    std::set<std::optional<std::uint32_t>> ranks;
    for (const auto& item : items) ranks.insert(rank_of(item));
    if (ranks.size() > 1 && ranks.contains(std::nullopt)) {
      throw core::usage_error(
          printable(from_.string()) + ": some names in it tell a rank, and some do not",
          "import the folder of one rank, or give --pattern with {rank}");
    }
    for (const auto& rank : ranks) {
      if (rank.value_or(0) >= store::kMostRanks) {
        throw core::usage_error(fmt::format("rank {} is no rank of any job", *rank),
                                "give --pattern with {rank} at its place");
      }
    }
    return {ranks.begin(), ranks.end()};
  }

  [[nodiscard]] core::RunManifest manifest_of(std::optional<std::uint32_t> rank,
                                              std::uint32_t ranks) const {
    core::RunManifest manifest;
    manifest.tool_version = options_.tool_version;
    manifest.run_name = to_.filename().string();
    manifest.created = core::utc_now();
    manifest.configuration = "{}";
    manifest.model_path = from_.string();
    manifest.environment.push_back({std::string(core::kImportFormat), format_});
    if (rank && ranks > 1) {
      manifest.environment.push_back({std::string(core::kRank), std::to_string(*rank)});
      manifest.environment.push_back({std::string(core::kRanks), std::to_string(ranks)});
    }
    return manifest;
  }

  /// Makes the dump of each rank.
  /// @param fill  appends its records
  template <typename Fill>
  void make_dumps(const std::vector<std::optional<std::uint32_t>>& ranks, const Fill& fill) {
    const bool is_one = ranks.size() == 1;
    // A rank may be missing.
    const std::uint32_t count = ranks.back().value_or(0) + 1;
    for (const auto& rank : ranks) {
      ImportedDump dump(is_one ? working_ : store::rank_directory(working_, *rank),
                        options_.writing,
                        manifest_of(rank, is_one ? 1 : count));
      fill(rank, dump);
      const core::TraceSummary made = dump.finish();
      summary_.trace.operators += made.operators;
      summary_.trace.tensors += made.tensors;
      summary_.trace.stored_bytes += made.stored_bytes;
    }
    if (is_one) return;
    summary_.ranks = ranks.size();
    store::write_rank_count(working_, count);
  }

  void tell_progress(std::uint64_t total) {
    if (options_.progress) options_.progress(summary_.files, total);
    ++summary_.files;
  }

  void import_files() {
    const auto ranks = ranks_of(files_, [](const ToRead& file) { return file.named.rank; });
    make_dumps(ranks, [&](std::optional<std::uint32_t> rank, ImportedDump& dump) {
      std::vector<Read> all;
      for (std::size_t i = 0; i < files_.size(); ++i) {
        if (files_[i].named.rank == rank) read_file(i, dump, all);
      }
      append(all, dump);
    });
    if (summary_.trace.tensors == 0) {
      throw core::usage_error(printable(from_.string()) + ": holds no tensor",
                              fmt::format("give {}", kFormats));
    }
  }

  void read_file(std::size_t number, ImportedDump& dump, std::vector<Read>& all) {
    const NamedFile& named = files_[number].named;
    tell_progress(files_.size());
    const auto left_out = visit_tensors(files_[number].file, [&](const FileTensor& tensor) {
      all.push_back({named.step.value_or(0),
                     named.call,
                     number,
                     tensor.place,
                     name_of(named, tensor.name),
                     dump.keep(tensor.values)});
    });
    for (const std::string& type : left_out) leave_out("object of class " + printable(type));
  }

  /// A file that holds several tensors names them. What SGLang writes is one, called `value`.
  [[nodiscard]] std::string name_of(const NamedFile& named, const std::string& key) const {
    if (key.empty()) return named.name;
    if (named.call && key == "value") return named.name;
    const bool is_named = named.call || options_.pattern;
    return is_named && !named.name.empty() ? named.name + "." + key : key;
  }

  void append(std::vector<Read>& all, ImportedDump& dump) const {
    std::ranges::sort(all, {}, [](const Read& read) {
      return std::tuple(read.step, read.call.value_or(0), read.file, read.place);
    });
    std::set<std::tuple<std::uint32_t, std::uint64_t, std::string_view>> seen;
    const auto info = std::make_shared<core::OperatorInfo>();
    info->name = core::kTensorRecord;
    for (Read& read : all) {
      if (!seen.emplace(read.step, read.call.value_or(0), read.name).second) {
        throw core::usage_error(
            fmt::format("{}: {} is there a second time, in step {}",
                        printable(files_[read.file].file.string()),
                        read.name.empty() ? "a tensor without a name" : printable(read.name),
                        read.step),
            "tell them apart: --pattern 'step{step}/rank{rank}/{name}-{call}.pt', as the files "
            "are named");
      }
      core::OpRecord record;
      record.op = info;
      record.step = read.step;
      auto site = std::make_shared<core::CallSite>();
      site->module_path = read.name;
      record.site = std::move(site);
      core::TensorRecord& tensor = record.tensors.emplace_back(read.tensor);
      tensor.role = core::TensorRole::kOutput;
      tensor.slot = core::kOnlyTensor;
      record.arguments.push_back({std::string(core::kOnlyTensor), {core::TensorSlot{0}}});
      record.results.push_back({core::TensorSlot{0}});
      dump.append(std::move(record));
    }
  }

  void import_probes(const std::vector<ProbeDump>& probes) {
    const auto ranks = ranks_of(probes, [](const ProbeDump& probe) { return probe.rank; });
    make_dumps(ranks, [&](std::optional<std::uint32_t> rank, ImportedDump& dump) {
      std::set<std::uint32_t> steps;
      for (const ProbeDump& probe : probes) {
        if (probe.rank != rank) continue;
        if (!steps.insert(probe.step).second) {
          throw core::usage_error(
              fmt::format("{}: step {} is there a second time, of another process",
                          printable(probe.folder.string()),
                          probe.step),
              "import the folder of each process by itself");
        }
        tell_progress(probes.size());
        import_probe_dump(probe, dump);
      }
    });
  }

  const fs::path& from_;
  const fs::path& to_;
  const ImportOptions& options_;
  fs::path working_;
  std::string format_ = "tensors";
  std::vector<ToRead> files_;
  ImportSummary summary_;
};

}  // namespace

ImportSummary import_dump(const fs::path& from, const fs::path& to, const ImportOptions& options) {
  try {
    return Import(from, to, options).run();
  } catch (const fs::filesystem_error& error) {
    throw core::usage_error(
        printable(error.path1().string()) + ": cannot be read: " + error.code().message(),
        "check its permissions");
  }
}

}  // namespace repro_check::imports
