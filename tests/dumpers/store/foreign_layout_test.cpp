// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <filesystem>
#include <functional>
#include <string>

#include "core/error.h"
#include "dumpers/store/dump_reader.h"
#include "dumpers/store/pack.h"
#include "tests/dumpers/store/error_of.h"
#include "tests/dumpers/store/forge.h"
#include "tests/dumpers/store/relay.h"
#include "tests/dumpers/store/sample_dump.h"
#include "tests/support/temp_directory.h"

namespace repro_check::store {
namespace {

namespace fs = std::filesystem;
using test_support::Layout;

TEST_CASE("the same elements in chunks, compact or big-endian are the same dump") {
  const test_support::TempDirectory directory;
  const fs::path dump = directory / "dump";
  // With contents both in datasets of their own and packed into one.
  const auto sample = test_support::make_sample(5, 40);
  test_support::write_dump(dump, sample);
  const std::string before = test_support::read_bytes(dump / "trace.h5");
  for (const Layout layout : {Layout{H5D_CHUNKED, H5T_ORDER_LE},
                              Layout{H5D_CHUNKED, H5T_ORDER_BE},
                              Layout{H5D_COMPACT, H5T_ORDER_LE},
                              Layout{H5D_CONTIGUOUS, H5T_ORDER_BE}}) {
    CAPTURE(int(layout.storage));
    CAPTURE(int(layout.order));
    test_support::relay(dump, layout);
    CHECK(test_support::read_bytes(dump / "trace.h5") != before);
    CHECK(test_support::reads_back(*open_dump(dump), sample));
  }
  const fs::path pack = directory / "dump.tar.zst";
  pack_dump(dump, pack, PackOptions{});
  CHECK(test_support::reads_back(*open_dump(pack), sample));
}

/// What is said of a dump whose index has a dataset of many elements in chunks that are not there.
/// @param make  changes how it is stored, and of what type its elements are
std::string refusal(const std::function<void(hid_t list, hid_t& type)>& make) {
  const test_support::TempDirectory directory;
  const fs::path dump = directory / "dump";
  test_support::write_dump(dump, test_support::make_sample(5, 4));
  test_support::edit_trace(dump, [&](hid_t file) {
    const PropertyHandle list(H5Pcreate(H5P_DATASET_CREATE));
    const hsize_t many = hsize_t{1} << 40U;
    const SpaceHandle space(H5Screate_simple(1, &many, nullptr));
    const hsize_t chunk = 1024;
    REQUIRE(H5Pset_chunk(list.get(), 1, &chunk) >= 0);
    hid_t type = H5T_STD_U8LE;
    make(list.get(), type);
    REQUIRE(H5Ldelete(file, "index/dims", H5P_DEFAULT) >= 0);
    const DatasetHandle made(
        H5Dcreate2(file, "index/dims", type, space.get(), H5P_DEFAULT, list.get(), H5P_DEFAULT));
    REQUIRE(made.get() >= 0);
  });
  return test_support::error_of(core::ErrorKind::kDumpDamaged, [&] { open_dump(dump); });
}

TEST_CASE("a small file does not make a large copy of chunks that are not there") {
  CHECK(test_support::contains(refusal([](hid_t, hid_t&) {}), "/index/dims: has no bytes"));
}

TEST_CASE("what lies behind a filter is refused, and how to take it off is said") {
  const std::string text = refusal([](hid_t list, hid_t&) { H5Pset_shuffle(list); });
  CHECK(test_support::contains(text, "is stored through a filter (take it off with h5repack"));
}

TEST_CASE("elements that HDF5 would read as pointers are refused") {
  const TypeHandle text(H5Tcopy(H5T_C_S1));
  REQUIRE(H5Tset_size(text.get(), H5T_VARIABLE) >= 0);
  CHECK(test_support::contains(refusal([&](hid_t, hid_t& type) { type = text.get(); }),
                               "has elements of a kind that no dump holds"));
}

}  // namespace
}  // namespace repro_check::store
