// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <string>

#include "core/trace/program_records.h"

namespace repro_check::core {
namespace {

TEST_CASE("a root is named anew in paths of modules and names of tensors, and nowhere else") {
  const RootNames names{{"Net@main:2", "Net@main:0"},
                        {"Net@main:0", "Net@main:2"},
                        {"Net@main:1", "Net@main:0#2"},
                        {"Net@main:3", ""}};
  const auto named = [&](const char* text) { return with_root(text, names); };
  CHECK(named("Net@main:2") == "Net@main:0");
  CHECK(named("Net@main:0.head.0") == "Net@main:2.head.0");
  CHECK(named("state:Net@main:1.head.weight") == "state:Net@main:0#2.head.weight");
  CHECK(named("param.Net@main:2.head.weight@0:1/2|0,2") ==
        "param.Net@main:0.head.weight@0:1/2|0,2");
  CHECK(named("Net@main:3") == std::string());
  CHECK(named("state:Net@main:3.head.weight") == "state:head.weight");
  for (const char* other : {"",
                            "Net@main:20.head",
                            "Net@main:2:0.head",
                            "Net@main:2#2",
                            "OfNet@main:2",
                            "head.weight@0:1/2",
                            "@"}) {
    CHECK(named(other) == std::string(other));
  }
}

}  // namespace
}  // namespace repro_check::core
