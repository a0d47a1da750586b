// SPDX-License-Identifier: Apache-2.0
#include "baselines/baseline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "baselines/detail/tokens.h"

namespace repro_check::baselines {
namespace {

using detail::digest_word;
using detail::escape_rest;
using detail::escape_token;

char kind_letter(core::NamedTensorKind kind) {
  constexpr std::array<char, 3> kLetters{'i', 'w', 'b'};
  return kLetters.at(static_cast<std::size_t>(kind));
}

char phase_letter(core::Phase phase) {
  constexpr std::array<char, 3> kLetters{'f', 'g', 'o'};
  return kLetters.at(static_cast<std::size_t>(phase));
}

std::string form(core::Dtype dtype,
                 const std::vector<std::int64_t>& shape,
                 core::ContentState state,
                 const core::Digest& digest) {
  const bool is_hashed = state == core::ContentState::kHashed;
  return fmt::format("{}[{}]:{}",
                     core::dtype_name(dtype),
                     fmt::join(shape, ","),
                     is_hashed ? core::to_hex(digest) : core::content_state_name(state));
}

std::string place(const AcceptedOp& op) {
  if (op.rank == 0 && op.lane == 0 && op.depth == 0) return std::to_string(op.step);
  return fmt::format("{}/{}/{}/{}", op.step, op.rank, op.lane, op.depth);
}

std::string body(const Baseline& baseline) {
  std::string text = fmt::format("repro-baseline {}\n", kBaselineVersion);
  text += fmt::format("gate {} model {} config {} policy {} ops {}\n",
                      escape_token(baseline.gate),
                      digest_word(baseline.model),
                      digest_word(baseline.config),
                      escape_token(baseline.policy),
                      baseline.operators);
  text += fmt::format("platform {}\n", digest_word(baseline.platform.key()));
  for (const Fact& field : baseline.platform.fields) {
    text += fmt::format("p {} {}\n", escape_token(field.name), escape_rest(field.value));
  }
  for (const Fact& fact : baseline.facts) {
    text += fmt::format("c {} {}\n", escape_token(fact.name), escape_rest(fact.value));
  }
  text += fmt::format("root {}\n", digest_word(baseline.root));
  for (const core::NamedTensor& tensor : baseline.tensors) text += to_line(tensor) + '\n';
  for (const AcceptedTensors& all : baseline.folded) {
    text += fmt::format("{} * {} {}\n", kind_letter(all.kind), all.count, digest_word(all.digest));
  }
  for (const AcceptedOp& op : baseline.ops) text += to_line(op) + '\n';
  for (const AcceptedModule& module : baseline.modules) {
    text += fmt::format(
        "m {} {} {}\n", escape_token(module.path), module.operators, digest_word(module.digest));
  }
  return text;
}

}  // namespace

std::string file_name(std::string_view gate, const core::Digest& key) {
  return fmt::format("{}-{}{}", gate, short_key(key), kBaselineSuffix);
}

std::string file_name(const Baseline& baseline) {
  return file_name(baseline.gate, baseline.platform.key());
}

std::string to_line(const AcceptedOp& op) {
  std::string line = fmt::format("{} {} {} {}",
                                 phase_letter(op.phase),
                                 escape_token(op.name),
                                 escape_token(op.module),
                                 place(op));
  for (std::size_t i = 0; i < op.outputs.size(); ++i) {
    const AcceptedOutput& output = op.outputs[i];
    line += ' ';
    if (output.slot != std::to_string(i)) line += escape_token(output.slot) + '=';
    line += form(output.dtype, output.shape, output.state, output.digest);
  }
  if (!op.scalars.empty()) line += " =" + escape_token(op.scalars);
  return line;
}

std::string to_line(const core::NamedTensor& tensor) {
  // A tensor that is called `*` must not read as all of them.
  const std::string name = tensor.name == "*" ? "\\x2a" : escape_token(tensor.name);
  return fmt::format("{} {} {}",
                     kind_letter(tensor.kind),
                     name,
                     form(tensor.dtype, tensor.shape, core::ContentState::kHashed, tensor.digest));
}

std::string to_text(const Baseline& baseline) {
  std::string text = body(baseline);
  const core::Digest digest = detail::digest_text(text);
  return text + fmt::format("end {} {}\n", baseline.operators, digest_word(digest));
}

}  // namespace repro_check::baselines
