// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "cmd/options/command.h"
#include "cmd/options/command_line.h"
#include "cmd/options/config_options.h"
#include "cmd/recording/kit.h"
#include "cmd/recording/recorder_process.h"
#include "cmd/recording/space.h"
#include "cmd/render/text.h"
#include "cmd/terminal/logging.h"
#include "cmd/terminal/output.h"
#include "configs/spec/run_config.h"
#include "core/error.h"
#include "core/system/file_descriptor.h"
#include "core/trace/run_manifest.h"

namespace repro_check::cmd {
namespace {

using core::EnvironmentFact;

namespace fs = std::filesystem;

/// What was built at first use against one PyTorch, of one kit, as kit.py of the hooks keeps it.
struct Built {
  std::string torch;  ///< version of the PyTorch
  fs::path folder;
  std::vector<std::string> products;  ///< `probe`, `recorder`; none where a build did not end
  std::uint64_t bytes = 0;            ///< of everything in the folder
};

constexpr std::string_view kAbi = "-cxx11-";

fs::path home_folder() {
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') return home;
  const passwd* user = ::getpwuid(::getuid());
  return user != nullptr ? user->pw_dir : "";
}

core::Error io_error(const fs::path& file, const std::error_code& error) {
  return core::io_error(file.string() + ": " + error.message());
}

/// A build may be adding to it and taking away.
Built look_into(const fs::path& folder) {
  const std::string name = folder.filename().string();
  Built built{name.substr(0, name.find(kAbi)), folder, {}, dump_size(folder).value_or(0)};
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string file = entry->path().filename().string();
    std::string product = file == "probe.so" ? "probe" : "";
    if (file.starts_with("repro-check-recorder-")) product = "recorder";
    // Of one release in several environments there are several recorders.
    if (!product.empty() && std::ranges::count(built.products, product) == 0) {
      built.products.push_back(std::move(product));
    }
  }
  std::ranges::sort(built.products);
  return built;
}

/// Folders such as `2.13.0+cpu-cxx11-0.1.0-0123456789ab`, by name.
std::vector<Built> look_around(const fs::path& cache) {
  std::vector<Built> all;
  std::error_code error;
  for (fs::directory_iterator entry(cache, error), end; !error && entry != end;
       entry.increment(error)) {
    const bool ours = entry->path().filename().string().find(kAbi) != std::string::npos;
    std::error_code gone;
    if (ours && entry->is_directory(gone)) all.push_back(look_into(entry->path()));
  }
  if (error && error != std::errc::no_such_file_or_directory) throw io_error(cache, error);
  std::ranges::sort(all, {}, &Built::folder);
  return all;
}

bool has_no_product(const Built& built) { return built.products.empty(); }

/// Held by whoever builds it, until the process ends. What cannot be locked is taken to be free.
bool is_being_built(const core::FileDescriptor& lock) {
  return lock.get() >= 0 && ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

/// Where this user's are: $XDG_CACHE_HOME/repro-check, else ~/.cache/repro-check.
fs::path built_cache() {
  const char* named = std::getenv("XDG_CACHE_HOME");
  const fs::path given = named != nullptr ? named : "";
  return (given.is_absolute() ? given : home_folder() / ".cache") / "repro-check";
}

/// Those that have a product, by name; none where there is no such folder.
/// @throws core::Error{kIo} where it cannot be read
std::vector<Built> list_built() {
  std::vector<Built> all = look_around(built_cache());
  std::erase_if(all, has_no_product);
  return all;
}

/// Removes them, what interrupted builds have left too, and their folder where nothing else is in
/// it. What is being built stays.
/// @return what had a product
/// @throws core::Error{kIo} where something cannot be removed
std::vector<Built> remove_built() {
  std::vector<Built> removed;
  for (const Built& built : look_around(built_cache())) {
    const core::FileDescriptor lock(::open((built.folder / "lock").c_str(), O_RDWR | O_CLOEXEC));
    if (is_being_built(lock)) {
      log_warning("the current build for PyTorch " + built.torch + " stays");
      continue;
    }
    std::error_code error;
    fs::remove_all(built.folder, error);
    if (error) throw io_error(built.folder, error);
    removed.push_back(built);
  }
  std::erase_if(removed, has_no_product);
  std::error_code not_empty;
  fs::remove(built_cache(), not_empty);
  return removed;
}

/// What can be known without LibTorch.
std::vector<EnvironmentFact> facts_of_the_system() {
  std::vector<EnvironmentFact> facts;
  utsname system{};
  if (::uname(&system) == 0) {
    facts.push_back({"os.kernel", std::string(system.sysname) + " " + system.release});
    facts.push_back({"cpu.architecture", system.machine});
  }
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) {
      facts.push_back({"cpu.model", line.substr(colon + 2)});
      break;
    }
  }
  facts.push_back({"cpu.online", std::to_string(::sysconf(_SC_NPROCESSORS_ONLN))});
  for (const std::string_view each : core::known_variables()) {
    const std::string name(each);
    const char* value = std::getenv(name.c_str());
    if (value != nullptr) facts.push_back({"env." + name, value});
  }
  return facts;
}

std::vector<EnvironmentFact> facts_of_the_recorder(const std::filesystem::path& recorder) {
  const std::string answer = ask_recorder({{recorder, {"environment"}}});
  try {
    std::vector<EnvironmentFact> facts;
    const nlohmann::json document = nlohmann::json::parse(answer);
    for (const char* group : {"environment", "settings"}) {
      if (!document.contains(group)) continue;
      for (const nlohmann::json& fact : document.at(group)) {
        facts.push_back({fact.at("name").get<std::string>(), fact.at("value").get<std::string>()});
      }
    }
    return facts;
  } catch (const nlohmann::json::exception& error) {
    throw core::run_failed(recorder.string() + " gave an unexpected answer: " + error.what());
  }
}

std::string described(const Built& built) {
  return fmt::format("{}, {}", fmt::join(built.products, " and "), format_bytes(built.bytes));
}

void add_facts_of_the_cache(std::vector<EnvironmentFact>& facts) {
  for (const Built& built : list_built()) {
    facts.push_back({"built." + built.torch, described(built) + ": " + built.folder.string()});
  }
}

std::string removed_text(const std::vector<Built>& removed) {
  std::string text;
  for (const Built& built : removed) {
    text += fmt::format("removed for PyTorch {}: {}: {}\n",
                        escape_name(built.torch),
                        described(built),
                        escape_name(built.folder.string()));
  }
  return removed.empty() ? "nothing is built in " + escape_name(built_cache().string()) + "\n"
                         : text;
}

std::string facts_text(const std::vector<EnvironmentFact>& facts) {
  std::size_t width = 0;
  for (const EnvironmentFact& fact : facts) width = std::max(width, fact.name.size());
  std::string text;
  for (const EnvironmentFact& fact : facts) {
    text += fmt::format("{:<{}}  {}\n", escape_name(fact.name), width, escape_name(fact.value));
  }
  return text;
}

std::string export_lines(const configs::RunSpec& run) {
  std::string text = "# variables of run " + escape_name(run.name) + "\n";
  for (const auto& [name, value] : configs::pinned_environment(run)) {
    text += value ? fmt::format("export {}={}\n", name, shell_quote(*value))
                  : fmt::format("unset {}\n", name);
  }
  return text;
}

void mention_other_runs(const configs::Config& config, const configs::RunSpec& shown) {
  for (const configs::RunSpec& run : config.runs) {
    if (configs::pinned_environment(run) != configs::pinned_environment(shown)) {
      log_info("run " + run.name + " has other variables: --run " + run.name);
    }
  }
}

class EnvCommand final : public Command {
 public:
  EnvCommand()
      : Command({"env",
                 "Show the machine and the installed parts, or the variables that a configuration "
                 "sets"}) {}

  core::ExitCode run(const GlobalOptions&) override {
    if (clean_) {
      if (config_.given() || run_name_) {
        throw core::usage_error("--clean takes no other option");
      }
      write_stdout(removed_text(remove_built()));
      return core::ExitCode::kReproducible;
    }
    if (config_.given()) {
      const configs::Config config = config_.load();
      const configs::RunSpec& run = choose_run(config, run_name_);
      if (!run_name_) mention_other_runs(config, run);
      write_stdout(export_lines(run));
      return core::ExitCode::kReproducible;
    }
    if (run_name_) {
      throw core::usage_error("--run needs a configuration", "add -c FILE");
    }
    const auto recorder = find_recorder();
    if (!recorder) log_info("no recorder is installed yet, so LibTorch is not described");
    std::vector<EnvironmentFact> facts =
        recorder ? facts_of_the_recorder(*recorder) : facts_of_the_system();
    add_facts_of_the_cache(facts);
    write_stdout(facts_text(facts));
    return core::ExitCode::kReproducible;
  }

 private:
  ConfigOptions config_ = group(&config_, false);
  std::optional<std::string> run_name_ = value(&run_name_, "--run NAME");
  bool clean_ = flag(&clean_, "--clean");
};

}  // namespace

std::unique_ptr<Command> env_command() { return std::make_unique<EnvCommand>(); }

}  // namespace repro_check::cmd
