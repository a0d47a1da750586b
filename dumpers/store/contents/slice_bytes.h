// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/content/content_bytes.h"
#include "core/content/content_slice.h"
#include "core/tensor/tensor_record.h"

namespace repro_check::store {

/// How many elements of a content `rule` has stored; empty where it is to be stored whole.
/// @param bytes  of the content
std::optional<std::uint64_t> sliced_length(const core::SliceRule& rule,
                                           const core::ContentKey& key,
                                           std::uint64_t bytes);

/// The elements of a slice, one behind the other.
/// @param length  as of sliced_length()
std::vector<std::byte> slice_bytes(const core::ContentBytes& bytes,
                                   std::size_t element_size,
                                   std::uint64_t length,
                                   std::uint64_t stride);

}  // namespace repro_check::store
