// SPDX-License-Identifier: Apache-2.0
// Tensors that are hashed and then get another storage, or storages that get other memory: what the
// cache of digests says is what hashing everything says, and what the tensor holds.
#include <ATen/native/Resize.h>

#include <algorithm>
#include <array>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tests/dumpers/capture/recording.h"

#define DOCTEST_CONFIG_NO_SHORT_MACRO_NAMES
#include <doctest/doctest.h>

namespace repro_check::capture {
namespace {

using core::ContentState;

/// Reads a tensor with an operator, and keeps what it truly held.
class Reader {
 public:
  void operator()(const at::Tensor& tensor) {
    at::neg(tensor);
    truth_.push_back(digest_of(tensor));
  }
  [[nodiscard]] const std::vector<core::Digest>& truth() const { return truth_; }

 private:
  std::vector<core::Digest> truth_;
};

using Body = std::function<void(Reader&)>;

/// Records with the cache and without it, and holds both against the truth.
/// @return a letter for each read, in order: h(ashed), u(ninitialised)
std::string check(const Body& body) {
  std::string states;
  for (const bool verify : {false, true}) {
    CaptureOptions options = options_for(core::DumpDepth::kTop);
    options.verify_inputs = verify;
    MemorySink sink;
    Capture capture(options, sink, nullptr);
    Reader read;
    {
      const Capture::Scope scope(capture);
      body(read);
    }
    capture.rethrow_failure();
    DOCTEST_CHECK(capture.counts().stale_inputs == 0);
    const auto negs = sink.all("aten::neg");
    DOCTEST_REQUIRE(negs.size() == read.truth().size());
    std::string seen;
    for (std::size_t i = 0; i < negs.size(); ++i) {
      const core::TensorRecord& self = input(*negs[i], "self");
      seen += self.state == ContentState::kUninitialised ? 'u' : 'h';
      if (self.state == ContentState::kUninitialised) continue;
      DOCTEST_CHECK(self.state == ContentState::kHashed);
      DOCTEST_CHECK_MESSAGE(self.digest == read.truth()[i], "read ", i, " verify ", verify);
    }
    if (verify) DOCTEST_CHECK(seen == states);
    states = std::move(seen);
  }
  return states;
}

void all_hashed(const Body& body) { DOCTEST_CHECK(check(body).find('u') == std::string::npos); }

at::Tensor numbers(float from) { return at::arange(from, from + 8); }

/// As Python's `UntypedStorage.resize_()`: no operator, no version.
void resize_storage(const at::Tensor& tensor, std::int64_t elements) {
  at::native::resize_bytes_cpu(tensor.storage().unsafeGetStorageImpl(),
                               static_cast<std::size_t>(elements) * sizeof(float));
}

DOCTEST_TEST_CASE("a hashed tensor set to another storage has what lies there") {
  all_hashed([](Reader& read) {
    const at::Tensor a = numbers(0);
    const at::Tensor b = numbers(100);
    at::Tensor x = a.detach();
    read(x);
    read(b);
    x.set_(b);
    read(x);
    b.add_(1);
    read(x);
    read(a);
    x.set_(a.storage());
    read(x);
    x.set_(b.storage(), 2, {2, 2}, {3, 1});
    read(x);
    x.mul_(2);
    read(b);
    x.set_(a.storage(), 1, {2, 2}, {3, 1});
    read(x);
    read(a);
    x.set_();
    read(x);
  });
}

DOCTEST_TEST_CASE("a tensor given the data of another has that") {
  all_hashed([](Reader& read) {
    at::Tensor x = numbers(0);
    const at::Tensor alias = x.view({2, 4});
    const at::Tensor y = numbers(50);
    read(x);
    read(y);
    x.set_data(y);
    read(x);
    y.add_(1);
    read(x);
    x.mul_(3);
    read(y);
    read(alias);
  });
}

DOCTEST_TEST_CASE("set_ to fresh memory and beyond the end is uninitialised, and is no write") {
  const std::string states = check([](Reader& read) {
    at::Tensor x = numbers(0);
    read(x);
    x.set_(at::empty({8}));
    read(x);
    x.fill_(2);
    read(x);
    x.set_(numbers(5).storage(), 0, {1000}, {1});
    read(x);
    x.zero_();
    read(x);
  });
  DOCTEST_CHECK(states == "huhuh");
}

DOCTEST_TEST_CASE("a hashed tensor that is resized is hashed as it is then") {
  const std::string states = check([](Reader& read) {
    at::Tensor x = numbers(0);
    const at::Tensor alias = x.view({8});
    read(x);
    x.resize_({3});
    read(x);
    x.add_(1);
    read(x);
    read(alias);
    x.resize_({2000});
    read(x);
    x.fill_(7);
    read(x);
    read(alias);
    x.resize_({2, 4});
    read(x);
  });
  DOCTEST_CHECK(states == "hhhhuhhh");
}

DOCTEST_TEST_CASE("a storage that is emptied and given memory again holds no old digest") {
  const std::string states = check([](Reader& read) {
    const at::Tensor x = numbers(0);
    read(x);
    resize_storage(x, 0);
    resize_storage(x, 8);
    static_cast<float*>(x.data_ptr())[0] = 7;
    read(x);
    x.copy_(numbers(20));
    read(x);
  });
  DOCTEST_REQUIRE(states.size() == 3);
  DOCTEST_CHECK(states[0] == 'h');
  DOCTEST_CHECK(states[2] == 'h');
}

DOCTEST_TEST_CASE("a storage whose memory is exchanged without an operator is hashed anew") {
  all_hashed([](Reader& read) {
    const at::Tensor x = numbers(0);
    const at::Tensor y = numbers(30);
    read(x);
    read(y);
    c10::StorageImpl* const own = x.storage().unsafeGetStorageImpl();
    own->set_data_ptr(y.storage().unsafeGetStorageImpl()->set_data_ptr(
        own->set_data_ptr(c10::DataPtr(nullptr, c10::Device(c10::kCPU)))));
    read(x);
    read(y);
  });
}

/// One change of a few tensors that share two storages, drawn by `draw`.
void change(std::array<at::Tensor, 4>& tensors, std::mt19937_64& draw) {
  at::Tensor& x = tensors[draw() % tensors.size()];
  const at::Tensor& other = tensors[draw() % tensors.size()];
  const auto offset = static_cast<std::int64_t>(draw() % 4);
  switch (draw() % 8) {
    case 0:
      x.set_(other);
      break;
    case 1:
      x.set_(other.storage(), offset, {2, 2}, {1, 2});
      break;
    case 2:
      x.resize_({static_cast<std::int64_t>(1 + draw() % 4)});
      break;
    case 3:
      x.resize_({static_cast<std::int64_t>(8 + draw() % 40)});
      break;
    case 4:
      x.add_(1);
      break;
    case 5:
      x.detach().mul_(0.5);
      break;
    case 6:
      x.set_data(other.view_as(other));
      break;
    default:
      x = numbers(static_cast<float>(offset));
      break;
  }
}

DOCTEST_TEST_CASE("after any sequence of such changes the cache says what hashing says") {
  std::size_t hashed = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    DOCTEST_CAPTURE(seed);
    const std::string states = check([seed](Reader& read) {
      std::mt19937_64 draw(seed);
      std::array<at::Tensor, 4> tensors{numbers(0), numbers(9), numbers(18), numbers(27)};
      for (int step = 0; step < 12; ++step) {
        change(tensors, draw);
        for (const at::Tensor& tensor : tensors) read(tensor);
      }
    });
    hashed += static_cast<std::size_t>(std::ranges::count(states, 'h'));
  }
  DOCTEST_CHECK(hashed > 2000);  // else hardly anything was compared
}

}  // namespace
}  // namespace repro_check::capture
