// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

namespace repro_check::cmd {

/// A file of cmd/render/html, as it stands in the page.
struct HtmlAsset {
  std::string_view text;
  std::string_view sha256;  ///< base64, as a content security policy names it
};

/// In the order in which the page needs them.
std::span<const HtmlAsset> html_styles() noexcept;
std::span<const HtmlAsset> html_scripts() noexcept;
/// Those of the page of a gate's history.
std::span<const HtmlAsset> html_history_scripts() noexcept;

/// The body without what the report says: where the scripts put their parts.
std::string_view html_frame() noexcept;

}  // namespace repro_check::cmd
