// SPDX-License-Identifier: Apache-2.0
#include "cmd/manual/completions.h"

#include <fmt/format.h>

#include <algorithm>

namespace repro_check::cmd {
namespace {

constexpr const char* kHead =
    "# SPDX-License-Identifier: Apache-2.0\n"
    "# Written by `repro-check completion {}` from the options of the tool.\n";

std::vector<CliOption> all_options(const CliVerb& verb) {
  std::vector<CliOption> all = verb.options;
  all.insert(all.end(), verb.global_options.begin(), verb.global_options.end());
  return all;
}

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (std::size_t at = text.find(what); at != std::string::npos;
       at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
  return text;
}

std::string single_quoted(const std::string& text) {
  return fmt::format("'{}'", replaced(text, "'", "'\\''"));
}

std::vector<std::string> names_of(const std::vector<CliOption>& options) {
  std::vector<std::string> names;
  for (const CliOption& option : options) {
    names.insert(names.end(), option.names.begin(), option.names.end());
  }
  return names;
}

/// Of a verb below `key`: `gate`, `gate accept`.
std::string key_below(const std::string& key, const CliVerb& verb) {
  return key.empty() ? verb.name : key + " " + verb.name;
}

std::vector<std::string> verb_names(const CliVerb& tool) {
  std::vector<std::string> names;
  for (const CliVerb& verb : tool.verbs) names.push_back(verb.name);
  return names;
}

/// What bash completes a value with: an action of the script below.
std::string bash_action(const CliOption& option) {
  switch (value_kind(option)) {
    case CliValue::kWords:
      return fmt::format("words '{}'", fmt::join(option.words, " "));
    case CliValue::kFile:
      return "files";
    case CliValue::kDirectory:
      return "directories";
    case CliValue::kOther:
      break;
  }
  return "nothing";
}

/// A pattern of `case`, with the blanks of a key in it.
std::string bash_pattern(std::string text) { return replaced(std::move(text), " ", "\\ "); }

/// For each verb the word that leads to it: a line of `case`.
std::string bash_verbs(const CliVerb& verb, const std::string& key) {
  if (verb.verbs.empty()) return {};
  std::vector<std::string> cases;
  for (const CliVerb& below : verb.verbs) {
    cases.push_back(bash_pattern(fmt::format("{}:{}", key, below.name)));
  }
  std::string out =
      fmt::format("      {}) verb=${{verb:+$verb }}${{COMP_WORDS[i]}} ;;\n", fmt::join(cases, "|"));
  for (const CliVerb& below : verb.verbs) out += bash_verbs(below, key_below(key, below));
  return out;
}

std::string bash_values(const CliVerb& verb, const std::string& key) {
  std::string out;
  for (const CliOption& option : all_options(verb)) {
    if (option.value.empty()) continue;
    std::vector<std::string> cases;
    for (const std::string& name : option.names) {
      cases.push_back(bash_pattern(fmt::format("{}:{}", key, name)));
    }
    out += fmt::format(
        "    {}) _repro_check_{}; return ;;\n", fmt::join(cases, "|"), bash_action(option));
  }
  for (const CliVerb& below : verb.verbs) out += bash_values(below, key_below(key, below));
  return out;
}

std::string bash_words(const CliVerb& verb, const std::string& key) {
  std::string positional = "nothing";
  if (!verb.positionals.empty()) positional = bash_action(verb.positionals.back());
  if (!verb.verbs.empty()) {
    positional = fmt::format("words '{}'", fmt::join(verb_names(verb), " "));
  }
  std::string out = fmt::format("    '{}') options='{}'; positional=\"{}\" ;;\n",
                                key,
                                fmt::join(names_of(all_options(verb)), " "),
                                positional);
  for (const CliVerb& below : verb.verbs) out += bash_words(below, key_below(key, below));
  return out;
}

constexpr const char* kBashActions = R"(_repro_check_nothing() { COMPREPLY=(); }
_repro_check_words() {
  mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur")
  case "${COMPREPLY[0]-}" in *=) compopt -o nospace 2>/dev/null ;; esac
}
_repro_check_files() {
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen -f -- "$cur")
}
_repro_check_directories() {
  compopt -o filenames 2>/dev/null
  # A packed dump is a file.
  mapfile -t COMPREPLY < <(compgen -d -- "$cur"; compgen -f -X '!*.tar*' -- "$cur")
}
)";

// `=` is a word of its own where COMP_WORDBREAKS has it, as it does by default.
constexpr const char* kBashHead = R"(_repro_check() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev='' verb='' options='' positional='' i
  COMPREPLY=()
  if ((COMP_CWORD > 0)); then prev=${COMP_WORDS[COMP_CWORD - 1]}; fi
  if [[ $cur == '=' ]]; then
    cur=''
    if [[ $prev != -* ]]; then _repro_check_files; return; fi
  elif [[ $prev == '=' ]] && ((COMP_CWORD > 1)); then
    prev=${COMP_WORDS[COMP_CWORD - 2]}
    # The value of `--report FORMAT=` is a file.
    if [[ $prev != -* ]]; then _repro_check_files; return; fi
  fi
)";

}  // namespace

std::string bash_completion(const CliVerb& tool) {
  std::string out = fmt::format(fmt::runtime(kHead), "bash");
  out += kBashActions;
  out += kBashHead;
  out +=
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    case $verb:${COMP_WORDS[i]} in\n" +
      bash_verbs(tool, "") + "    esac\n  done\n";
  out += "  case \"$verb:$prev\" in\n" + bash_values(tool, "");
  out += "  esac\n  case \"$verb\" in\n" + bash_words(tool, "");
  return out +
         "  esac\n"
         "  if [[ $cur == -* ]]; then\n"
         "    _repro_check_words \"$options\"\n"
         "  else\n"
         "    eval \"_repro_check_$positional\"\n"
         "  fi\n"
         "}\n"
         "complete -F _repro_check repro-check\n";
}

namespace {

/// Text inside the brackets or behind the colon of a specification of _arguments.
std::string zsh_text(std::string text) {
  text = replaced(std::move(text), "\\", "\\\\");
  for (const std::string_view special : {"[", "]", ":"}) {
    text = replaced(std::move(text), special, std::string("\\").append(special));
  }
  return text;
}

std::string zsh_action(const CliOption& option) {
  switch (value_kind(option)) {
    case CliValue::kWords:
      if (option.value == "FORMAT=DEST") return "_repro_check_report";
      return fmt::format("({})", fmt::join(option.words, " "));
    case CliValue::kFile:
    case CliValue::kDirectory:
      return "_files";
    case CliValue::kOther:
      break;
  }
  return " ";
}

std::string zsh_specs(const CliVerb& verb) {
  std::string out;
  for (const CliOption& option : all_options(verb)) {
    for (const std::string& name : option.names) {
      const std::string equals = name.starts_with("--") && !option.value.empty() ? "=" : "";
      std::string spec = fmt::format(
          "{}{}{}[{}]", option.repeats ? "*" : "", name, equals, zsh_text(option.description));
      if (!option.value.empty()) {
        spec += fmt::format(":{}:{}", zsh_text(option.value), zsh_action(option));
      }
      out += " \\\n        " + single_quoted(spec);
    }
  }
  std::size_t position = 0;
  for (const CliOption& option : verb.positionals) {
    ++position;
    const std::string place = option.repeats ? "*" : fmt::format("{}", position);
    const std::string spec =
        fmt::format("{}:{}:{}", place, zsh_text(option.names.front()), zsh_action(option));
    out += " \\\n        " + single_quoted(spec);
  }
  return out;
}

/// What `--report` takes, where the verbs have it.
std::string zsh_formats(const CliVerb& tool) {
  for (const CliVerb& verb : tool.verbs) {
    for (const CliOption& option : verb.options) {
      if (option.value != "FORMAT=DEST") continue;
      return replaced(fmt::format("{}", fmt::join(option.words, " ")), "=", "");
    }
  }
  return {};
}

/// The functions that complete a verb with others below it: `NAME_commands` and `NAME`.
std::string zsh_functions(const CliVerb& verb, const std::string& name) {
  std::string out;
  for (const CliVerb& below : verb.verbs) {
    if (!below.verbs.empty()) out += zsh_functions(below, name + "_" + below.name);
  }
  out += name + "_commands() {\n  local -a commands=(\n";
  for (const CliVerb& below : verb.verbs) {
    out += "    " + single_quoted(below.name + ":" + zsh_text(below.summary)) + "\n";
  }
  out += "  )\n  _describe command commands\n}\n";
  out += name +
         "() {\n"
         "  local curcontext=$curcontext state line\n"
         "  typeset -A opt_args\n"
         "  _arguments -C" +
         zsh_specs(verb) + fmt::format(" \\\n        '1: :{}_commands'", name) +
         " \\\n        '*:: :->rest'\n"
         "  [[ $state == rest ]] || return\n"
         "  case $line[1] in\n";
  for (const CliVerb& below : verb.verbs) {
    const std::string body =
        below.verbs.empty() ? "_arguments -s" + zsh_specs(below) : name + "_" + below.name;
    out += fmt::format("    {})\n      {} ;;\n", below.name, body);
  }
  return out + "  esac\n}\n";
}

}  // namespace

std::string zsh_completion(const CliVerb& tool) {
  std::string out = "#compdef repro-check\n" + fmt::format(fmt::runtime(kHead), "zsh");
  out += fmt::format(
      "_repro_check_report() {{\n"
      "  if compset -P '*='; then _files; else compadd -S '=' -- {}; fi\n"
      "}}\n",
      zsh_formats(tool));
  return out + zsh_functions(tool, "_repro_check") +
         "if [ \"$funcstack[1]\" = _repro-check ]; then\n"
         "  _repro_check \"$@\"\n"
         "else\n"
         "  compdef _repro_check repro-check\n"
         "fi\n";
}

namespace {

std::string fish_quoted(const std::string& text) {
  return fmt::format("'{}'", replaced(replaced(text, "\\", "\\\\"), "'", "\\'"));
}

std::string fish_value(const CliOption& option) {
  switch (value_kind(option)) {
    case CliValue::kWords:
      return fmt::format(" -x -a '{}'", fmt::join(option.words, " "));
    case CliValue::kFile:
    case CliValue::kDirectory:
      return " -r -F";
    case CliValue::kOther:
      break;
  }
  return option.value.empty() ? "" : " -x";
}

std::string fish_options(const std::vector<CliOption>& options, const std::string& condition) {
  std::string out;
  for (const CliOption& option : options) {
    out += "complete -c repro-check" + condition;
    for (const std::string& name : option.names) {
      const bool is_long = name.starts_with("--");
      out += (is_long ? " -l " : " -s ") + name.substr(is_long ? 2 : 1);
    }
    out += fish_value(option) + " -d " + fish_quoted(option.description) + "\n";
  }
  return out;
}

/// What stands behind the options of a verb.
std::string fish_positional(const CliVerb& verb, const std::string& condition) {
  if (verb.positionals.empty()) return {};
  const CliOption& last = verb.positionals.back();
  switch (value_kind(last)) {
    case CliValue::kWords:
      return fmt::format(
          "complete -c repro-check{} -a '{}'\n", condition, fmt::join(last.words, " "));
    case CliValue::kFile:
    case CliValue::kDirectory:
      return "complete -c repro-check" + condition + " -F\n";
    case CliValue::kOther:
      break;
  }
  return {};
}

/// @param reached  the condition under which the verb was chosen
std::string fish_verb(const CliVerb& verb, const std::string& reached) {
  std::string here = reached;
  if (!verb.verbs.empty()) {
    here +=
        fmt::format("; and not __fish_seen_subcommand_from {}", fmt::join(verb_names(verb), " "));
  }
  const std::string condition = fmt::format(" -n '{}'", here);
  std::string out = fish_options(all_options(verb), condition) + fish_positional(verb, condition);
  for (const CliVerb& below : verb.verbs) {
    out += fmt::format("complete -c repro-check{} -a {} -d {}\n",
                       condition,
                       below.name,
                       fish_quoted(below.summary));
    out += fish_verb(below,
                     fmt::format("{}; and __fish_seen_subcommand_from {}", reached, below.name));
  }
  return out;
}

}  // namespace

std::string fish_completion(const CliVerb& tool) {
  std::string out = fmt::format(fmt::runtime(kHead), "fish");
  out += "complete -c repro-check -f\n";
  out += fish_options(all_options(tool), " -n __fish_use_subcommand");
  for (const CliVerb& verb : tool.verbs) {
    out += fmt::format("complete -c repro-check -n __fish_use_subcommand -a {} -d {}\n",
                       verb.name,
                       fish_quoted(verb.summary));
    out += fish_verb(verb, "__fish_seen_subcommand_from " + verb.name);
  }
  return out;
}

}  // namespace repro_check::cmd
