// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstddef>
#include <set>
#include <string_view>

#include "comparators/ranks/collectives.h"
#include "comparators/report/report.h"

namespace repro_check::comparators {
namespace {

/// Up to the last enumerator and not beyond it.
template <typename Enum>
void check_names(Enum last, std::string_view (*name_of)(Enum) noexcept) {
  std::set<std::string_view> names;
  const auto count = static_cast<std::size_t>(last) + 1;
  for (std::size_t i = 0; i < count; ++i) names.insert(name_of(static_cast<Enum>(i)));
  CHECK(names.size() == count);
  CHECK_FALSE(names.contains(""));
}

TEST_CASE("every enumerator that reports spell has a name of its own") {
  check_names(kLastState, state_name);
  check_names(kLastRestored, restored_name);
  check_names(kLastDataVerdict, data_verdict_name);
  check_names(kLastExchange, exchange_name);
}

}  // namespace
}  // namespace repro_check::comparators
