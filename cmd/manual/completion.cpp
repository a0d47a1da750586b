// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "cmd/manual/manual.h"
#include "cmd/options/command.h"
#include "cmd/terminal/builtin_texts.h"
#include "cmd/terminal/output.h"

namespace repro_check::cmd {
namespace {

constexpr const char* kHead =
    "# SPDX-License-Identifier: Apache-2.0\n"
    "# Written by `repro-check completion`; asks the tool what may come next.\n";

/// `--policy` `=` `u`, as bash has it, is one word.
std::vector<std::string> joined_at_equals(const std::vector<std::string>& words) {
  std::vector<std::string> joined;
  bool goes_on = false;
  for (const std::string& word : words) {
    goes_on = goes_on || word == "=";
    if (goes_on && !joined.empty()) {
      joined.back() += word;
    } else {
      joined.push_back(word);
    }
    goes_on = word == "=";
  }
  return joined;
}

const CliOption* find_option(const CliVerb& verb, const std::string& name) {
  for (const auto* options : {&verb.options, &verb.global_options}) {
    for (const CliOption& option : *options) {
      if (std::ranges::find(option.names, name) != option.names.end()) return &option;
    }
  }
  return nullptr;
}

/// The lines for one word that is being typed.
class Candidates {
 public:
  explicit Candidates(std::string typed) : typed_(std::move(typed)) {}

  void add(const std::string& word, const std::string& what) {
    if (word.starts_with(typed_)) lines_ += before_ + word + "\t" + what + "\n";
  }
  /// The value of an option, or what stands for itself.
  void add_values(const CliOption& option) {
    for (const std::string& word : option.words) {
      // `junit=` is typed: what follows is a file.
      if (word.ends_with("=") && typed_.starts_with(word)) lines_ = ":files\n";
      add(word, option.description);
    }
    switch (option.takes) {
      case Takes::kFile:
      case Takes::kExisting:
        lines_ += ":files\n";
        break;
      case Takes::kCommand:
      case Takes::kFileOrCommand:
        lines_ += ":files\n";
        add("--", option.description);
        break;
      case Takes::kDirectory:
      case Takes::kDump:
        lines_ += ":directories\n";
        break;
      default:
        break;
    }
  }
  /// Completes what is behind `=` in the word.
  /// @param shown  whether the shell has what is before it as a part of the word
  void move_behind(std::size_t equals, bool shown) {
    if (shown) before_ = typed_.substr(0, equals + 1);
    typed_.erase(0, equals + 1);
  }
  [[nodiscard]] const std::string& lines() const { return lines_; }

 private:
  std::string before_;
  std::string typed_;
  std::string lines_;
};

std::string completion_script(const std::string& shell) {
  const std::string first = shell == "zsh" ? "#compdef repro-check\n" : "";
  return first + kHead + std::string(builtin_text("manual/completion." + shell));
}

class CompletionCommand final : public Command {
 public:
  CompletionCommand()
      : Command({"completion", "Print a script that completes commands in a shell"}) {}

  core::ExitCode run(const GlobalOptions& /*globals*/) override {
    write_stdout(completion_script(shell_));
    return core::ExitCode::kReproducible;
  }

 private:
  std::string shell_ = word(&shell_, "shell bash|zsh|fish", {}, {.required = true});
};

}  // namespace

std::unique_ptr<Command> completion_command() { return std::make_unique<CompletionCommand>(); }

namespace {

void add_options(const CliVerb& verb, const std::string& shell, Candidates& candidates) {
  for (const auto* options : {&verb.options, &verb.global_options}) {
    for (const CliOption& option : *options) {
      for (const std::string& name : option.names) {
        const bool takes = shell == "zsh" && name.starts_with("--") && !option.value.empty();
        candidates.add(name + (takes ? "=" : ""), option.description);
      }
    }
  }
}

/// Whether a verb takes a program behind `--`.
bool has_program(const CliVerb& verb) {
  return std::ranges::any_of(verb.positionals, takes_program, &CliOption::takes);
}

/// Where the program stands behind `--`, if what is being typed is one or belongs to one.
std::optional<std::size_t> program_behind(const CliVerb& tool,
                                          const std::vector<std::string>& words) {
  if (words.empty()) return std::nullopt;
  const auto dashes = std::find(words.begin(), words.end() - 1, "--");
  if (dashes == words.end() - 1) return std::nullopt;
  const bool takes = std::any_of(words.begin(), dashes, [&](const std::string& word) {
    const auto verb = std::ranges::find(tool.verbs, word, &CliVerb::name);
    return verb != tool.verbs.end() && has_program(*verb);
  });
  if (!takes) return std::nullopt;
  return static_cast<std::size_t>(dashes - words.begin()) + 1;
}

}  // namespace

std::string next_words(const CliVerb& tool,
                       std::vector<std::string> words,
                       const std::string& shell) {
  if (const auto program = program_behind(tool, words)) {
    return fmt::format(":program\t{}\n", *program);
  }
  words = joined_at_equals(words);
  if (words.empty()) words.emplace_back();
  const CliVerb* verb = &tool;
  const CliOption* open = nullptr;  ///< waits for its value
  std::size_t positionals = 0;      ///< that are whole
  for (const std::string& word : std::vector(words.begin(), words.end() - 1)) {
    if (open != nullptr) {
      open = nullptr;
    } else if (word.starts_with("-")) {
      open = find_option(*verb, word);
      if (open != nullptr && open->value.empty()) open = nullptr;
    } else if (const auto below = std::ranges::find(verb->verbs, word, &CliVerb::name);
               below != verb->verbs.end()) {
      verb = &*below;
    } else {
      ++positionals;
    }
  }
  const std::string& typed = words.back();
  Candidates candidates(typed);
  const std::size_t equals = typed.find('=');
  if (open == nullptr && typed.starts_with("-") && equals != std::string::npos) {
    open = find_option(*verb, typed.substr(0, equals));
    candidates.move_behind(equals, shell != "bash");
  }
  if (open != nullptr) {
    candidates.add_values(*open);
  } else if (typed.starts_with("-")) {
    add_options(*verb, shell, candidates);
  } else {
    for (const CliVerb& below : verb->verbs) candidates.add(below.name, below.summary);
    const bool is_verb = !candidates.lines().empty();
    if (is_verb || verb->positionals.empty()) return candidates.lines();
    const CliOption& last = verb->positionals.back();
    const CliOption& next = verb->positionals[std::min(positionals, verb->positionals.size() - 1)];
    candidates.add_values(next);
    // A program takes the place of a configuration.
    if (&next != &last && last.takes == Takes::kCommand) candidates.add_values(last);
  }
  return candidates.lines();
}

}  // namespace repro_check::cmd
