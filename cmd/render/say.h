// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cmd/render/json_form.h"

namespace repro_check::cmd {

// One JSON document is what a view has to say: printed as it stands, or put into sentences. Strings
// in it may be of any bytes until they are printed.

/// Invalid UTF-8 replaced in every string of it.
Json cleaned(Json json);

/// `text` with `{trace/level}` replaced by that member of `model`, and `{}` by all of it: names
/// escaped, lists of numbers as an index, other lists by commas. A unit may follow: `{size:bytes}`,
/// `{time:seconds}`, `{mean:number}` with four digits, `{ulp_max:ulp}`, `{zeros:count}`,
/// `{tensors:tensor}` for a count of them, `{ranks:*rank}` for numbered things (`ranks 0, 2-5`),
/// `{names:few}` for the first of a list, `{names:each}` and `{names:and}` for all of it with `; `
/// or `and` between, `{factor:short}` with three digits, `{norm:exact}` with nine digits. What
/// stands in brackets is left out where a member that it asks for is null, false, empty or not
/// there, or 0 with a `+` behind its unit. `{?name}` and `{!name}` print nothing: the brackets ask
/// whether the member is there, or is not. A brace before a quotation mark is one of JSON, and
/// stands as it is.
std::string say(std::string_view text, const Json& model);
/// The same with names as they are.
std::string say_unescaped(std::string_view text, const Json& model);

struct ViewLine {
  std::string label;  ///< as say() takes it, like the text
  std::string text;
  /// A line for each item of that list, which is the model of its line; or for that object; or none
  /// where there is no such thing, or 0 of it. Empty: one line for the whole model.
  std::string each = {};
};

struct SaidLine {
  std::string label;
  std::string body;
};

std::vector<SaidLine> said_lines(std::span<const ViewLine> lines, const Json& model);

/// @param indent  so many spaces before each label
std::string text_of(std::span<const SaidLine> lines, std::size_t indent = 0);
std::string say_lines(std::span<const ViewLine> lines, const Json& model, std::size_t indent = 0);

/// Lines of at most so many columns, broken at spaces; what follows stands under the text behind a
/// label. A line with a tab is a row for other programs, and stays whole.
/// @param text     escaped; every line ends in a newline
/// @param columns  0 = everything stays as it is
std::string wrapped(std::string_view text, std::size_t columns);

}  // namespace repro_check::cmd
