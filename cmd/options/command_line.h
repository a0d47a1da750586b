// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
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

/// One option or positional of a verb, for completions and manual pages.
struct CliOption {
  std::vector<std::string> names;  ///< `-n`, `--repeat`; of a positional its name alone
  std::string value;               ///< `FILE`, `text|json`; empty for a flag
  std::vector<std::string> words;  ///< the values it takes, where they are few
  std::string description;
  bool repeats = false;
  bool required = false;
};

/// The tool itself, one of its verbs, or one below a verb.
struct CliVerb {
  std::string name;
  std::string summary;
  std::vector<CliOption> positionals;
  std::vector<CliOption> options;
  std::vector<CliOption> global_options;  ///< those that every verb takes
  std::vector<std::string> examples;
  std::vector<CliVerb> verbs;  ///< of the tool, or those below a verb
};

/// What an option is to keep to.
struct OptionRules {
  bool required = false;
  bool repeatable = false;     ///< one value each time
  bool commas = false;         ///< between several values
  bool words = false;          ///< all that follow, up to the next option
  bool shows_default = false;  ///< in the help
  const char* excludes = nullptr;
  std::optional<std::pair<std::uint64_t, std::uint64_t>> range = {};
  bool shows_range = true;
  std::function<void(const std::string&)> check = {};  ///< throws core::Error
};

/// What the tool, or one of its verbs, takes on the command line: parser, help, completions and
/// manual pages are made of it. What it fills outlives it.
class Options : core::Pinned {
 public:
  /// Where what was given goes.
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

  // An option is said as help has it: its names, how its value is called, and behind two spaces
  // what it is: `-n,--repeat N  Run so many times`. Names without dashes are those of a positional;
  // one may be both: `config,-c,--config FILE  Configuration`.

  void value(const std::string& text, const Target& into, const OptionRules& rules = {});
  /// One of a few words, `text|json`; another one is an error that names the near miss.
  void word(const std::string& text, const Target& into, const OptionRules& rules = {});
  void flag(const std::string& text, const FlagTarget& into, const OptionRules& rules = {});
  /// All words behind `--`, of a verb whose other positionals stand before it.
  void command(const std::string& text, std::vector<std::string>* into);

  /// A verb of the tool, or one below a verb.
  Options& verb(const std::string& name, const std::string& summary);
  [[nodiscard]] const std::vector<std::unique_ptr<Options>>& verbs() const { return verbs_; }
  [[nodiscard]] std::string name() const;
  /// `repro-check gate accept`
  [[nodiscard]] std::string words() const;
  [[nodiscard]] bool is_chosen() const;

  /// What stands below the options in the help.
  void footer(const std::string& text);
  /// What is added from here on, every verb takes.
  void begin_globals();
  void version(const std::function<std::string()>& text);

  /// Of the tool: fills what was defined.
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
  explicit Options(CLI::App* app);
  void keep_to(CLI::Option& option, const std::string& value, const OptionRules& rules);
  /// Takes the words behind `--` away, where the verb has a place for them.
  [[nodiscard]] std::vector<const char*> take_command(std::vector<const char*> words) const;

  std::unique_ptr<CLI::App> tool_;
  CLI::App* app_;
  bool global_ = false;
  std::vector<std::string>* command_ = nullptr;
  std::vector<std::unique_ptr<Options>> verbs_;
};

/// Members that say themselves which options fill them, in their order:
///     bool list_ = flag(&list_, "--list  List operators, one line each");
///     std::string dump_ = value(&dump_, "dump DUMP  Dump to look into", {.required = true});
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
        "--reference DUMP  Where the dump is that it refers to (dump.reference); repeatable",
        {.repeatable = true});
  }
  /// Options that several verbs share. @param with  what its define() takes besides
  template <typename Group, typename... With>
  Group group(Group* into, With... with) {
    members_.push_back([=](Options& options) { into->define(options, with...); });
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
