// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hdf5.h>

#include <filesystem>

namespace repro_check::test_support {

/// How another program might store the same elements.
struct Layout {
  H5D_layout_t storage = H5D_CONTIGUOUS;
  H5T_order_t order = H5T_ORDER_LE;
};

/// Stores every dataset of the trace of `dump` as `layout` says; compact ones stay as they are
/// where they are too large for that.
void relay(const std::filesystem::path& dump, const Layout& layout);

}  // namespace repro_check::test_support
