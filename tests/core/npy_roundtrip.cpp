// SPDX-License-Identifier: Apache-2.0
// Reads one .npy file and writes it anew: `npy_roundtrip IN OUT`. Used by npy_against_numpy.py.
#include <cstdio>

#include "core/error.h"
#include "core/tensor/npy.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    const repro_check::core::HostTensor tensor = repro_check::core::read_npy(argv[1]);
    repro_check::core::write_npy(argv[2], tensor.view());
  } catch (const repro_check::core::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
