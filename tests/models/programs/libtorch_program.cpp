// SPDX-License-Identifier: Apache-2.0
// A C++ program that links LibTorch and knows nothing of repro-check: trains two matrices, and on
// request works on a second thread, starts a child or forks, or ends without its exit handlers.
//   libtorch_program SCALE [thread|child|fork|leave|handler|fail]...
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

namespace {

double train(double scale) {
  at::manual_seed(7);
  at::Tensor first = at::randn({4, 8}).mul(scale).requires_grad_(true);
  at::Tensor second = at::randn({8, 1}).requires_grad_(true);
  const at::Tensor input = at::ones({3, 4});
  double last = 0;
  for (int step = 0; step < 3; ++step) {
    const at::Tensor loss = at::relu(input.mm(first)).mm(second).sum();
    loss.backward();
    last = loss.item<double>();
    const c10::NoGradGuard guard;
    for (at::Tensor* weight : {&first, &second}) {
      weight->sub_(weight->grad(), 0.01);
      weight->mutable_grad() = at::Tensor();
    }
  }
  return last;
}

void leave(int /*signal*/) { ::_exit(6); }

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) return 2;
  std::printf("%.17g\n", train(std::atof(arguments[1])));
  std::fflush(stdout);
  for (int i = 2; i < count; ++i) {
    const std::string what = arguments[i];
    if (what == "thread") std::thread([] { at::cos(at::ones(5)); }).join();
    if (what == "child" && std::system("git --version >/dev/null && echo child") != 0) return 3;
    if (what == "fork") {
      const pid_t child = ::fork();
      if (child == 0) ::_exit(at::cos(at::ones(5)).numel() == 5 ? 0 : 1);
      int status = 1;
      if (::waitpid(child, &status, 0) != child || status != 0) return 4;
    }
    if (what == "leave") leave(0);
    if (what == "handler") {
      std::signal(SIGUSR1, &leave);
      std::raise(SIGUSR1);
    }
    if (what == "fail") return 7;
  }
  return 0;
}
