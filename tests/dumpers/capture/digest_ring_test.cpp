// SPDX-License-Identifier: Apache-2.0
// Digests of a device that delays and reorders whatever no event orders.
#include "dumpers/capture/tensors/digest_ring.h"

#include <array>

#include "tests/dumpers/capture/fake_stream.h"

#define DOCTEST_CONFIG_NO_SHORT_MACRO_NAMES
#include <doctest/doctest.h>

namespace repro_check::capture {
namespace {

using State = AwaitedContent::State;
using Bytes = std::vector<std::byte>;

Bytes filled(std::size_t size, unsigned value) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>(value * 31 + i * 7 + i / 251);
  }
  return bytes;
}

Awaited start(DigestRing& ring, const Bytes& bytes) {
  const DigestRing::Content content{bytes.data(), bytes.size(), core::Dtype::kUInt8};
  const std::vector<Awaited> started = ring.start({&content, 1});
  return started.empty() ? nullptr : started.front();
}

DOCTEST_TEST_CASE("ring: every content gets the digest of its bytes, whatever its size") {
  FakeStream device;
  DigestRing ring(device, {3, 4});
  std::vector<Bytes> contents;
  for (const std::size_t size :
       {1U, 16U, 17U, 240U, 1024U, 1025U, 70'000U, 1'048'576U, 7'000'003U}) {
    contents.push_back(filled(size, static_cast<unsigned>(size)));
  }
  std::vector<Awaited> awaited;
  for (const Bytes& bytes : contents) awaited.push_back(start(ring, bytes));
  for (std::size_t i = 0; i < contents.size(); ++i) {
    DOCTEST_CAPTURE(contents[i].size());
    ring.wait_for(*awaited[i]);
    DOCTEST_CHECK(awaited[i]->state == State::kRead);
    DOCTEST_CHECK(awaited[i]->summary.digest == core::digest_bytes(contents[i]));
    DOCTEST_CHECK((contents[i].size() <= 16) == (awaited[i]->bytes == contents[i]));
  }
  DOCTEST_CHECK(ring.stalls() > 0);  // the last one alone has more leaves than there are places
}

DOCTEST_TEST_CASE("ring: digests are of what the stream's order says, under any schedule") {
  for (unsigned seed = 0; seed < 200; ++seed) {
    FakeStream device(seed);
    device.reads_late = true;
    DigestRing ring(device, {2, 3});
    std::array<Bytes, 2> memory{filled(3000, 0), filled(900, 0)};
    std::vector<std::pair<Awaited, core::Digest>> expected;
    std::mt19937 random(seed);
    for (unsigned i = 1; i < 40; ++i) {
      const int stream = static_cast<int>(random() % 2);
      Bytes& own = memory[static_cast<std::size_t>(stream)];
      const Bytes next = filled(own.size(), i);
      device.switch_to(stream);
      device.run(stream, [&own, next] { own = next; });
      // The copy of a vector of the same size keeps its memory.
      expected.emplace_back(start(ring, own), core::digest_bytes(next));
      ring.poll();
    }
    for (const auto& [content, digest] : expected) {
      ring.wait_for(*content);
      DOCTEST_REQUIRE(content->state == State::kRead);
      DOCTEST_CHECK(content->summary.digest == digest);
    }
  }
}

DOCTEST_TEST_CASE("ring: only an event orders a stream's read behind another stream's write") {
  bool was_early = false;
  for (unsigned seed = 0; seed < 100; ++seed) {
    for (const bool is_ordered : {true, false}) {
      FakeStream device(seed);
      device.reads_late = true;
      DigestRing ring(device);
      Bytes memory = filled(500, 0);
      const core::Digest before = core::digest_bytes(memory);
      const Bytes next = filled(500, 1);
      device.run(1, [&] { memory = next; });
      if (is_ordered) device.order_behind(0, 1);
      const Awaited content = start(ring, memory);
      ring.wait_for(*content);
      if (is_ordered) DOCTEST_CHECK(content->summary.digest == core::digest_bytes(next));
      was_early = was_early || content->summary.digest == before;
    }
  }
  DOCTEST_CHECK(was_early);
}

DOCTEST_TEST_CASE("ring: nothing is waited for while there is room, and places are used again") {
  FakeStream device;
  DigestRing ring(device, {4, 8});
  const Bytes bytes = filled(2000, 3);
  for (int round = 0; round < 50; ++round) {
    std::vector<Awaited> some;
    for (int i = 0; i < 24; ++i) some.push_back(start(ring, bytes));
    DOCTEST_CHECK(device.waited == round);
    device.finish();
    ring.poll();
    ring.wait_for(*some.back());  // of the batch that is not full yet
    for (const Awaited& content : some) {
      DOCTEST_CHECK(content->summary.digest == core::digest_bytes(bytes));
    }
  }
  DOCTEST_CHECK(ring.stalls() == 0);
}

DOCTEST_TEST_CASE("ring: a full ring waits for its oldest batch, and counts it") {
  FakeStream device;
  device.is_stuck = true;
  DigestRing ring(device, {2, 2});
  const Bytes bytes = filled(2000, 3);
  std::vector<Awaited> all;
  for (int i = 0; i < 6; ++i) {
    all.push_back(start(ring, bytes));
    ring.poll();
  }
  DOCTEST_CHECK(ring.stalls() == 1);
  DOCTEST_CHECK(all[1]->state == State::kRead);
  DOCTEST_CHECK(all[2]->state == State::kOnTheWay);
}

DOCTEST_TEST_CASE("ring: while a graph is captured the device is left alone") {
  FakeStream device;
  DigestRing ring(device);
  device.captures = true;
  const Bytes bytes = filled(2000, 3);
  DOCTEST_CHECK(start(ring, bytes) == nullptr);
  ring.poll();
  DOCTEST_CHECK(device.disturbed == 0);
  device.captures = false;
  const Awaited content = start(ring, bytes);
  device.captures = true;
  ring.poll();
  device.finish();
  DOCTEST_CHECK(device.query(0) == DeviceStream::Progress::kDone);  // put there before
  DOCTEST_CHECK(start(ring, bytes) == nullptr);
  DOCTEST_CHECK(device.disturbed == 0);
  device.captures = false;
  ring.wait_for(*content);
  DOCTEST_CHECK(content->state == State::kRead);
}

DOCTEST_TEST_CASE("ring: what fails on the device is not read, and nothing waits for ever") {
  const Bytes bytes = filled(2000, 3);
  {
    FakeStream device;
    device.has_no_memory = true;
    DigestRing ring(device);
    DOCTEST_CHECK(start(ring, bytes) == nullptr);
    device.has_no_memory = false;
    DOCTEST_CHECK(start(ring, bytes) != nullptr);
  }
  for (const int kind : {0, 1, 2}) {
    FakeStream device;
    DigestRing ring(device, {2, 2});
    const Awaited good = start(ring, bytes);
    ring.wait_for(*good);
    device.fails_to_start = kind == 0;
    device.fails_to_record = kind == 1;
    device.fails = kind == 2;
    std::vector<Awaited> lost;
    for (int i = 0; i < 9; ++i) {
      if (const Awaited content = start(ring, bytes)) lost.push_back(content);
      ring.poll();
    }
    for (const Awaited& content : lost) {
      ring.wait_for(*content);
      DOCTEST_CHECK(content->state == State::kUnread);
    }
    DOCTEST_CHECK(good->summary.digest == core::digest_bytes(bytes));
    device.fails_to_start = device.fails_to_record = device.fails = false;
    // A launch may be refused and the next one taken; an event that is lost says nothing for ever.
    DOCTEST_CHECK((start(ring, bytes) != nullptr) == (kind == 0));
  }
}

}  // namespace
}  // namespace repro_check::capture
