// SPDX-License-Identifier: Apache-2.0
#include "cmd/options/compare_options.h"

#include <memory>
#include <utility>

#include "cmd/terminal/output.h"
#include "configs/noise_file.h"
#include "dumpers/store/dump_reader.h"

namespace repro_check::cmd {

comparators::CompareOptions compare_options(const configs::CompareSpec& spec) {
  comparators::CompareOptions options;
  options.spec = spec;
  if (configs::uses_noise(spec)) {
    configs::NoiseFloors floors = configs::load_noise(from_here(spec.noise.value()));
    options.noise = std::make_shared<const configs::NoiseFloors>(std::move(floors));
  }
  if (configs::uses_fp64(spec)) options.fp64 = store::open_dump(from_here(spec.fp64.value()));
  return options;
}

}  // namespace repro_check::cmd
