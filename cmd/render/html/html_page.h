// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cmd/render/html/html_assets.h"
#include "cmd/render/json/json_text.h"

namespace repro_check::cmd {

/// A page that loads nothing from anywhere, and in which nothing runs but its own scripts.
struct HtmlPage {
  std::string title;  ///< plain text
  std::string main;   ///< HTML: what names from outside stand in it went through html_text()
  std::string data;   ///< elements of html_data_element()
  std::span<const HtmlAsset> scripts;
};

std::string html_page(const HtmlPage& page);

/// JSON as an element that a script of the page reads; packed above 256 kB.
/// @throws core::Error{kInternal} when it cannot be packed
std::string html_data_element(std::string_view id, const Json& data);

}  // namespace repro_check::cmd
