// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "baselines/baseline.h"
#include "baselines/detail/tokens.h"
#include "core/error.h"
#include "core/text/printable.h"

namespace repro_check::baselines {
namespace {

using Words = std::vector<std::string_view>;

constexpr std::size_t kLongestFile = std::size_t{64} << 20U;
constexpr const char* kMend = "take the file from version control again, or accept anew";

constexpr std::string_view kKinds = "iwb";
constexpr std::string_view kPhases = "fgo";

class Reader {
 public:
  Reader(std::string_view text, const std::string& origin) : text_(text), origin_(origin) {}

  Baseline read();

 private:
  [[nodiscard]] core::Error damaged(std::string_view what) const {
    return {core::ErrorKind::kDumpDamaged,
            fmt::format("{}: line {}: {}", core::printable(origin_), line_number_, what),
            kMend};
  }

  template <typename T>
  [[nodiscard]] T need(std::optional<T> value, std::string_view what) const {
    if (!value) throw damaged(fmt::format("expected {}", what));
    return *std::move(value);
  }

  void check_frame();
  void next_line();
  [[nodiscard]] bool at(std::string_view letter) const { return words_.front() == letter; }
  [[nodiscard]] bool at_one_of(std::string_view letters) const {
    return words_.front().size() == 1 && letters.find(words_.front()) != std::string_view::npos;
  }
  void expect_words(std::size_t count) const {
    if (words_.size() != count) throw damaged(fmt::format("expected {} words", count));
  }
  void expect_word(std::size_t index, std::string_view word) const {
    if (words_[index] != word) throw damaged(fmt::format("expected \"{}\"", word));
  }
  [[nodiscard]] std::string text_at(std::size_t index) const {
    return need(detail::unescape(words_[index]), "a name");
  }
  [[nodiscard]] core::Digest digest_at(std::size_t index) const {
    return need(detail::parse_digest_word(words_[index]), "a digest");
  }
  [[nodiscard]] std::uint64_t count_at(std::size_t index) const {
    return need(detail::parse_count(words_[index]), "a number");
  }
  [[nodiscard]] Fact fact() const;
  [[nodiscard]] AcceptedOutput form(std::string_view word) const;
  [[nodiscard]] std::vector<std::int64_t> shape(std::string_view list) const;
  void read_head(Baseline& baseline);
  void read_tensor(Baseline& baseline) const;
  [[nodiscard]] AcceptedOp op() const;
  void read_place(std::string_view word, AcceptedOp& op) const;

  std::string_view text_;
  const std::string& origin_;
  std::string_view rest_;
  std::string_view line_;
  std::size_t line_number_ = 0;
  Words words_;
};

// The checksum comes first: what a hand or a merge changed is told as that, wherever it is.
void Reader::check_frame() {
  const std::string name = core::printable(origin_);
  const std::string_view magic = "repro-baseline ";
  if (!text_.starts_with(magic)) {
    throw core::Error(core::ErrorKind::kDumpUnknown, name + ": not a baseline of repro-check");
  }
  const std::string_view version =
      text_.substr(magic.size(), text_.find('\n') - std::min(text_.size(), magic.size()));
  const auto number = detail::parse_count(version.substr(0, version.find('\r')));
  if (number && *number > kBaselineVersion) {
    throw core::Error(
        core::ErrorKind::kDumpUnknown,
        fmt::format("{}: version {}; this tool reads up to {}", name, *number, kBaselineVersion),
        "use the repro-check that wrote it, or a newer one");
  }
  const auto bad = [&](std::string_view what) {
    return core::Error(core::ErrorKind::kDumpDamaged, fmt::format("{}: {}", name, what), kMend);
  };
  if (text_.size() > kLongestFile) throw bad("longer than any baseline");
  if (text_.find('\r') != std::string_view::npos) {
    throw bad("has CR LF line ends; add `*.repro text eol=lf -merge` to .gitattributes");
  }
  if (text_.find("\n<<<<<<< ") != std::string_view::npos) throw bad("holds a merge conflict");
  const std::size_t end = text_.rfind("\nend ");
  if (!text_.ends_with('\n') || end == std::string_view::npos) throw bad("cut short");
  const Words words = detail::split(text_.substr(end + 1, text_.size() - end - 2), ' ');
  if (words.size() != 3 ||
      detail::parse_digest_word(words[2]) != detail::digest_text(text_.substr(0, end + 1))) {
    throw bad("does not match its checksum: edited by hand, or merged badly");
  }
  rest_ = text_.substr(0, end + 1);
}

void Reader::next_line() {
  const std::size_t end = rest_.find('\n');
  line_ = rest_.substr(0, end);
  rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
  ++line_number_;
  words_ = detail::split(line_, ' ');
}

Fact Reader::fact() const {
  if (words_.size() < 3) throw damaged("expected a name and a value");
  const std::size_t value = words_[0].size() + words_[1].size() + 2;
  return {text_at(1), need(detail::unescape(line_.substr(value)), "a value")};
}

std::vector<std::int64_t> Reader::shape(std::string_view list) const {
  std::vector<std::int64_t> shape;
  if (list.empty()) return shape;
  for (const std::string_view size : detail::split(list, ',')) {
    const std::uint64_t count = need(detail::parse_count(size), "a size");
    if (std::cmp_greater(count, std::numeric_limits<std::int64_t>::max())) {
      throw damaged("a size is beyond 2^63-1");
    }
    shape.push_back(static_cast<std::int64_t>(count));
  }
  return shape;
}

AcceptedOutput Reader::form(std::string_view word) const {
  const std::size_t open = word.find('[');
  const std::size_t close = word.find("]:", open);
  if (open == std::string_view::npos || close == std::string_view::npos) {
    throw damaged("expected a tensor, such as float32[2,3]:<digest>");
  }
  AcceptedOutput output;
  const std::string_view dtype = word.substr(0, open);
  const auto known = core::parse_dtype(dtype);
  if (!known && dtype != core::dtype_name(core::Dtype::kUnknown)) throw damaged("unknown dtype");
  output.dtype = known.value_or(core::Dtype::kUnknown);
  output.shape = shape(word.substr(open + 1, close - open - 1));
  const std::string_view content = word.substr(close + 2);
  if (const auto digest = core::parse_digest(content)) {
    output.state = core::ContentState::kHashed;
    output.digest = *digest;
    return output;
  }
  using enum core::ContentState;
  for (const core::ContentState state :
       {kUninitialised, kNone, kUndefined, kComposite, kExcluded}) {
    if (core::content_state_name(state) != content) continue;
    output.state = state;
    return output;
  }
  throw damaged("expected a digest or a state");
}

void Reader::read_head(Baseline& baseline) {
  next_line();
  expect_words(2);
  next_line();
  constexpr std::size_t kHeadWords = 10;
  expect_words(kHeadWords);
  expect_word(0, "gate");
  expect_word(2, "model");
  expect_word(4, "config");
  expect_word(6, "policy");
  expect_word(8, "ops");
  baseline.gate = text_at(1);
  baseline.model = digest_at(3);
  baseline.config = digest_at(5);
  baseline.policy = text_at(7);
  baseline.operators = count_at(9);
  next_line();
  expect_words(2);
  expect_word(0, "platform");
  const core::Digest key = digest_at(1);
  for (next_line(); at("p"); next_line()) baseline.platform.fields.push_back(fact());
  if (baseline.platform.key() != key) throw damaged("the platform does not give its key");
  for (; at("c"); next_line()) baseline.facts.push_back(fact());
  expect_words(2);
  expect_word(0, "root");
  baseline.root = digest_at(1);
}

void Reader::read_tensor(Baseline& baseline) const {
  const auto kind = static_cast<core::NamedTensorKind>(kKinds.find(words_.front()));
  if (words_.size() == 4 && words_[1] == "*") {
    baseline.folded.push_back({kind, count_at(2), digest_at(3)});
    return;
  }
  expect_words(3);
  const AcceptedOutput tensor = form(words_[2]);
  if (tensor.state != core::ContentState::kHashed) throw damaged("expected a digest");
  baseline.tensors.push_back({kind, text_at(1), tensor.dtype, tensor.shape, tensor.digest});
}

void Reader::read_place(std::string_view word, AcceptedOp& op) const {
  const Words parts = detail::split(word, '/');
  if (parts.size() != 1 && parts.size() != 4) throw damaged("expected step/rank/lane/depth");
  const std::array<std::uint32_t*, 4> into{&op.step, &op.rank, &op.lane, &op.depth};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::uint64_t number = need(detail::parse_count(parts[i]), "a number");
    if (number > std::numeric_limits<std::uint32_t>::max()) throw damaged("a number is too large");
    *into.at(i) = static_cast<std::uint32_t>(number);
  }
}

AcceptedOp Reader::op() const {
  constexpr std::size_t kLeastWords = 4;
  if (words_.size() < kLeastWords) throw damaged("expected operator, module and place");
  AcceptedOp op;
  op.phase = static_cast<core::Phase>(kPhases.find(words_.front()));
  op.name = text_at(1);
  op.module = text_at(2);
  read_place(words_[3], op);
  for (std::size_t i = kLeastWords; i < words_.size(); ++i) {
    const std::string_view word = words_[i];
    if (word.starts_with('=')) {
      if (i + 1 != words_.size()) throw damaged("something follows the scalars");
      op.scalars = need(detail::unescape(word.substr(1)), "scalars");
      return op;
    }
    const std::size_t equals = word.substr(0, word.find('[')).find('=');
    const bool has_slot = equals != std::string_view::npos;
    AcceptedOutput& output =
        op.outputs.emplace_back(form(has_slot ? word.substr(equals + 1) : word));
    output.slot = has_slot ? need(detail::unescape(word.substr(0, equals)), "a slot")
                           : std::to_string(op.outputs.size() - 1);
  }
  return op;
}

Baseline Reader::read() {
  check_frame();
  Baseline baseline;
  read_head(baseline);
  std::uint64_t operators = 0;
  while (!rest_.empty()) {
    next_line();
    if (at_one_of(kKinds)) {
      read_tensor(baseline);
    } else if (at_one_of(kPhases)) {
      baseline.ops.push_back(op());
      ++operators;
    } else if (at("m")) {
      expect_words(4);
      const AcceptedModule& module =
          baseline.modules.emplace_back(AcceptedModule{text_at(1), count_at(2), digest_at(3)});
      if (module.operators > std::numeric_limits<std::uint64_t>::max() - operators) {
        throw damaged("more operators than can be");
      }
      operators += module.operators;
    } else {
      throw damaged("a line of no known kind");
    }
  }
  if (operators != baseline.operators)
    throw damaged("the operators are not as many as are claimed");
  if (to_text(baseline) != text_) throw damaged("not as repro-check writes it");
  return baseline;
}

}  // namespace

Baseline baseline_from_text(std::string_view text, const std::string& origin) {
  return Reader(text, origin).read();
}

}  // namespace repro_check::baselines
