// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "configs/parser/json_reader.h"
#include "configs/spec/compare_spec.h"

namespace repro_check::configs::detail {

/// What `object` says of NaN, zeros and subnormals.
void read_specials(const ObjectReader& object, Problems& problems, PolicySpec& policy);

/// The policy of a rule; a name is short for an object with nothing but `kind`.
void read_policy(const Node& node, Problems& problems, PolicySpec& policy);

/// The policy of the section: a name beside its parameters, or an object that holds them.
void read_section_policy(const ObjectReader& object, Problems& problems, PolicySpec& policy);

}  // namespace repro_check::configs::detail
