// SPDX-License-Identifier: Apache-2.0
// Records whose contents a device digests, late: a device that is none, on the host's memory.
#include <ATen/ATen.h>
#include <torch/library.h>

#include <filesystem>

#include "dumpers/capture/torch/torch_compat.h"
#include "dumpers/journal/journal_reader.h"
#include "dumpers/journal/journal_writer.h"
#include "tests/dumpers/capture/fake_stream.h"
#include "tests/dumpers/capture/recording.h"
#include "tests/support/temp_directory.h"

#define DOCTEST_CONFIG_NO_SHORT_MACRO_NAMES
#include <doctest/doctest.h>

namespace repro_check::capture {
namespace {

/// Writes its first argument, of which its schema says nothing, where its second one is true.
at::Tensor maybe_bump(const at::Tensor& tensor, bool writes) {
  if (writes) static_cast<float*>(tensor.data_ptr())[0] += 1;
  return tensor.sum();
}

TORCH_LIBRARY(repro_check_device_test, library) {
  library.def("maybe_bump(Tensor x, bool writes) -> Tensor", &maybe_bump);
}

at::Tensor call_maybe_bump(const at::Tensor& tensor, bool writes) {
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow("repro_check_device_test::maybe_bump", "")
      .typed<at::Tensor(const at::Tensor&, bool)>()
      .call(tensor, writes);
}

/// Takes the host for a device.
struct FakeDevice {
  FakeStream* stream = nullptr;  ///< of the capture, and gone with it
  bool has_no_memory = false;
  RingSize ring = {};
  std::vector<const void*> used;  ///< memory of which its allocator was told

  CaptureOptions options(CaptureOptions base = top()) {
    DigestingDevices devices;
    devices.hold = [](const at::Tensor& tensor) {
      return form_of(tensor) == TensorForm::kStrided && tensor.is_cpu() && tensor.numel() > 0 &&
             !tensor.is_quantized() && !tensor._is_zerotensor() &&
             tensor.nbytes() <= tensor.storage().nbytes();
    };
    devices.make = [this](const c10::Device&) {
      auto made = std::make_unique<FakeStream>(7);
      made->is_stuck = true;
      made->has_no_memory = has_no_memory;
      stream = made.get();
      return made;
    };
    devices.capture = [this](const c10::Device&) { return stream != nullptr && stream->captures; };
    devices.note_use = [this](const at::Tensor& tensor) {
      used.push_back(tensor.storage().data());
    };
    devices.ring = ring;
    base.devices = std::make_shared<const DigestingDevices>(std::move(devices));
    return base;
  }
};

/// Whatever a program does to tensors.
void train_by_hand() {
  at::Tensor weight = at::arange(6, at::kFloat).view({2, 3});
  at::Tensor buffer = at::zeros({2});
  for (int i = 0; i < 4; ++i) {
    const at::Tensor input = at::full({3}, 0.5 + i);
    const at::Tensor out = at::matmul(weight, input.contiguous());
    buffer.mul_(0.9).add_(out);
    weight.t().add_(out);
    call_maybe_bump(weight.view({6}), i % 2 == 0);
    call_maybe_bump(weight.view({6}), false);
    at::relu(weight.t()).sum();
    weight.select(0, 1).zero_();
    at::add(weight, weight).to(at::kDouble).isnan();
  }
}

void check_same(const Trace& found, const Trace& expected) {
  DOCTEST_REQUIRE(found.records.size() == expected.records.size());
  DOCTEST_CHECK(found.entered == expected.entered);
  for (std::size_t i = 0; i < found.records.size(); ++i) {
    const core::OpRecord& one = found.records[i];
    const core::OpRecord& other = expected.records[i];
    DOCTEST_CAPTURE(i);
    DOCTEST_CAPTURE(other.op->name);
    DOCTEST_REQUIRE(one.index == other.index);
    DOCTEST_REQUIRE(one.tensors.size() == other.tensors.size());
    for (std::size_t t = 0; t < one.tensors.size(); ++t) {
      const core::TensorRecord& left = one.tensors[t];
      const core::TensorRecord& right = other.tensors[t];
      DOCTEST_CAPTURE(right.slot);
      DOCTEST_CHECK(left.slot == right.slot);
      DOCTEST_CHECK(left.role == right.role);
      DOCTEST_CHECK(left.state == right.state);
      DOCTEST_CHECK(left.digest == right.digest);
      DOCTEST_CHECK(left.producer == right.producer);
      DOCTEST_CHECK(left.storage == right.storage);
      DOCTEST_CHECK(left.name == right.name);
      DOCTEST_CHECK(left.watch == right.watch);
      DOCTEST_CHECK(left.counted == right.counted);
      DOCTEST_CHECK(left.stored == right.stored);
    }
  }
}

DOCTEST_TEST_CASE("device: records are those of the host, in its order, at every depth") {
  for (const core::DumpDepth depth :
       {core::DumpDepth::kTop, core::DumpDepth::kLeaf, core::DumpDepth::kAll}) {
    for (const bool verify : {false, true}) {
      CaptureOptions options = options_for(depth);
      options.verify_inputs = verify;
      FakeDevice device;
      device.ring = {4, 8};
      const CaptureOptions there = device.options(options);
      const Trace expected = record(options, train_by_hand);
      check_same(record(there, train_by_hand), expected);
      if (depth == core::DumpDepth::kTop) {
        const auto bumps = expected.all("repro_check_device_test::maybe_bump");
        DOCTEST_REQUIRE(bumps.size() == 8);
        DOCTEST_CHECK(bumps[0]->tensors.size() == 3);  // it has written what it was given
        DOCTEST_CHECK(bumps[1]->tensors.size() == 2);
      }
      DOCTEST_CHECK(device.used.size() > 50);
    }
  }
}

DOCTEST_TEST_CASE("device: no operator waits, and nothing of a tensor is kept") {
  FakeDevice device;
  MemorySink sink;
  Capture capture(device.options(), sink, nullptr);
  {
    const Capture::Scope scope(capture);
    at::ones({1});  // the device shows that it can, which is waited for
    const int before = device.stream->waited;
    at::Tensor tensor = at::ones({30});
    at::Tensor gradient = at::mul(tensor, 2);
    DOCTEST_CHECK(gradient.use_count() == 1);
    DOCTEST_CHECK(gradient.storage().use_count() == 1);
    for (int i = 0; i < 50; ++i) tensor.add_(gradient);
    DOCTEST_CHECK(device.stream->waited == before);
    DOCTEST_CHECK(sink.records.size() < 50);
    DOCTEST_CHECK(sink.entered.size() > 50);
    // Of memory that goes, as fully_shard() does with what it has gathered.
    gradient.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl()->reset();
    tensor.reset();
  }
  capture.rethrow_failure();
  DOCTEST_CHECK(sink.records.size() == sink.entered.size());
  DOCTEST_CHECK(capture.counts().device_waits == 0);
  const core::OpRecord& last = sink.records.back();
  DOCTEST_CHECK(last.tensors.back().digest == digest_of(at::full({30}, 101.0)));
}

DOCTEST_TEST_CASE("device: the allocator is told of what a stream reads, but for its own copies") {
  FakeDevice device;
  const at::Tensor tensor = at::ones({4, 6});
  const at::Tensor turned = at::ones({4, 6}).t();
  record(device.options(), [&] {
    at::neg(tensor);
    at::neg(turned);
  });
  const auto was_told = [&](const at::Tensor& of) {
    return std::ranges::find(device.used, of.storage().data()) != device.used.end();
  };
  DOCTEST_CHECK(was_told(tensor));
  DOCTEST_CHECK_FALSE(was_told(turned));
}

DOCTEST_TEST_CASE("device: what waits for digests is bounded by bytes") {
  FakeDevice device;
  CaptureOptions options = device.options();
  options.most_pending = std::size_t{20} << 10U;
  MemorySink sink;
  Capture capture(options, sink, nullptr);
  {
    const Capture::Scope scope(capture);
    at::Tensor tensor = at::ones({30});
    for (int i = 0; i < 50; ++i) tensor.add_(1);
    DOCTEST_CHECK(sink.records.size() > 30);
  }
  DOCTEST_CHECK(capture.counts().device_waits > 0);
  DOCTEST_CHECK(sink.records.size() == sink.entered.size());
  for (std::size_t i = 0; i < sink.records.size(); ++i) DOCTEST_CHECK(sink.records[i].index == i);
}

DOCTEST_TEST_CASE("device: a kill loses what was on its way, and the journal says which") {
  const test_support::TempDirectory directory;
  FakeDevice device;
  journal::JournalSink sink(directory.path() / "recording");
  device.ring = {16, 64};
  Capture capture(device.options(), sink, nullptr);
  const Capture::Scope scope(capture);
  at::Tensor tensor = at::ones({30});
  for (int i = 0; i < 300; ++i) {
    tensor.add_(1);
    if (i == 200) device.stream->finish();
  }
  // As the file is when the process is gone.
  journal::JournalReader reader(directory.path() / "recording" / journal::kJournalName);
  journal::SummaryBuilder summary;
  std::uint64_t next = 0;
  while (const auto event = reader.next_event()) {
    if (const auto* record = std::get_if<core::OpRecord>(&*event)) {
      DOCTEST_CHECK(record->index == next++);
    }
    summary.add(*event);
  }
  DOCTEST_CHECK(next > 0);
  DOCTEST_CHECK(summary.finish().completed == next);
  DOCTEST_CHECK(summary.open.size() == capture.next_index() - next);
  DOCTEST_CHECK(summary.open.size() > 0);
}

DOCTEST_TEST_CASE("device: what it cannot read is not read, and the program goes on") {
  for (const int kind : {0, 1, 2}) {
    FakeDevice device;
    MemorySink sink;
    Capture capture(device.options(), sink, nullptr);
    at::Tensor sum;
    {
      const Capture::Scope scope(capture);
      at::neg(at::ones({3}));
      FakeStream& stream = *device.stream;
      stream.disturbed = 0;
      stream.captures = kind == 0;
      stream.fails_to_start = kind == 1;
      stream.fails = kind == 2;
      sum = at::add(at::ones({500}), 2).sum();
      DOCTEST_CHECK(stream.disturbed == 0);
      stream.captures = false;
    }
    capture.rethrow_failure();
    DOCTEST_CHECK(sum.item<float>() == 1500);
    DOCTEST_CHECK(sink.records.size() == sink.entered.size());
    const core::TensorRecord& result = sink.only("aten::add").tensors.back();
    DOCTEST_CHECK(result.state == core::ContentState::kNone);
    DOCTEST_CHECK(result.attributes == "unread");
  }
  FakeDevice device;  // without memory of ours the host reads
  device.has_no_memory = true;
  check_same(record(device.options(), train_by_hand), record(top(), train_by_hand));
}

DOCTEST_TEST_CASE("device: numbers of a record have their values") {
  const auto losses = [](const CaptureOptions& options) {
    MemorySink sink;
    Capture capture(options, sink, nullptr);
    {
      const Capture::Scope scope(capture);
      for (int i = 0; i < 3; ++i) {
        const at::Tensor loss = at::mul(at::ones({}), i);
        capture.record_values("repro_check::loss", {{"loss", loss}, {"weights", at::ones({40})}});
      }
    }
    return std::move(static_cast<Trace&>(sink));
  };
  FakeDevice device;
  const Trace found = losses(device.options());
  const Trace expected = losses(top());
  check_same(found, expected);
  DOCTEST_CHECK((found.contents == expected.contents));
  DOCTEST_CHECK(found.contents.size() == 3);
  const auto records = found.all("repro_check::loss");
  DOCTEST_CHECK(records[2]->tensors[0].stats.value().max == 2);
}

DOCTEST_TEST_CASE("device: a read that nothing orders behind the write is marked") {
  FakeDevice device;
  MemorySink sink;
  Capture capture(device.options(), sink, nullptr);
  {
    const Capture::Scope scope(capture);
    at::Tensor tensor = at::ones({30});
    device.stream->switch_to(1);
    tensor.add_(1);
    capture.record_values("repro_check::here", {{"weight", tensor}});
    capture.forget_contents();
    tensor.add_(1);
    device.stream->switch_to(0);
    // An operator reads where the program has ordered it to be read.
    at::neg(tensor);
    capture.record_values("repro_check::ordered", {{"weight", tensor}});
    {
      const c10::impl::ExcludeDispatchKeyGuard unseen(kCaptureKey);
      tensor.unsafeGetTensorImpl()->bump_version();
    }
    capture.record_values("repro_check::there", {{"weight", tensor}});
  }
  const auto watch_of = [&](const std::string& name) {
    return sink.only(name).tensors.front().watch == core::InputWatch::kMoved;
  };
  DOCTEST_CHECK_FALSE(watch_of("repro_check::here"));
  DOCTEST_CHECK_FALSE(watch_of("repro_check::ordered"));
  DOCTEST_CHECK_FALSE(watch_of("aten::neg"));
  DOCTEST_CHECK(watch_of("repro_check::there"));
  DOCTEST_CHECK(capture.warnings().size() == 1);
}

/// Keeps parameters alone.
class ParameterSink final : public core::DumpSink {
 public:
  void enter(const core::OpHead& /*call*/) override {}
  [[nodiscard]] bool has_content(const core::ContentKey& /*key*/) const override { return false; }
  bool put_content(const core::ContentKey& /*key*/, const core::ContentBytes& /*bytes*/) override {
    return false;
  }
  void append(const core::OpRecord& /*record*/) override {}
  void parameter(const core::ParameterRow& row) override { rows.push_back(row); }
  void fail(const std::string& /*message*/) override {}

  std::vector<core::ParameterRow> rows;
};

DOCTEST_TEST_CASE("device: borders have the digests of the host") {
  const auto borders = [](const CaptureOptions& options) {
    ParameterSink sink;
    Capture capture(options, sink, nullptr);
    const std::int64_t number = 5;
    const std::array<BorderLeaf, 3> leaves{
        BorderLeaf{at::ones({7})},
        BorderLeaf{{}, core::Dtype::kInt64, std::as_bytes(std::span(&number, 1)), {}},
        BorderLeaf{at::arange(4)}};
    BorderReading read;
    DOCTEST_CHECK(capture.read_border(leaves, read) == 0);
    core::ParameterRow row{1, "weight", std::nullopt};
    capture.append(row, read);
    capture.flush();
    DOCTEST_CHECK(capture.counts().rows == 1);
    DOCTEST_REQUIRE(sink.rows.size() == 1);
    return sink.rows.front().digest;
  };
  FakeDevice device;
  const auto found = borders(device.options());
  DOCTEST_CHECK(found.has_value());
  DOCTEST_CHECK(found == borders(top()));
}

}  // namespace
}  // namespace repro_check::capture
