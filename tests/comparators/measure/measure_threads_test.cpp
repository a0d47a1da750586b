// SPDX-License-Identifier: Apache-2.0
// No result depends on how many threads measured, or on how the bytes came.
#include <doctest/doctest.h>

#include <cstring>
#include <deque>
#include <random>
#include <stdexcept>
#include <vector>

#include "comparators/measure/metrics.h"
#include "comparators/measure/samples.h"
#include "core/tensor/content.h"
#include "tests/comparators/measure/tensor_pair.h"

namespace repro_check::comparators {
namespace {

using core::Dtype;

/// More parts than eight threads want, and a last one that is not whole.
constexpr std::size_t kBytes = 17 * core::kDigestChunk + 48;

/// Random bits, most of the candidate's the same or close by.
TensorPair random_pair(Dtype dtype) {
  std::mt19937_64 random(static_cast<std::uint64_t>(dtype));
  const auto count = static_cast<std::int64_t>(kBytes / core::element_size(dtype));
  TensorPair pair(dtype, {count});
  pair.baseline_bytes.resize(kBytes);
  for (std::size_t at = 0; at < kBytes; at += 8) {
    const std::uint64_t bits = random();
    std::memcpy(pair.baseline_bytes.data() + at, &bits, 8);
  }
  pair.candidate_bytes = pair.baseline_bytes;
  for (std::size_t at = 0; at < kBytes; at += 8 * (1 + random() % 4)) {
    pair.candidate_bytes[at] ^= static_cast<std::byte>(random() % 16);
  }
  return pair;
}

/// As a dump has them: read into a buffer, and with digests to be checked.
class StoredParts final : public core::ContentParts {
 public:
  explicit StoredParts(const std::vector<std::byte>& bytes) : bytes_(bytes) {}
  [[nodiscard]] std::uint64_t size() const noexcept override { return bytes_.size(); }
  [[nodiscard]] std::span<const std::byte> read(std::uint64_t begin,
                                                std::span<std::byte> buffer) const override {
    if (begin == fails_at_) throw std::runtime_error("cannot be read");
    std::memcpy(buffer.data(), bytes_.data() + begin, buffer.size());
    return buffer;
  }
  [[nodiscard]] bool verified() const noexcept override { return false; }
  void verify(std::span<const core::Digest> /*chunks*/) const override {}
  void fail_at(std::uint64_t begin) { fails_at_ = begin; }

 private:
  const std::vector<std::byte>& bytes_;
  std::uint64_t fails_at_ = UINT64_MAX;
};

TEST_CASE("metrics do not depend on the number of threads") {
  for (const Dtype dtype : {Dtype::kFloat32,
                            Dtype::kFloat64,
                            Dtype::kBFloat16,
                            Dtype::kFloat8E4M3FN,
                            Dtype::kInt64,
                            Dtype::kUInt8,
                            Dtype::kComplex128,
                            Dtype::kBool}) {
    CAPTURE(core::dtype_name(dtype));
    const TensorPair pair = random_pair(dtype);
    ElementPolicy policy;
    policy.rtol = 1e-3;
    const TensorMetrics one = measure(pair.baseline(), pair.candidate(), policy, 1);
    CHECK(one.n_diff > 1000);
    for (const unsigned threads : {2U, 3U, 8U}) {
      CAPTURE(threads);
      CHECK(measure(pair.baseline(), pair.candidate(), policy, threads) == one);
    }
  }
}

TEST_CASE("a part that is read gives what memory gives, samples and digests included") {
  const TensorPair pair = random_pair(Dtype::kFloat32);
  const StoredParts left(pair.baseline_bytes);
  const StoredParts right(pair.candidate_bytes);
  for (const unsigned threads : {1U, 8U}) {
    CAPTURE(threads);
    const auto found =
        PairMeasurer(threads).measure({pair.dtype, pair.shape, &left, &right, {}, 10});
    CHECK(found.metrics == measure(pair.baseline(), pair.candidate(), {}));
    CHECK(core::digest_of_leaves(found.chunks[0]) == core::digest_bytes(pair.baseline_bytes));
    CHECK(core::digest_of_leaves(found.chunks[1]) == core::digest_bytes(pair.candidate_bytes));
    const auto samples = first_differences(pair.baseline(), pair.candidate(), 10);
    REQUIRE(found.samples.size() == samples.size());
    for (std::size_t i = 0; i < samples.size(); ++i) {
      CHECK(found.samples[i].flat_index == samples[i].flat_index);
      CHECK(found.samples[i].baseline_bits == samples[i].baseline_bits);
    }
  }
}

TEST_CASE("pairs measured at the same time give what each gives alone") {
  std::vector<TensorPair> pairs;
  for (const Dtype dtype : {Dtype::kFloat32, Dtype::kInt64, Dtype::kBFloat16, Dtype::kFloat32}) {
    pairs.push_back(random_pair(dtype));
  }
  std::deque<StoredParts> parts;
  std::vector<MeasureRequest> requests;
  for (const TensorPair& pair : pairs) {
    const core::ContentParts* left = &parts.emplace_back(pair.baseline_bytes);
    const core::ContentParts* right = &parts.emplace_back(pair.candidate_bytes);
    requests.push_back({pair.dtype, pair.shape, left, right, {}, 5});
  }
  parts[3].fail_at(2 * core::kDigestChunk);
  for (const unsigned threads : {1U, 2U, 8U}) {
    CAPTURE(threads);
    PairMeasurer measurer(threads);
    const auto found = measurer.measure_each(requests);
    REQUIRE(found.size() == pairs.size());
    CHECK(found[1].failures[1]);
    for (const std::size_t i : {0U, 2U, 3U}) {
      CAPTURE(i);
      CHECK_FALSE(found[i].failures[0]);
      CHECK_FALSE(found[i].failures[1]);
      CHECK(found[i].metrics == measurer.measure(requests[i]).metrics);
      CHECK(found[i].samples.size() == 5);
      CHECK(core::digest_of_leaves(found[i].chunks[1]) ==
            core::digest_bytes(pairs[i].candidate_bytes));
    }
    CHECK(measurer.measure_each({}).empty());
  }
}

TEST_CASE("a side that cannot be read is told from the other") {
  const TensorPair pair = random_pair(Dtype::kFloat32);
  const StoredParts left(pair.baseline_bytes);
  StoredParts right(pair.candidate_bytes);
  right.fail_at(5 * core::kDigestChunk);
  for (const unsigned threads : {1U, 2U}) {
    const auto found =
        PairMeasurer(threads).measure({pair.dtype, pair.shape, &left, &right, {}, 10});
    CHECK_FALSE(found.failures[0]);
    REQUIRE(found.failures[1]);
    CHECK_THROWS_AS(std::rethrow_exception(found.failures[1]), std::runtime_error);
  }
}

}  // namespace
}  // namespace repro_check::comparators
