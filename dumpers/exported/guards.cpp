// SPDX-License-Identifier: Apache-2.0
#include "dumpers/exported/guards.h"

#include <ATen/core/jit_type.h>
#include <c10/util/Exception.h>
#include <torch/csrc/jit/ir/named_value.h>

#include <array>
#include <cctype>
#include <cstdint>
#include <string_view>

#include "core/text/text.h"

namespace repro_check::exported {
namespace {

struct NotRead {};

struct Infix {
  std::string_view text;
  const char* name;
  int level;
};
/// Python's, those of a level bind alike, a longer text before one that it begins with.
constexpr std::array kInfix{Infix{"or ", "aten::__or__", 0},
                            Infix{"and ", "aten::__and__", 1},
                            Infix{"==", "aten::eq", 2},
                            Infix{"!=", "aten::ne", 2},
                            Infix{"<=", "aten::le", 2},
                            Infix{">=", "aten::ge", 2},
                            Infix{"<", "aten::lt", 2},
                            Infix{">", "aten::gt", 2},
                            Infix{"+", "aten::add", 3},
                            Infix{"-", "aten::sub", 3},
                            Infix{"//", "aten::floordiv", 4},
                            Infix{"%", "aten::remainder", 4},
                            Infix{"/", "aten::div", 4},
                            Infix{"*", "aten::mul", 4}};
constexpr int kComparison = 2;
constexpr int kTightest = 4;

class GuardReader {
 public:
  GuardReader(GraphBuilder& builder, std::string_view text, const Sources& sources)
      : builder_(builder), rest_(text), sources_(sources) {}

  torch::jit::Value* read() {
    torch::jit::Value* value = read_level(0);
    skip_spaces();
    if (!rest_.empty() || value->type()->kind() != c10::TypeKind::BoolType) throw NotRead();
    return value;
  }

 private:
  void skip_spaces() {
    while (rest_.starts_with(' ')) rest_.remove_prefix(1);
  }

  bool take(std::string_view text) {
    skip_spaces();
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }

  torch::jit::Value* read_level(int level) {
    if (level > kTightest) return read_operand();
    torch::jit::Value* left = read_level(level + 1);
    while (const char* name = take_infix(level)) {
      left = builder_.call(name, {left, read_level(level + 1)});
    }
    return left;
  }

  const char* take_infix(int level) {
    for (const Infix& each : kInfix) {
      // `**` is none of these.
      skip_spaces();
      if (rest_.starts_with("**")) throw NotRead();
      if (!rest_.starts_with(each.text)) continue;
      if (each.level != level) return nullptr;
      rest_.remove_prefix(each.text.size());
      return each.name;
    }
    return nullptr;
  }

  torch::jit::Value* read_operand() {
    constexpr int kDeepest = 64;
    if (++depth_ > kDeepest) throw NotRead();
    torch::jit::Value* value = nullptr;
    if (take("not ")) {
      value = builder_.call("aten::__not__", {read_level(kComparison)});
    } else if (take("-")) {
      value = builder_.call("aten::neg", {read_operand()});
    } else if (take("(")) {
      value = read_level(0);
      if (!take(")")) throw NotRead();
    } else if (take("L[")) {
      value = read_size();
    } else {
      value = builder_.constant(read_number());
    }
    --depth_;
    return value;
  }

  std::int64_t read_number() {
    std::size_t length = 0;
    while (length < rest_.size() && std::isdigit(static_cast<unsigned char>(rest_[length])) != 0) {
      ++length;
    }
    const auto number = core::parse_number<std::int64_t>(std::string(rest_.substr(0, length)));
    if (!number) throw NotRead();
    rest_.remove_prefix(length);
    return *number;
  }

  /// Behind `L[`.
  torch::jit::Value* read_size() {
    constexpr std::string_view kSize = ".size()[";
    const std::size_t end = rest_.find(kSize);
    if (end == std::string_view::npos) throw NotRead();
    const auto source = sources_.find("L[" + std::string(rest_.substr(0, end)));
    if (source == sources_.end()) throw NotRead();
    rest_.remove_prefix(end + kSize.size());
    torch::jit::Value* dimension = builder_.constant(read_number());
    if (!take("]")) throw NotRead();
    return builder_.call("aten::size", {source->second, dimension});
  }

  GraphBuilder& builder_;
  std::string_view rest_;
  const Sources& sources_;
  int depth_ = 0;
};

}  // namespace

torch::jit::Value* guard_value(GraphBuilder& builder,
                               const std::string& text,
                               const Sources& sources) {
  try {
    return GuardReader(builder, text, sources).read();
  } catch (const NotRead&) {
    return nullptr;
  } catch (const c10::Error&) {  // operands of types that no operator takes
    return nullptr;
  }
}

}  // namespace repro_check::exported
