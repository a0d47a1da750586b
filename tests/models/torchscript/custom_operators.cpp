// SPDX-License-Identifier: Apache-2.0
// A library of operators as users have them.
#include <ATen/ATen.h>
#include <torch/library.h>
#include <unistd.h>

#include <random>

namespace {

/// Another one at every call, and nobody is told.
double any_number() {
  std::random_device device;
  return std::generate_canonical<double, 53>(device);
}

at::Tensor twice(const at::Tensor& x) { return x + x; }

at::Tensor hang(const at::Tensor& x) {
  for (;;) ::sleep(1);
  return x;
}

at::Tensor noise(const at::Tensor& x) { return x + any_number(); }

/// Writes its argument, which its schema does not say.
at::Tensor scribble(const at::Tensor& x) {
  x.add_(any_number());
  return at::zeros({1});
}

}  // namespace

TORCH_LIBRARY(repro_check_test, library) {
  library.def("twice(Tensor x) -> Tensor", &twice);
  library.def("hang(Tensor x) -> Tensor", &hang);
  library.def("noise(Tensor x) -> Tensor", &noise);
  library.def("scribble(Tensor x) -> Tensor", &scribble);
}
