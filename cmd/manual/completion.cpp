// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "cmd/manual/manual.h"
#include "cmd/options/command.h"
#include "cmd/terminal/output.h"

namespace repro_check::cmd {
namespace {

constexpr const char* kHead =
    "# SPDX-License-Identifier: Apache-2.0\n"
    "# Written by `repro-check completion`; asks the tool what may come next.\n";

constexpr const char* kBash =
    R"(# A program behind --, as if it were typed alone. $1: where it stands
_repro_check_program() {
  local offset=$1 cur=${COMP_WORDS[COMP_CWORD]} helper completer
  for helper in _comp_command_offset _command_offset; do
    if declare -F "$helper" >/dev/null; then "$helper" "$offset"; return; fi
  done
  compopt -o filenames 2>/dev/null
  if ((COMP_CWORD == offset)); then
    mapfile -t COMPREPLY < <(compgen -c -- "$cur"; compgen -f -- "$cur")
    return
  fi
  completer=$(complete -p -- "${COMP_WORDS[offset]##*/}" 2>/dev/null)
  if [[ $completer =~ ' -F '([^ ]+) ]]; then
    local before="${COMP_WORDS[*]:0:offset} "
    COMP_LINE=${COMP_LINE:${#before}}
    ((COMP_POINT -= ${#before}))
    COMP_WORDS=("${COMP_WORDS[@]:offset}")
    ((COMP_CWORD -= offset))
    "${BASH_REMATCH[1]}" "${COMP_WORDS[0]}" "$cur" "${COMP_WORDS[COMP_CWORD - 1]}"
  else
    mapfile -t COMPREPLY < <(compgen -f -- "$cur")
  fi
}
_repro_check() {
  local cur=${COMP_WORDS[COMP_CWORD]} word rest
  COMPREPLY=()
  if [[ $cur == '=' ]]; then cur=''; fi
  while IFS=$'\t' read -r word rest; do
    case $word in
      :program) _repro_check_program $((rest + 1)) ;;
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
      :program)
        shift $((${line#*$'\t'} + 1)) words
        ((CURRENT -= ${line#*$'\t'} + 1))
        _normal
        return ;;
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
      case ':program*'
        set -l first (math (string split \t -- $line)[2] + 2)
        set -l program (string escape -- $words[$first..-2]) (commandline -ct)
        complete -C (string join ' ' -- $program)
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
