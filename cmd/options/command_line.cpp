// SPDX-License-Identifier: Apache-2.0
// The only file of the tool that sees CLI11, whose headers take long to compile. CLI11 cuts the
// words of a command line into options and their values. What they may be, and all that is said of
// them, stands here.
#include "cmd/options/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <string_view>

#include "cmd/options/help.h"
#include "cmd/render/render.h"
#include "cmd/words/catalogue.h"
#include "core/error.h"
#include "core/text/text.h"

namespace repro_check::cmd {
namespace {

namespace fs = std::filesystem;

using Words = std::vector<std::string>;

constexpr const char* kOptions = "Options";
constexpr const char* kGlobalHeading = "Everywhere";
constexpr const char* kNumber = "a number";

Words split(const std::string& text, char separator) {
  Words parts;
  for (const std::string_view part : core::split(text, separator)) {
    if (!part.empty()) parts.emplace_back(part);
  }
  return parts;
}

std::optional<std::string> near(const std::string& word, const Words& known) {
  const std::vector<std::string_view> views(known.begin(), known.end());
  const auto found = core::near_miss(word, views);
  return found ? std::optional(std::string(*found)) : std::nullopt;
}

bool contains(const Words& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

/// `-n` and `--repeat`, but neither `-` nor what stands behind an equals sign.
bool is_option(const std::string& word) { return word.size() > 1 && word.starts_with("-"); }

/// `"many"`, or `nothing`.
std::string shown(const std::string& given) {
  return given.empty() ? "nothing" : "\"" + core::printable(given) + "\"";
}

/// Of an option as Options has it: `-n,--repeat`, `N` and `Run so many times`.
struct OptionText {
  explicit OptionText(const std::string& text) {
    const std::size_t gap = text.find("  ");
    const std::size_t space = text.find(' ');
    names = text.substr(0, space);
    if (space < gap) value = text.substr(space + 1, gap - space - 1);
    if (gap != std::string::npos) help = text.substr(gap + 2);
  }
  std::string names;
  std::string value;  ///< empty for a flag
  std::string help;
};

/// The value of an option, or empty where the text is none of its numbers.
template <typename T>
std::optional<T> number_of(const std::string& text, const OptionRules& rules) {
  const auto number = core::parse_number<T>(text);
  if (!number || text.starts_with("-")) return std::nullopt;
  if constexpr (std::is_same_v<T, double>) {
    return std::isfinite(*number) ? number : std::nullopt;
  } else {
    const auto whole = static_cast<std::uint64_t>(*number);
    const bool is_inside =
        !rules.range || (whole >= rules.range->first && whole <= rules.range->second);
    return is_inside ? number : std::nullopt;
  }
}

/// What a number must be, in words.
template <typename T>
std::string expected_number(const OptionRules& rules) {
  if constexpr (std::is_same_v<T, double>) {
    return "a number of 0 or more";
  } else {
    const std::uint64_t first = rules.range ? rules.range->first : 0;
    const std::uint64_t last = rules.range
                                   ? rules.range->second
                                   : static_cast<std::uint64_t>(std::numeric_limits<T>::max());
    return last == std::numeric_limits<std::uint64_t>::max()
               ? fmt::format("a whole number of {} or more", first)
               : fmt::format("a whole number from {} to {}", first, last);
  }
}

template <typename T>
struct ValueOf {
  using type = T;
};
template <typename T>
struct ValueOf<std::vector<T>> {
  using type = T;
};
template <typename T>
struct ValueOf<std::optional<T>> {
  using type = T;
};

/// The command that a word in place of a verb stands for; empty where there is none.
std::string command_meant_by(const std::string& word) {
  const std::string here = option_text("verbs of other tools", word);
  if (!here.empty()) return "repro-check " + here;
  std::error_code ignored;
  if (word.ends_with(".py")) return fmt::format("repro-check run -- python {}", word);
  if (word.starts_with("python") || word == "torchrun") {
    return fmt::format("repro-check run -- {} ...", word);
  }
  return fs::is_regular_file(word, ignored) ? "repro-check run " + word : "";
}

}  // namespace

/// An option as it was defined, and what is to become of what was given.
struct Options::Given {
  CliOption cli;
  OptionRules rules;
  std::string expected;  ///< what it takes, in words
  std::string fallback;  ///< a flag's value where it was given none
  bool is_list = false;
  CLI::Option* option = nullptr;  ///< null for the words behind --
  std::function<void(const Words&)> take;

  /// `--repeat`, or the name of a positional.
  [[nodiscard]] const std::string& name() const { return cli.names.back(); }
  [[nodiscard]] Words words() const { return option == nullptr ? Words() : option->results(); }

  [[noreturn]] void refuse(const std::string& given, const std::string& see) const {
    throw core::usage_error(fmt::format("{}: expected {}, got {}", name(), expected, shown(given)),
                            mend(given, option_line(cli) + "\n" + see));
  }
  [[nodiscard]] std::string mend(const std::string& given, const std::string& otherwise) const {
    if (std::string own = rules.mend ? rules.mend(given) : std::string(); !own.empty()) {
      return own;
    }
    return given.empty() ? otherwise : near_hint(given, cli.words, otherwise);
  }

  /// @throws core::Error{kUsage} with `see` where nothing better is known
  void fill(const std::string& see) const {
    Words given = words();
    if (given.empty()) return;
    if (!rules.commas) expect_each(given, see);
    if (!is_list && given.size() > 1 && cli.takes != Takes::kNothing) {
      throw core::usage_error(fmt::format("{} was given {} times", name(), given.size()),
                              "it takes one value: leave out all but one");
    }
    if (rules.commas) {
      given = split(fmt::format("{}", fmt::join(given, ",")), ',');
      expect_each(given, see);
    }
    take(given);
  }

  /// Of a number or a word, or of several.
  template <typename Whole>
  void take_into(Whole* target, const Options& of) {
    using Value = typename ValueOf<Whole>::type;
    is_list = std::is_same_v<Whole, std::vector<Value>>;
    if constexpr (!std::is_same_v<Value, std::string>) expected = expected_number<Value>(rules);
    take = [this, target, &of](const Words& words) {
      if constexpr (std::is_same_v<Whole, std::vector<Value>>) {
        target->clear();
        for (const std::string& word : words) target->push_back(value_of<Value>(word, of));
      } else {
        *target = value_of<Value>(words.back(), of);
      }
    };
  }
  void take_into(const std::function<void(const std::string&)>& target, const Options& /*of*/) {
    if (rules.takes == Takes::kNumber) expected = kNumber;
    take = [target](const Words& words) { std::ranges::for_each(words, target); };
  }
  template <typename Value>
  [[nodiscard]] Value value_of(const std::string& word, const Options& of) const {
    if constexpr (std::is_same_v<Value, std::string>) {
      return word;
    } else {
      const auto number = number_of<Value>(word, rules);
      if (!number) refuse(word, of.see_help());
      return *number;
    }
  }

  void expect_each(const Words& given, const std::string& see) const {
    for (const std::string& word : given) expect(word, see);
  }
  void expect(const std::string& word, const std::string& see) const {
    // What looks like an option stands where a value was forgotten; the words of a program may.
    const bool is_option = name().starts_with("-") && cli.takes != Takes::kNothing;
    if (is_option && word.starts_with("--") && word.size() > 2) refuse("", see);
    const bool is_path = cli.takes == Takes::kFile || cli.takes == Takes::kDirectory ||
                         cli.takes == Takes::kDump || cli.takes == Takes::kExisting;
    const bool is_wrong = (is_path && word.empty()) ||
                          (cli.takes == Takes::kWord && !contains(cli.words, word)) ||
                          (cli.takes == Takes::kNumber && !core::parse_number<double>(word));
    if (is_wrong) refuse(word, see);
    if (rules.check) rules.check(word);
  }
};

std::string near_hint(const std::string& word,
                      const std::vector<std::string>& candidates,
                      const std::string& otherwise) {
  const auto found = near(word, candidates);
  return found ? "did you mean " + *found + "?" : otherwise;
}

void expect_path(const std::string& given) {
  std::error_code ignored;
  if (fs::status(given, ignored).type() != fs::file_type::not_found) return;
  const fs::path path = given;
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  const auto beside = near(path.filename().string(), names);
  throw core::usage_error(
      core::printable(given) + ": no such file or directory",
      beside ? "did you mean " + core::printable((path.parent_path() / *beside).string()) + "?"
             : "check the path");
}

Options::Options(const std::string& name, const std::string& summary)
    : tool_(std::make_unique<CLI::App>(summary, name)), app_(tool_.get()), heading_(kOptions) {
  cli_.name = name;
  cli_.summary = summary;
  app_->require_subcommand(0, 1);
  app_->set_help_flag();
  flag("-h,--help  Print this help", &help_);
}

Options::Options(CLI::App* app, Options* above) : app_(app), above_(above), heading_(kOptions) {
  app_->set_help_flag();
  flag("-h,--help  Print this help", &help_);
}

Options::~Options() = default;

Options::Given& Options::add(const std::string& text, const OptionRules& rules) {
  const OptionText said(text);
  Given& given = *given_.emplace_back(std::make_unique<Given>());
  given.rules = rules;
  if (!rules.heading.empty()) heading_ = rules.heading;
  const std::size_t braces = said.names.find('{');
  if (braces != std::string::npos) {
    given.fallback = said.names.substr(braces + 1, said.names.size() - braces - 2);
  }
  given.cli.names = split(said.names.substr(0, braces), ',');
  given.cli.value = said.value;
  given.cli.takes = rules.takes;
  given.cli.description = said.help.empty() ? help_of(given.name()) : said.help;
  given.cli.heading = global_ ? kGlobalHeading : heading_;
  given.cli.required = rules.required;
  given.expected = said.value;
  return given;
}

std::string Options::help_of(const std::string& option) const {
  for (const Options* of = this; of != nullptr; of = of->above_) {
    if (std::string text = option_text(of->cli_.name, option); !text.empty()) return text;
  }
  return option_text("every verb", option);
}

void Options::end_heading() { heading_ = kOptions; }

void Options::value(const std::string& text, const Target& into, const OptionRules& rules) {
  Given& given = add(text, rules);
  std::visit([&](const auto& target) { given.take_into(target, *this); }, into);
  given.cli.repeats = given.is_list;
  if (rules.takes == Takes::kReport) {
    for (const ReportFormat& format : report_formats()) {
      given.cli.words.push_back(std::string(format.name) + "=");
    }
  }
  given.option =
      app_->add_option(fmt::format("{}", fmt::join(given.cli.names, ",")), CLI::callback_t());
  given.option->take_all();
  // Else one word each time, or it would take those of a program.
  const bool is_named = given.name().starts_with("-");
  given.option->allow_extra_args(rules.words || (given.is_list && !is_named));
}

void Options::word(const std::string& text, const Target& into, const OptionRules& rules) {
  OptionRules of_words = rules;
  of_words.takes = Takes::kWord;
  value(text, into, of_words);
  Given& given = *given_.back();
  given.cli.words = split(given.cli.value, '|');
  given.expected = fmt::format("one of {}", fmt::join(given.cli.words, ", "));
}

void Options::some_words(const std::string& text,
                         const std::function<void(const std::string&)>& into,
                         const OptionRules& rules) {
  OptionRules of_words = rules;
  of_words.commas = true;
  word(text, into, of_words);
  Given& given = *given_.back();
  given.fallback = given.cli.words.front();
  given.expected = fmt::format("some of {}", fmt::join(given.cli.words, ", "));
}

void Options::flag(const std::string& text, const FlagTarget& into, const OptionRules& rules) {
  OptionRules of_flags = rules;
  of_flags.takes = Takes::kNothing;
  Given& given = add(text, of_flags);
  const bool has_number = !given.fallback.empty();
  given.expected = has_number ? expected_number<std::uint64_t>(rules) : "no value";
  given.take = [this, into, has_number, &given](const Words& words) {
    std::uint64_t number = words.size();
    for (const std::string& word : words) {
      if (word == "true") continue;  // as CLI11 says that it was given alone
      const auto said = number_of<std::uint64_t>(word, given.rules);
      if (!has_number || !said) given.refuse(word, see_help());
      number = *said;
    }
    if (has_number && contains(words, "true")) {
      number = core::parse_number<std::uint64_t>(given.fallback).value();
    }
    std::visit(
        [&](const auto& target) {
          using Goal = std::decay_t<decltype(target)>;
          if constexpr (!std::is_pointer_v<Goal>) {
            target(static_cast<std::int64_t>(number));
          } else if constexpr (std::is_same_v<Goal, bool*>) {
            *target = true;
          } else {
            *target = number;
          }
        },
        into);
  };
  given.option = app_->add_flag(fmt::format("{}", fmt::join(given.cli.names, ",")));
  given.option->take_all();
}

void Options::command(const std::string& text, std::vector<std::string>* into) {
  Given& given = add(text, {.takes = Takes::kCommand});
  given.cli.repeats = true;
  command_ = into;
}

std::vector<const char*> Options::take_command(std::vector<const char*> words) const {
  const auto dashes = std::ranges::find(words, std::string_view("--"));
  if (dashes == words.end()) return words;
  const auto verb = std::find_if(words.begin() + 1, dashes, [&](std::string_view word) {
    return std::ranges::any_of(verbs_, [&](const auto& one) { return one->name() == word; });
  });
  if (verb == dashes) return words;
  for (const auto& one : verbs_) {
    if (one->name() != *verb || one->command_ == nullptr) continue;
    one->command_->assign(dashes + 1, words.end());
    words.erase(dashes, words.end());
    break;
  }
  return words;
}

const Options::Given* Options::option_of_words(std::string_view word) const {
  for (const auto& given : given_) {
    const bool may_be_alone = given->cli.takes == Takes::kWord && !given->fallback.empty();
    if (may_be_alone && std::ranges::find(given->cli.names, word) != given->cli.names.end()) {
      return given.get();
    }
  }
  return above_ == nullptr ? nullptr : above_->option_of_words(word);
}

std::vector<std::string> Options::with_values(const std::vector<const char*>& words) const {
  std::vector<std::string> out;
  const Options* verb = this;
  bool is_own = true;  // no longer behind --: those are a program's
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = out.emplace_back(words[i]);
    is_own = is_own && word != "--";
    const auto below = std::ranges::find(verb->verbs_, word, &Options::name);
    if (is_own && below != verb->verbs_.end()) verb = below->get();
    const Given* option = is_own ? verb->option_of_words(word) : nullptr;
    if (option == nullptr) continue;
    const Words next = i + 1 < words.size() ? split(words[i + 1], ',') : Words();
    const bool has_words = !next.empty() && std::ranges::all_of(next, [&](const std::string& each) {
      return contains(option->cli.words, each);
    });
    out.back() += "=" + (has_words ? std::string(words[++i]) : option->fallback);
  }
  return out;
}

Options& Options::verb(const std::string& name, const std::string& summary) {
  if (tool_ == nullptr) app_->require_subcommand(0, 1);
  verbs_.emplace_back(new Options(app_->add_subcommand(name, summary), this));
  CliVerb& cli = verbs_.back()->cli_;
  cli.name = name;
  cli.summary = summary;
  cli.heading = "Commands";
  return *verbs_.back();
}

std::string Options::name() const { return cli_.name; }

std::string Options::words() const {
  return above_ == nullptr ? name() : above_->words() + " " + name();
}

std::string Options::see_help() const { return "see `" + words() + " --help`"; }

bool Options::is_chosen() const { return app_->parsed(); }

void Options::begin_globals() { global_ = true; }

void Options::version(const std::function<std::string()>& text) {
  version_text_ = text;
  flag("--version  Print versions", &version_);
}

Options& Options::chosen() {
  for (const auto& verb : verbs_) {
    if (verb->is_chosen()) return verb->chosen();
  }
  return *this;
}

std::string Options::behind_dashes(const std::string& more) const {
  return fmt::format(
      "write the program and its arguments after --: {} -- python train.py{}", words(), more);
}

void Options::refuse_option(const std::string& word) const {
  const std::string name = word.substr(0, word.find('='));
  const std::string bare = name.substr(name.starts_with("--") ? 2 : 1);
  Words known;
  std::string hint;
  bool has_program = false;
  for (const auto& given : given_) {
    for (const std::string& each : given->cli.names) {
      if (each.starts_with("-")) known.push_back(each);
    }
    has_program = has_program || takes_program(given->cli.takes);
    if (!hint.empty()) continue;
    if (contains(given->cli.words, bare)) hint = given->name() + " " + bare;
    if (contains(given->cli.words, bare + "=")) hint = given->name() + " " + bare + "=FILE";
  }
  if (name == "-V") hint = "--version";
  // Only before the verb it is unknown.
  if (contains(known, name)) {
    throw core::usage_error(fmt::format("{} stands before the command", name),
                            fmt::format("write it after the command: {} {}", words(), word));
  }
  if (!hint.empty()) hint = "did you mean " + hint + "?";
  // Of one letter any other is near.
  if (bare.size() > 1 && hint.empty()) hint = near_hint(name, known, "");
  if (hint.empty()) hint = has_program ? behind_dashes(" " + word) : see_help();
  throw core::usage_error("unknown option " + name, hint);
}

void Options::refuse_word(const std::string& word) const {
  const bool is_tool = above_ == nullptr;
  const std::string message = fmt::format(
      "{} \"{}\"", is_tool ? "unknown command" : "unexpected argument", core::printable(word));
  if (const std::string meant = is_tool ? command_meant_by(word) : ""; !meant.empty()) {
    throw core::usage_error(message, "did you mean " + meant + "?");
  }
  Words known;
  for (const auto& verb : verbs_) known.push_back(verb->name());
  if (word.size() < 2) known.clear();  // of one letter any other is near
  throw core::usage_error(
      message, near_hint(word, known, command_ == nullptr ? see_help() : behind_dashes("")));
}

void Options::refuse_unknown(const Words& unknown) const {
  if (unknown.empty()) return;
  // The first word of the tool is a verb, and what follows is its own. Else options come first: the
  // word behind an unknown option may be its value.
  const bool is_verb = above_ == nullptr && !is_option(unknown.front());
  const auto option = std::ranges::find_if(unknown, is_option);
  if (!is_verb && option != unknown.end()) refuse_option(*option);
  refuse_word(unknown.front());
}

void Options::refuse_lacking(const std::string& word) const {
  const std::string last_word = word.substr(0, word.find('='));
  for (const Options* options = this; options != nullptr; options = options->above_) {
    for (const auto& given : options->given_) {
      for (const std::string& name : given->cli.names) {
        // `-qo` as well.
        const bool is_letter = name.size() == 2 && !last_word.starts_with("--") &&
                               is_option(last_word) && last_word.back() == name.back();
        if (given->cli.takes != Takes::kNothing && (last_word == name || is_letter)) {
          given->refuse("", options->see_help());
        }
      }
    }
  }
  throw core::usage_error(core::printable(last_word) + ": expected a value, got nothing",
                          see_help());
}

void Options::fill() const {
  if (above_ != nullptr) above_->fill();
  for (const auto& given : given_) given->fill(see_help());
  for (const auto& given : given_) {
    if (given->rules.excludes == nullptr || given->words().empty()) continue;
    for (const auto& other : given_) {
      if (contains(other->cli.names, given->rules.excludes) && !other->words().empty()) {
        throw core::usage_error(
            fmt::format("{} and {} contradict each other", other->name(), given->name()),
            "give one of them");
      }
    }
  }
}

void Options::expect_required() const {
  for (const auto& given : given_) {
    if (!given->cli.required || !given->words().empty()) continue;
    const CliOption& cli = given->cli;
    const std::string what =
        cli.names.back().starts_with("-") ? cli.names.back() + " " + cli.value : cli.value;
    throw core::usage_error(
        fmt::format("{}: {} is missing", name(), what),
        cli_.examples.empty() ? see_help() : "for example: " + cli_.examples.front());
  }
}

std::optional<std::string> Options::parse(const std::vector<const char*>& words,
                                          std::size_t columns) {
  const std::vector<std::string> with_all = with_values(take_command(words));
  std::vector<const char*> own;
  own.reserve(with_all.size());
  for (const std::string& word : with_all) own.push_back(word.c_str());
  bool lacks_value = false;
  try {
    app_->parse(static_cast<int>(own.size()), own.data());
  } catch (const CLI::ExtrasError&) {
    // What nothing has taken is told below.
  } catch (const CLI::ArgumentMismatch&) {
    lacks_value = true;  // the last word's: all others are followed by one
  } catch (const CLI::Error& error) {
    throw core::internal_error(std::string("the command line cannot be read: ") + error.what());
  }
  const Options& verb = chosen();
  Words unknown = app_->remaining(true);
  std::erase(unknown, "--");
  verb.refuse_unknown(unknown);
  if (lacks_value) verb.refuse_lacking(own.back());
  // CLI11 takes the next word for the value.
  for (const std::string_view word : own) {
    if (word == "--") break;
    if (word.starts_with("--") && word.find('=') == word.size() - 1) {
      verb.refuse_lacking(std::string(word));
    }
  }
  verb.fill();
  if (version_) return version_text_() + "\n";
  for (const Options* each = &verb; each != nullptr; each = each->above_) {
    if (each->help_) return help_text(verb.tree(), verb.words(), verb.footer_, columns);
  }
  if (verb.above_ == nullptr) {
    throw core::usage_error("no command was given", "see `repro-check --help`");
  }
  verb.expect_required();
  return std::nullopt;
}

void Options::expect_paths() const {
  for (const auto& verb : verbs_) {
    if (verb->is_chosen()) verb->expect_paths();
  }
  for (const auto& given : given_) {
    if (given->cli.takes != Takes::kDump && given->cli.takes != Takes::kExisting) continue;
    for (const std::string& word : given->words()) expect_path(word);
  }
}

CliVerb Options::tree() const {
  CliVerb out = cli_;
  for (const auto& given : given_) {
    CliOption option = given->cli;
    const auto is_dashed = [](const std::string& name) { return name.starts_with("-"); };
    // One may be both: `config,-c,--config`.
    if (!is_dashed(option.names.front())) {
      CliOption& positional = out.positionals.emplace_back(option);
      positional.names.resize(1);
      option.names.erase(option.names.begin());
    }
    if (option.names.empty()) continue;
    (option.heading == kGlobalHeading ? out.global_options : out.options).push_back(option);
  }
  for (const auto& verb : verbs_) out.verbs.push_back(verb->tree());
  return out;
}

CliVerb Options::tool_tree() const { return above_ == nullptr ? tree() : above_->tool_tree(); }

void OptionGroup::define(Options& options) {
  for (const auto& add : members_) add(options);
}

}  // namespace repro_check::cmd
