// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/tensors/device_digests.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "dumpers/capture/tensors/device_memory.h"
#include "dumpers/capture/tensors/leaf_kernel.h"
#include "dumpers/capture/torch/cuda_driver.h"
#include "dumpers/capture/torch/torch_compat.h"

namespace repro_check::capture {
namespace {

constexpr std::uintptr_t kAlignment = 16;

/// What the kernel takes it for: one piece, that begins where 16 bytes can be read at once.
at::Tensor in_one_piece(const at::Tensor& tensor) {
  at::Tensor whole = tensor.resolve_conj().resolve_neg().contiguous();
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(whole.data_ptr()) % kAlignment == 0;
  return is_aligned ? whole : whole.clone();
}

class CudaStream final : public DeviceStream {
 public:
  explicit CudaStream(std::unique_ptr<CudaProgram> program) : program_(std::move(program)) {}

  std::optional<Handle> current() override { return program_->current_stream(); }

  std::byte* allocate(std::size_t bytes) override {
    try {
      return memory_.emplace_back(bytes).data();
    } catch (const c10::Error&) {
      return nullptr;
    }
  }

  bool start(Handle stream,
             const kernel::LeafOrder* orders,
             kernel::LeafResult* results,
             std::byte* copied,
             std::size_t count) override {
    std::array<void*, 3> arguments{static_cast<void*>(&orders), &results, &copied};
    return program_->start(
        stream, 0, static_cast<unsigned>(count), kernel::kThreads, arguments.data());
  }

  bool record(std::size_t event, Handle stream) override {
    if (events_.size() <= event) events_.resize(event + 1);
    return program_->record(events_[event], stream);
  }
  Progress query(std::size_t event) override {
    return progress_of(program_->query(events_[event]));
  }
  Progress wait(std::size_t event) override {
    return progress_of(program_->wait_for(events_[event]));
  }

 private:
  static Progress progress_of(CudaProgram::Progress progress) {
    if (progress == CudaProgram::Progress::kGoing) return Progress::kGoing;
    return progress == CudaProgram::Progress::kDone ? Progress::kDone : Progress::kFailed;
  }

  std::unique_ptr<CudaProgram> program_;
  std::vector<PinnedRows<std::byte>> memory_;
  std::vector<void*> events_;  ///< left to the driver, as what was compiled
};

std::unique_ptr<DeviceStream> make_cuda_stream(const c10::Device& device) {
  auto program = CudaProgram::compile(kernel::kText, {"digest_leaves"}, device);
  return program == nullptr ? nullptr : std::make_unique<CudaStream>(std::move(program));
}

void note_cuda_use(const at::Tensor& tensor) {
  const c10::impl::VirtualGuardImpl devices(tensor.device().type());
  devices.recordDataPtrOnStream(tensor.unsafeGetTensorImpl()->unsafe_storage().data_ptr(),
                                devices.getStream(tensor.device()));
}

/// A tensor that has something of everything, and some of its bytes.
std::array<std::pair<at::Tensor, core::Dtype>, 3> probes() {
  at::Tensor floats = at::arange(270'000, at::TensorOptions(at::kFloat)).div_(7);
  floats.slice(0, 3, 260'000, 1'001).fill_(std::numeric_limits<float>::quiet_NaN());
  floats.slice(0, 5, 270'000, 777).fill_(-std::numeric_limits<float>::infinity());
  return {{{floats, core::Dtype::kFloat32},
           {floats.slice(0, 0, 7), core::Dtype::kFloat32},
           {floats.view(at::kByte).slice(0, 1, 100'003), core::Dtype::kUInt8}}};
}

std::vector<Awaited> unread(std::size_t count) {
  std::vector<Awaited> contents(count);
  for (Awaited& content : contents) content = unread_content();
  return contents;
}

}  // namespace

DigestingDevices cuda_devices() {
  return {&lies_on_device, &make_cuda_stream, &captures_graph, &note_cuda_use, {}};
}

/// Of one device.
struct DeviceDigests::Reader {
  Reader(std::unique_ptr<DeviceStream> its, RingSize size)
      : device(std::move(its)), ring(*device, size) {}

  std::unique_ptr<DeviceStream> device;
  DigestRing ring;
};

DeviceDigests::DeviceDigests(DigestingDevices devices) : devices_(std::move(devices)) {}

DeviceDigests::~DeviceDigests() {
  for (auto& [device, reader] : readers_) {
    // What is still under way writes into its memory.
    if (reader != nullptr && !reader->ring.is_idle()) static_cast<void>(reader.release());
  }
}

DeviceDigests::Reader* DeviceDigests::reader_of(const c10::Device& device) {
  auto [found, is_new] = readers_.try_emplace(device.index());
  std::unique_ptr<Reader>& reader = found->second;
  if (!is_new) return reader.get();
  auto stream = devices_.make(device);
  if (stream == nullptr) return nullptr;
  reader = std::make_unique<Reader>(std::move(stream), devices_.ring);
  for (const auto& [tensor, dtype] : probes()) {
    const StridedBytes here(static_cast<const std::byte*>(tensor.data_ptr()),
                            static_cast<std::size_t>(tensor.element_size()),
                            {tensor.sizes().data(), tensor.sizes().size()},
                            {tensor.strides().data(), tensor.strides().size()});
    const ContentSummary expected = summarise_content(here, dtype, false);
    const DeviceContent there{tensor.to(device), dtype};
    const std::vector<Awaited> found_there = start({&there, 1});
    if (!found_there.empty()) wait_for(found_there.front());
    if (found_there.empty() || found_there.front()->state != AwaitedContent::State::kRead ||
        found_there.front()->summary.digest != expected.digest ||
        !(found_there.front()->summary.non_finite == expected.non_finite)) {
      static_cast<void>(reader.release());
      return nullptr;
    }
  }
  return reader.get();
}

std::vector<Awaited> DeviceDigests::start(std::span<const DeviceContent> contents) {
  if (contents.empty()) return {};
  const EngineCalls guard;
  const c10::Device device = contents.front().tensor.device();
  try {
    if (devices_.capture(device)) return unread(contents.size());
    Reader* reader = reader_of(device);
    if (reader == nullptr || !reader->device->current()) return {};
    std::vector<at::Tensor> copies;  // given back to this stream: who gets them comes behind
    std::vector<DigestRing::Content> pieces;
    for (const DeviceContent& content : contents) {
      const at::Tensor& whole = copies.emplace_back(in_one_piece(content.tensor));
      pieces.push_back(
          {static_cast<const std::byte*>(whole.data_ptr()), whole.nbytes(), content.dtype});
      if (whole.data_ptr() == content.tensor.data_ptr()) devices_.note_use(content.tensor);
    }
    return reader->ring.start(pieces);
  } catch (const c10::Error&) {
    // No memory for a copy, or a device that has failed: the program's own next call says so.
    return unread(contents.size());
  }
}

void DeviceDigests::poll() {
  for (auto& [device, reader] : readers_) {
    if (reader != nullptr) reader->ring.poll();
  }
}

void DeviceDigests::wait_for(const Awaited& content) {
  if (is_on_the_way(content)) content->ring->wait_for(*content);
}

std::uint64_t DeviceDigests::stalls() const {
  std::uint64_t stalls = 0;
  for (const auto& [device, reader] : readers_) {
    if (reader != nullptr) stalls += reader->ring.stalls();
  }
  return stalls;
}

}  // namespace repro_check::capture
