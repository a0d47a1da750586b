// SPDX-License-Identifier: Apache-2.0
#include "core/trace/replay_inputs.h"

#include <doctest/doctest.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/tensor/tensor_record.h"

namespace repro_check::core {
namespace {

/// One record and its contents.
class OneOp final : public DumpSource {
 public:
  OneOp() {
    auto info = std::make_shared<OperatorInfo>();
    info->name = "aten::add";
    record.op = info;
  }

  OpRecord record;
  std::map<ContentKey, std::vector<std::byte>> contents;

  [[nodiscard]] const std::string& location() const override { return location_; }
  [[nodiscard]] const RunManifest& manifest() const override { return manifest_; }
  [[nodiscard]] std::uint64_t op_count() const override { return 1; }
  [[nodiscard]] OpRecord op_head(std::uint64_t /*index*/) const override { return record; }
  [[nodiscard]] OpRecord op(std::uint64_t /*index*/) const override { return record; }
  [[nodiscard]] bool has_content(const ContentKey& key) const override {
    return contents.count(key) > 0;
  }
  void read_content(const ContentKey& key, std::vector<std::byte>& into) const override {
    into = contents.at(key);
  }
  [[nodiscard]] std::uint64_t content_count() const override { return 0; }
  [[nodiscard]] std::optional<ContentKey> content(std::uint64_t /*position*/) const override {
    return std::nullopt;
  }

 private:
  std::string location_ = "memory";
  RunManifest manifest_;
};

struct Shown {
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
  std::int64_t offset = 0;
  std::int64_t storage = -1;
};

/// An input whose elements, in logical order, are `first`, `first` + 1 and so on.
void add_input(OneOp& dump, const std::string& slot, const Shown& shown, std::int16_t first) {
  TensorRecord tensor;
  tensor.slot = slot;
  tensor.dtype = Dtype::kInt16;
  tensor.shape = shown.shape;
  tensor.strides = shown.strides;
  tensor.storage_offset = shown.offset;
  tensor.storage = shown.storage;
  tensor.state = ContentState::kHashed;
  std::vector<std::byte> bytes(static_cast<std::size_t>(element_count(shown.shape)) * 2);
  for (std::size_t i = 0; i * 2 < bytes.size(); ++i) {
    const auto value = static_cast<std::int16_t>(first + static_cast<std::int16_t>(i));
    std::memcpy(bytes.data() + i * 2, &value, 2);
  }
  tensor.digest = digest_bytes(bytes);
  dump.contents[tensor.content_key()] = bytes;
  dump.record.tensors.push_back(tensor);
}

std::vector<std::int16_t> values_of(const OneOp& dump, const InputStorage& storage) {
  const std::vector<std::byte> bytes = read_input_storage(dump, dump.record, storage);
  std::vector<std::int16_t> values(bytes.size() / 2);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST_CASE("elements come to lie where their strides put them") {
  OneOp dump;
  add_input(dump, "self", {{2, 3}, {1, 2}, 130, 0}, 10);
  const std::vector<InputStorage> storages = input_storages(dump, require_replayable(dump, 0));
  REQUIRE(storages.size() == 1);
  CHECK(storages[0].first == 128);
  CHECK(storages[0].count == 8);
  CHECK(values_of(dump, storages[0]) == std::vector<std::int16_t>{0, 0, 10, 13, 11, 14, 12, 15});
}

TEST_CASE("arguments that shared a storage share one") {
  OneOp dump;
  add_input(dump, "self", {{2}, {1}, 4, 7}, 1);
  add_input(dump, "other", {{2}, {1}, 0, 7}, 5);
  add_input(dump, "alpha", {{2}, {1}, 0, 8}, 5);
  const std::vector<InputStorage> storages = input_storages(dump, dump.record);
  REQUIRE(storages.size() == 2);
  CHECK(storages[0].tensors == std::vector<std::uint32_t>{0, 1});
  CHECK(values_of(dump, storages[0]) == std::vector<std::int16_t>{5, 6, 0, 0, 1, 2});
  CHECK(values_of(dump, storages[1]) == std::vector<std::int16_t>{5, 6});
}

TEST_CASE("arguments that showed one storage as other numbers have one each") {
  OneOp dump;
  add_input(dump, "self", {{2, 2}, {2, 1}, 0, 7}, 1);
  add_input(dump, "same", {{2, 2}, {2, 1}, 0, 7}, 1);
  add_input(dump, "conjugated", {{2, 2}, {2, 1}, 0, 7}, 5);
  add_input(dump, "beside", {{2}, {1}, 4, 7}, 9);
  // The second row of `self`, and what would be `self` the other way round with other numbers.
  add_input(dump, "row", {{2}, {1}, 2, 7}, 3);
  add_input(dump, "turned", {{2, 2}, {1, 2}, 0, 7}, 1);
  const std::vector<InputStorage> storages = input_storages(dump, require_replayable(dump, 0));
  REQUIRE(storages.size() == 3);
  CHECK(storages[0].tensors == std::vector<std::uint32_t>{0, 1, 3, 4});
  CHECK(values_of(dump, storages[0]) == std::vector<std::int16_t>{1, 2, 3, 4, 9, 10});
  CHECK(storages[1].tensors == std::vector<std::uint32_t>{2});
  CHECK(values_of(dump, storages[1]) == std::vector<std::int16_t>{5, 6, 7, 8});
  CHECK(storages[2].tensors == std::vector<std::uint32_t>{5});
  CHECK(values_of(dump, storages[2]) == std::vector<std::int16_t>{1, 3, 2, 4});

  dump.record.tensors.push_back(dump.record.tensors[0]);
  dump.record.tensors.back().role = TensorRole::kOutput;
  CHECK_THROWS_WITH_AS(input_storages(dump, dump.record),
                       doctest::Contains("argument conjugated is memory that the operator writes"),
                       Error);
}

TEST_CASE("empty and 0-d arguments have their place") {
  OneOp dump;
  add_input(dump, "empty", {{0, 3}, {3, 1}, 0, 1}, 0);
  add_input(dump, "scalar", {{}, {}, 0, 2}, 9);
  const std::vector<InputStorage> storages = input_storages(dump, require_replayable(dump, 0));
  REQUIRE(storages.size() == 2);
  CHECK(storages[0].count == 0);
  CHECK(values_of(dump, storages[1]) == std::vector<std::int16_t>{9});
}

TEST_CASE("what is missing is named, and hostile strides are damage") {
  OneOp dump;
  add_input(dump, "self", {{2}, {1}, 0, 7}, 1);
  const auto complete = dump.contents;
  dump.contents.clear();
  CHECK_THROWS_WITH_AS(require_replayable(dump, 0),
                       doctest::Contains("op 0 aten::add: argument self: the dump does not hold"),
                       Error);
  CHECK_THROWS_WITH_AS(require_replayable(dump, 1), doctest::Contains("there is no op 1"), Error);
  dump.contents = complete;
  TensorRecord& tensor = dump.record.tensors[0];
  tensor.state = ContentState::kUninitialised;
  CHECK_THROWS_WITH_AS(require_replayable(dump, 0), doctest::Contains("never written"), Error);
  TensorRecord result = tensor;
  result.role = TensorRole::kOutput;
  dump.record.tensors.push_back(result);
  CHECK(require_replayable(dump, 0).tensors.size() == 2);

  dump.record.tensors[0].state = ContentState::kHashed;
  for (const std::int64_t stride : {std::int64_t{1} << 62U, -std::int64_t{5}}) {
    dump.record.tensors[0].strides = {stride};
    CHECK_THROWS_AS(input_storages(dump, dump.record), Error);
  }
}

TEST_CASE("what strides leave out between the values is bounded") {
  for (unsigned power = 0; power < 63; ++power) {
    CAPTURE(power);
    OneOp dump;
    add_input(dump, "self", {{2}, {std::int64_t{1} << power}, 0, 7}, 1);
    const bool bounded = power <= 28;
    if (bounded) {
      CHECK_NOTHROW(require_replayable(dump, 0));
      continue;
    }
    ErrorKind kind = ErrorKind::kInternal;
    try {
      require_replayable(dump, 0);
    } catch (const Error& error) {
      kind = error.kind();
    }
    CHECK(kind == ErrorKind::kDumpDamaged);
  }
  OneOp apart;
  add_input(apart, "self", {{2}, {1}, 0, 7}, 1);
  add_input(apart, "other", {{2}, {1}, std::int64_t{1} << 39U, 7}, 1);
  CHECK_THROWS_AS(require_replayable(apart, 0), Error);
}

TEST_CASE("what was written lies on top of memory that nobody had written") {
  OneOp dump;
  add_input(dump, "self", {{2}, {1}, 1, 7}, 3);
  add_input(dump, "out", {{4}, {1}, 0, 7}, 1);
  dump.record.tensors[1].state = ContentState::kUninitialised;
  dump.record.tensors.push_back(dump.record.tensors[1]);
  dump.record.tensors.back().role = TensorRole::kOutput;
  const std::vector<InputStorage> storages = input_storages(dump, require_replayable(dump, 0));
  REQUIRE(storages.size() == 1);
  CHECK(values_of(dump, storages[0]) == std::vector<std::int16_t>{0, 3, 4, 0});
}

TEST_CASE("memory that nobody had written is bounded by what was written there") {
  OneOp dump;
  add_input(dump, "out", {{std::int64_t{1} << 20U}, {1}, 0, 7}, 1);
  dump.record.tensors.push_back(dump.record.tensors[0]);
  dump.record.tensors[1].role = TensorRole::kOutput;
  TensorRecord& input = dump.record.tensors[0];
  input.state = ContentState::kUninitialised;
  CHECK_NOTHROW(require_replayable(dump, 0));
  for (const std::int64_t stride : {0, 1}) {
    input.shape = {std::int64_t{1} << 36U};
    input.strides = {stride};
    CHECK_THROWS_AS(require_replayable(dump, 0), Error);
  }
}

}  // namespace
}  // namespace repro_check::core
