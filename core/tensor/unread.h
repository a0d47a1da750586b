// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace repro_check::core {

/// In the attributes of a tensor whose content a device could not digest: it failed, it had no
/// memory, or it captured a graph.
inline constexpr std::string_view kUnread = "unread";
/// What it is called among the types that are not read at borders of blocks.
inline constexpr std::string_view kUnreadContent = "content that a device could not digest";

}  // namespace repro_check::core
