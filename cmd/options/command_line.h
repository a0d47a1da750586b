// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "core/system/pinned.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace repro_check::cmd {

/// What an option takes.
enum class Takes {
  kText,       ///< any text; a number where the target is one
  kNothing,    ///< a flag
  kNumber,     ///< a number, where the target is a function
  kWord,       ///< one of a few words
  kFile,       ///< a file, there or to be made
  kDirectory,  ///< a folder, there or to be made
  kDump,       ///< what holds a recording: a folder or a pack
  kExisting,   ///< a file or folder that is there, whatever it holds
  kReport,     ///< a format of reports, `=` and a file
  kCommand,    ///< the words of a program, which stand behind --
  kFileOrCommand,
};
constexpr bool takes_program(Takes takes) noexcept {
  return takes == Takes::kCommand || takes == Takes::kFileOrCommand;
}

/// One option or positional of a verb, for help, completions and manual pages.
struct CliOption {
  std::vector<std::string> names;  ///< `-n`, `--repeat`; of a positional its name alone
  std::string value;               ///< how help calls the value, `FILE`; empty for a flag
  Takes takes = Takes::kText;
  std::vector<std::string> words;  ///< the values it takes, where they are few
  std::string description;
  std::string heading;  ///< what it stands below in the help
  bool repeats = false;
  bool required = false;
};

/// The tool itself, one of its verbs, or one below a verb.
struct CliVerb {
  std::string name;
  std::string summary;
  std::string heading;  ///< what it stands below in the help of what is above it
  std::vector<CliOption> positionals;
  std::vector<CliOption> options;
  std::vector<CliOption> global_options;  ///< those that every verb takes
  std::vector<std::string> examples;
  std::vector<CliVerb> verbs;  ///< of the tool, or those below a verb
};

/// What an option is to keep to.
struct OptionRules {
  Takes takes = Takes::kText;
  bool required = false;
  bool commas = false;  ///< between several values
  bool words = false;   ///< all that follow, up to the next option
  const char* excludes = nullptr;
  std::optional<std::pair<std::uint64_t, std::uint64_t>> range = {};
  std::function<void(const std::string&)> check = {};  ///< throws core::Error
  /// How to mend another word than those it takes; empty where nothing is known of it.
  std::function<std::string(const std::string&)> mend = {};
  /// Begins a group in the help, up to the next; empty = goes on in the one before it.
  std::string heading = {};
};

/// What the tool, or one of its verbs, takes on the command line: parser, help, completions and
/// manual pages are made of it. What it fills outlives it.
class Options : core::Pinned {
 public:
  /// Where what was given goes. A list takes the option several times, all others take it once.
  using Target = std::variant<std::string*,
                              std::optional<std::string>*,
                              std::vector<std::string>*,
                              std::uint64_t*,
                              std::optional<std::uint64_t>*,
                              std::uint32_t*,
                              int*,
                              std::vector<int>*,
                              double*,
                              std::function<void(const std::string&)>>;
  /// Of a function or number, how often the flag was given, or the number that was given with it.
  using FlagTarget =
      std::variant<bool*, std::optional<std::uint64_t>*, std::function<void(std::int64_t)>>;

  /// The tool.
  Options(const std::string& name, const std::string& summary);
  ~Options();

  // An option is said as help has it: its names and how its value is called, `-n,--repeat N`. What
  // it does is in words/options.json, or stands behind two spaces. Names without dashes are those
  // of a positional; one may be both: `config,-c,--config FILE  Configuration`. What it takes is
  // said by the target and the rules, never by how the value is called.

  void value(const std::string& text, const Target& into, const OptionRules& rules = {});
  /// One of a few words, `text|json`; another one is an error that names the near miss.
  void word(const std::string& text, const Target& into, const OptionRules& rules = {});
  /// Some of a few words, with commas between them; the first of these where none follows.
  void some_words(const std::string& text,
                  const std::function<void(const std::string&)>& into,
                  const OptionRules& rules = {});
  /// `--values{10}` may be given a number, and stands for 10 without one.
  void flag(const std::string& text, const FlagTarget& into, const OptionRules& rules = {});
  /// All words behind `--`, of a verb whose other positionals stand before it.
  void command(const std::string& text, std::vector<std::string>* into);
  /// What is added from here on stands below the heading that options have by themselves.
  void end_heading();

  /// A verb of the tool, or one below a verb.
  Options& verb(const std::string& name, const std::string& summary);
  [[nodiscard]] const std::vector<std::unique_ptr<Options>>& verbs() const { return verbs_; }
  [[nodiscard]] std::string name() const;
  /// `repro-check gate accept`
  [[nodiscard]] std::string words() const;
  [[nodiscard]] bool is_chosen() const;

  /// What a verb stands below in the help of the tool.
  void set_heading(const std::string& heading) { cli_.heading = heading; }
  void set_examples(const std::vector<std::string>& lines) { cli_.examples = lines; }
  /// What stands below all else in the help.
  void set_footer(const std::string& text) { footer_ = text; }
  /// What is added from here on, every verb takes.
  void begin_globals();
  void version(const std::function<std::string()>& text);

  /// Of the tool: fills what was defined. Words that no verb knows are told before anything else
  /// that is wrong.
  /// @param columns  of help; 0 = as it is
  /// @return help or versions, where those were asked for
  /// @throws core::Error{kUsage}
  std::optional<std::string> parse(const std::vector<const char*>& words, std::size_t columns);

  /// Dumps are where they are said to be, or the command line is wrong: told before anything is
  /// opened, and after what else is wrong with the words.
  /// @throws core::Error{kUsage}
  void expect_paths() const;

  /// Everything that the tool and its verbs take.
  [[nodiscard]] CliVerb tool_tree() const;

 private:
  struct Given;
  Options(CLI::App* app, Options* above);
  Given& add(const std::string& text, const OptionRules& rules);
  /// Of words/options.json.
  [[nodiscard]] std::string help_of(const std::string& option) const;
  [[nodiscard]] Options& chosen();
  [[nodiscard]] CliVerb tree() const;
  /// Takes the words behind `--` away, where the verb has a place for them.
  [[nodiscard]] std::vector<const char*> take_command(std::vector<const char*> words) const;
  /// Each option of some words with its words, or the first that it takes, behind `=`: what follows
  /// may be a positional.
  [[nodiscard]] std::vector<std::string> with_values(const std::vector<const char*>& words) const;
  /// Of this verb or of one above it; null where `word` is none.
  [[nodiscard]] const Given* option_of_words(std::string_view word) const;
  /// Where to look when nothing better is known.
  [[nodiscard]] std::string see_help() const;
  /// How a program is given. @param more  an option of it
  [[nodiscard]] std::string behind_dashes(const std::string& more) const;
  [[noreturn]] void refuse_option(const std::string& word) const;
  [[noreturn]] void refuse_word(const std::string& word) const;
  /// Of the verb that was chosen. @param unknown  words that nothing has taken, in their order
  void refuse_unknown(const std::vector<std::string>& unknown) const;
  /// @throws core::Error{kUsage} for an option that lacks its value
  void refuse_lacking(const std::string& word) const;
  void fill() const;
  void expect_required() const;

  std::unique_ptr<CLI::App> tool_;
  CLI::App* app_;
  Options* above_ = nullptr;
  CliVerb cli_;  ///< but for options and verbs
  std::string footer_;
  std::string heading_;
  bool global_ = false;
  bool help_ = false;
  bool version_ = false;
  std::function<std::string()> version_text_;
  std::vector<std::string>* command_ = nullptr;
  std::vector<std::unique_ptr<Given>> given_;
  std::vector<std::unique_ptr<Options>> verbs_;
};

/// Members that say themselves which options fill them, in their order:
///     bool list_ = flag(&list_, "--list");
///     std::string dump_ = value(&dump_, "dump DUMP", {.required = true});
/// Until the words are parsed they have the value they begin with.
class OptionGroup : core::Pinned {
 public:
  virtual ~OptionGroup() = default;
  /// Adds what the members describe.
  virtual void define(Options& options);

 protected:
  template <typename T>
  T value(T* into,
          const std::string& text,
          const OptionRules& rules = {},
          std::type_identity_t<T> begin = {}) {
    members_.push_back([=](Options& options) { options.value(text, into, rules); });
    return begin;
  }
  template <typename T>
  T word(T* into,
         const std::string& text,
         std::type_identity_t<T> begin = {},
         const OptionRules& rules = {}) {
    members_.push_back([=](Options& options) { options.word(text, into, rules); });
    return begin;
  }
  template <typename T>
  T flag(T* into, const std::string& text, const OptionRules& rules = {}) {
    members_.push_back([=](Options& options) { options.flag(text, into, rules); });
    return {};
  }
  /// Where a dump is that another one refers to.
  std::vector<std::string> references(std::vector<std::string>* into) {
    return value(
        into,
        "--reference DUMP  Place of the dump that this one refers to (dump.reference); repeatable",
        {.takes = Takes::kDump});
  }
  /// Options that several verbs share. @param with  what its define() takes besides
  template <typename Group, typename... With>
  Group group(Group* into, With... with) {
    members_.push_back([=](Options& options) {
      into->define(options, with...);
      options.end_heading();
    });
    return Group();
  }

 private:
  std::vector<std::function<void(Options&)>> members_;
};

/// What is not there is a mistake of the command line, told with the near miss.
/// @throws core::Error{kUsage}
void expect_path(const std::string& given);

/// `did you mean <near>?`; `otherwise` where none of them is near.
std::string near_hint(const std::string& word,
                      const std::vector<std::string>& candidates,
                      const std::string& otherwise);

}  // namespace repro_check::cmd
