// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "cmd/manual/manual.h"
#include "cmd/options/command.h"
#include "cmd/terminal/output.h"

namespace repro_check::cmd {
namespace {

constexpr const char* kHead =
    "# SPDX-License-Identifier: Apache-2.0\n"
    "# Written by `repro-check completion`; asks the tool what may come next.\n";

constexpr const char* kBash = R"(_repro_check() {
  local cur=${COMP_WORDS[COMP_CWORD]} word
  COMPREPLY=()
  if [[ $cur == '=' ]]; then cur=''; fi
  while IFS=$'\t' read -r word _; do
    case $word in
      :files)
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
      :directories)
        compopt -o filenames 2>/dev/null
        # A packed dump is a file.
        mapfile -t COMPREPLY < <(compgen -d -- "$cur"; compgen -f -X '!*.tar*' -- "$cur") ;;
      *=)
        compopt -o nospace 2>/dev/null
        COMPREPLY+=("$word") ;;
      *) COMPREPLY+=("$word") ;;
    esac
  done < <("${COMP_WORDS[0]}" completion bash -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _repro_check repro-check
)";

constexpr const char* kZsh = R"(_repro_check() {
  local -a closed open
  local line word
  for line in "${(@f)$("${words[1]}" completion zsh -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    word=${line%%$'\t'*}
    case $word in
      :files|:directories) compset -P '*='; _files ;;
      *=) open+=("$word") ;;
      ?*) closed+=("$word:${line#*$'\t'}") ;;
    esac
  done
  if (( $#open )); then compadd -S '' -a open; fi
  if (( $#closed )); then _describe command closed; fi
}
if [ "$funcstack[1]" = _repro-check ]; then
  _repro_check "$@"
else
  compdef _repro_check repro-check
fi
)";

constexpr const char* kFish = R"(function __repro_check_next
  set -l words (commandline -opc) (commandline -ct)
  for line in ($words[1] completion fish -- $words[2..-1] 2>/dev/null)
    switch $line
      case ':files' ':directories'
        __fish_complete_path (commandline -ct | string replace -r '^.*=' '')
      case '*'
        echo $line
    end
  end
end
complete -c repro-check -f -a '(__repro_check_next)'
)";

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
    const std::string& value = option.value;
    for (const std::string& word : option.words) {
      // `junit=` is typed: what follows is a file.
      if (word.ends_with("=") && typed_.starts_with(word)) lines_ = ":files\n";
      add(word, option.description);
    }
    if (!option.words.empty()) return;
    // `FILE.new` and the like too.
    if (value.starts_with("FILE") || value == "PATH" || value == "MODEL") lines_ += ":files\n";
    if (value == "DIR" || value == "DUMP") lines_ += ":directories\n";
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
  return first + kHead + (shell == "bash" ? kBash : shell == "zsh" ? kZsh : kFish);
}

class CompletionCommand final : public Command {
 public:
  CompletionCommand()
      : Command({"completion",
                 "Print a script that completes commands in a shell",
                 {"source <(repro-check completion bash)",
                  "repro-check completion zsh > ~/.zfunc/_repro-check",
                  "repro-check completion fish > ~/.config/fish/completions/repro-check.fish"}}) {}

  core::ExitCode run(const GlobalOptions& /*globals*/) override {
    write_stdout(completion_script(shell_));
    return core::ExitCode::kReproducible;
  }

 private:
  std::string shell_ =
      word(&shell_, "shell bash|zsh|fish  The shell to write it for", {}, {.required = true});
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

}  // namespace

std::string next_words(const CliVerb& tool,
                       std::vector<std::string> words,
                       const std::string& shell) {
  words = joined_at_equals(words);
  if (words.empty()) words.emplace_back();
  const CliVerb* verb = &tool;
  const CliOption* open = nullptr;  ///< waits for its value
  for (const std::string& word : std::vector(words.begin(), words.end() - 1)) {
    if (open != nullptr) {
      open = nullptr;
    } else if (word.starts_with("-")) {
      open = find_option(*verb, word);
      if (open != nullptr && open->value.empty()) open = nullptr;
    } else if (const auto below = std::ranges::find(verb->verbs, word, &CliVerb::name);
               below != verb->verbs.end()) {
      verb = &*below;
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
    if (!is_verb && !verb->positionals.empty()) candidates.add_values(verb->positionals.back());
  }
  return candidates.lines();
}

}  // namespace repro_check::cmd
