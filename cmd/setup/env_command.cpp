// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cmd/options/command.h"
#include "cmd/options/command_line.h"
#include "cmd/options/config_options.h"
#include "cmd/recording/recorder_place.h"
#include "cmd/recording/recorder_process.h"
#include "cmd/render/text.h"
#include "cmd/setup/built_cache.h"
#include "cmd/terminal/logging.h"
#include "cmd/terminal/output.h"
#include "configs/spec/run_config.h"
#include "core/error.h"
#include "core/trace/run_manifest.h"

namespace repro_check::cmd {
namespace {

using core::EnvironmentFact;

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
  for (const core::KnownVariable& variable : core::known_variables()) {
    const char* value = std::getenv(std::string(variable.name).c_str());
    if (value != nullptr) facts.push_back({"env." + std::string(variable.name), value});
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
    throw core::run_failed(recorder.string() +
                           " gave an answer that makes no sense: " + error.what());
  }
}

std::string described(const Built& built) {
  return fmt::format("{}, {}", fmt::join(built.products, " and "), format_bytes(built.bytes));
}

void add_facts_of_the_cache(std::vector<EnvironmentFact>& facts) {
  for (const Built& built : list_built(built_cache())) {
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
                 "Show the machine and what is built, or the variables a configuration pins",
                 {"repro-check env",
                  "repro-check env --clean",
                  "eval \"$(repro-check env -c config.json --run candidate)\""}}) {}

  core::ExitCode run(const GlobalOptions&) override {
    if (clean_) {
      if (config_.given() || run_name_) {
        throw core::usage_error("--clean goes with nothing else");
      }
      write_stdout(removed_text(remove_built(built_cache())));
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
    if (!recorder) log_info("no recorder is there yet, so nothing is said of LibTorch");
    std::vector<EnvironmentFact> facts =
        recorder ? facts_of_the_recorder(*recorder) : facts_of_the_system();
    add_facts_of_the_cache(facts);
    write_stdout(facts_text(facts));
    return core::ExitCode::kReproducible;
  }

 private:
  ConfigOptions config_ = group(&config_, false);
  std::optional<std::string> run_name_ =
      value(&run_name_, "--run NAME  Which run of the configuration");
  bool clean_ = flag(&clean_, "--clean  Remove what was built at first use");
};

}  // namespace

std::unique_ptr<Command> env_command() { return std::make_unique<EnvCommand>(); }

}  // namespace repro_check::cmd
