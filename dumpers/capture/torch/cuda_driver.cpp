// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/torch/cuda_driver.h"

#include <c10/core/Allocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace repro_check::capture {
namespace {

/// As CUDA's headers have it (docs.nvidia.com/cuda/cuda-driver-api, and nvrtc), in C's own types.
struct Driver {
  int (*context)(void** context) = nullptr;
  int (*set_context)(void* context) = nullptr;
  int (*keep_context)(void** context, int device) = nullptr;
  int (*device_attribute)(int* value, int attribute, int device) = nullptr;
  int (*load_module)(void** module, const void* image) = nullptr;
  int (*find_function)(void** function, void* module, const char* name) = nullptr;
  int (*launch)(void* function,
                unsigned blocks_x,
                unsigned blocks_y,
                unsigned blocks_z,
                unsigned threads_x,
                unsigned threads_y,
                unsigned threads_z,
                unsigned shared_bytes,
                void* stream,
                void** arguments,
                void** extra) = nullptr;
  int (*is_capturing)(void* stream, int* status) = nullptr;
  int (*exchange_capture_mode)(int* mode) = nullptr;
  int (*create_event)(void** event, unsigned flags) = nullptr;
  int (*record_event)(void* event, void* stream) = nullptr;
  int (*query_event)(void* event) = nullptr;
  int (*wait_for_event)(void* event) = nullptr;
  int (*make_program)(void** program,
                      const char* source,
                      const char* name,
                      int headers,
                      const char* const* header_texts,
                      const char* const* header_names) = nullptr;
  int (*compile_program)(void* program, int options, const char* const* option_texts) = nullptr;
  int (*image_size)(void* program, std::size_t* size) = nullptr;
  int (*image)(void* program, char* image) = nullptr;
  int (*drop_program)(void** program) = nullptr;

  Driver();
  [[nodiscard]] bool is_whole() const { return is_whole_; }

 private:
  template <class Function>
  void find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    is_whole_ = is_whole_ && function != nullptr;
  }
  bool is_whole_ = false;
};

constexpr int kDone = 0;
constexpr int kNotReady = 600;
constexpr int kCapturedElsewhere = 906;  // CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
constexpr int kNoCapture = 0;
constexpr int kCapturesAnyway = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED
constexpr unsigned kUntimed = 2;
constexpr int kCapabilityMajor = 75;
constexpr int kCapabilityMinor = 76;

/// PyTorch's own bridge to the two, beside its other libraries: it is linked to those that fit.
void* open_bridge() {
  Dl_info found;
  const auto* inside = reinterpret_cast<const void*>(&c10::GetAllocator);
  if (dladdr(inside, &found) == 0 || found.dli_fname == nullptr) return nullptr;
  std::string place = found.dli_fname;
  place.resize(place.rfind('/') + 1);
  return dlopen((place + "libcaffe2_nvrtc.so").c_str(), RTLD_NOW | RTLD_LOCAL);
}

Driver::Driver() {
  void* bridge = open_bridge();
  if (bridge == nullptr) return;
  is_whole_ = true;
  find(bridge, "cuCtxGetCurrent", context);
  find(bridge, "cuCtxSetCurrent", set_context);
  find(bridge, "cuDevicePrimaryCtxRetain", keep_context);
  find(bridge, "cuDeviceGetAttribute", device_attribute);
  find(bridge, "cuModuleLoadData", load_module);
  find(bridge, "cuModuleGetFunction", find_function);
  find(bridge, "cuLaunchKernel", launch);
  find(bridge, "cuStreamIsCapturing", is_capturing);
  find(bridge, "cuThreadExchangeStreamCaptureMode", exchange_capture_mode);
  find(bridge, "cuEventCreate", create_event);
  find(bridge, "cuEventRecord", record_event);
  find(bridge, "cuEventQuery", query_event);
  find(bridge, "cuEventSynchronize", wait_for_event);
  find(bridge, "nvrtcCreateProgram", make_program);
  find(bridge, "nvrtcCompileProgram", compile_program);
  find(bridge, "nvrtcGetCUBINSize", image_size);
  find(bridge, "nvrtcGetCUBIN", image);
  find(bridge, "nvrtcDestroyProgram", drop_program);
}

const Driver& driver() {
  static const Driver found;
  return found;
}

/// Machine code for the device; empty where there is none.
std::vector<char> compiled(const char* source, int device) {
  const Driver& cuda = driver();
  int major = 0;
  int minor = 0;
  if (cuda.device_attribute(&major, kCapabilityMajor, device) != kDone ||
      cuda.device_attribute(&minor, kCapabilityMinor, device) != kDone) {
    return {};
  }
  void* program = nullptr;
  if (cuda.make_program(&program, source, "repro_check.cu", 0, nullptr, nullptr) != kDone) {
    return {};
  }
  const std::string architecture =
      "--gpu-architecture=sm_" + std::to_string(major) + std::to_string(minor);
  const std::vector<const char*> options{architecture.c_str(),
                                         "--std=c++17",
                                         "--fmad=false",  // sums are to be those of the host
                                         "--define-macro=DEVICE=static __device__ __forceinline__"};
  std::vector<char> image;
  std::size_t size = 0;
  if (cuda.compile_program(program, static_cast<int>(options.size()), options.data()) == kDone &&
      cuda.image_size(program, &size) == kDone) {
    image.resize(size);
    if (cuda.image(program, image.data()) != kDone) image.clear();
  }
  cuda.drop_program(&program);
  return image;
}

// The analyzer does not know that these are made where the driver is whole.
// NOLINTBEGIN(clang-analyzer-core.CallAndMessage)

/// PyTorch's context of a device on the calling thread, which may have had none yet.
class ContextGuard {
 public:
  explicit ContextGuard(void* context) {
    is_there_ = driver().context(&before_) == kDone &&
                (before_ == context || driver().set_context(context) == kDone);
    changed_ = before_ != context;
  }
  ContextGuard(const ContextGuard&) = delete;
  ContextGuard& operator=(const ContextGuard&) = delete;
  ~ContextGuard() {
    if (changed_) driver().set_context(before_);
  }
  [[nodiscard]] bool is_there() const { return is_there_; }

 private:
  void* before_ = nullptr;
  bool is_there_ = false;
  bool changed_ = false;
};

/// What is asked of events ends no capture that another thread makes meanwhile.
class BesideCaptures {
 public:
  BesideCaptures() { is_changed_ = driver().exchange_capture_mode(&mode_) == kDone; }
  BesideCaptures(const BesideCaptures&) = delete;
  BesideCaptures& operator=(const BesideCaptures&) = delete;
  ~BesideCaptures() {
    if (is_changed_) driver().exchange_capture_mode(&mode_);
  }

 private:
  int mode_ = kCapturesAnyway;
  bool is_changed_ = false;
};

// NOLINTEND(clang-analyzer-core.CallAndMessage)

c10::Stream stream_of(const c10::Device& device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

/// As the driver knows it; empty where the release does not tell.
template <class Stream>
std::optional<void*> handle_of(const Stream& stream) {
  if (stream.id() == 0) return static_cast<void*>(nullptr);  // the default one, for both
  if constexpr (requires { stream.native_handle(); }) {
    try {
      return stream.native_handle();
    } catch (const c10::Error&) {  // known to releases that do not know it of CUDA
    }
  }
  return std::nullopt;
}

}  // namespace

struct CudaProgram::Impl {
  c10::Device device;
  void* context = nullptr;
  void* module = nullptr;
  std::vector<void*> functions = {};
};

std::unique_ptr<CudaProgram> CudaProgram::compile(const char* source,
                                                  std::initializer_list<const char*> names,
                                                  c10::Device device) {
  const Driver& cuda = driver();
  if (device.type() != c10::DeviceType::CUDA || !cuda.is_whole()) return nullptr;
  auto impl = std::make_unique<Impl>(Impl{device});
  // Never given back: it is that of PyTorch, which keeps it to the end as well.
  if (cuda.keep_context(&impl->context, device.index()) != kDone) return nullptr;
  const std::vector<char> image = compiled(source, device.index());
  const ContextGuard context(impl->context);
  if (image.empty() || !context.is_there() ||
      cuda.load_module(&impl->module, image.data()) != kDone) {
    return nullptr;
  }
  for (const char* name : names) {
    void*& function = impl->functions.emplace_back();
    if (cuda.find_function(&function, impl->module, name) != kDone) return nullptr;
  }
  return std::unique_ptr<CudaProgram>(new CudaProgram(std::move(impl)));
}

CudaProgram::CudaProgram(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

// The module is left to the driver: at the end of a process it may be gone before this.
CudaProgram::~CudaProgram() = default;

std::optional<void*> CudaProgram::current_stream() const {
  const std::optional<void*> stream = handle_of(stream_of(impl_->device));
  const ContextGuard context(impl_->context);
  int captures = kNoCapture;
  const bool is_free = stream && driver().is_capturing(*stream, &captures) == kDone;
  return is_free && captures == kNoCapture ? stream : std::nullopt;
}

bool CudaProgram::start(
    void* stream, std::size_t function, unsigned blocks, unsigned threads, void** arguments) const {
  const ContextGuard context(impl_->context);
  return context.is_there() && driver().launch(impl_->functions[function],
                                               blocks,
                                               1,
                                               1,
                                               threads,
                                               1,
                                               1,
                                               0,
                                               stream,
                                               arguments,
                                               nullptr) == kDone;
}

bool CudaProgram::record(void*& event, void* stream) const {
  const ContextGuard context(impl_->context);
  const BesideCaptures beside;
  if (!context.is_there()) return false;
  if (event == nullptr && driver().create_event(&event, kUntimed) != kDone) return false;
  return driver().record_event(event, stream) == kDone;
}

CudaProgram::Progress CudaProgram::query(void* event) const {
  const ContextGuard context(impl_->context);
  const BesideCaptures beside;
  const int found = context.is_there() ? driver().query_event(event) : kNotReady;
  if (found == kNotReady) return Progress::kGoing;
  return found == kDone ? Progress::kDone : Progress::kFailed;
}

CudaProgram::Progress CudaProgram::wait_for(void* event) const {
  const ContextGuard context(impl_->context);
  const BesideCaptures beside;
  const bool is_done = context.is_there() && driver().wait_for_event(event) == kDone;
  return is_done ? Progress::kDone : Progress::kFailed;
}

bool captures_graph(const c10::Device& device) {
  // Nothing of CUDA is loaded for a program that does not use it.
  if (device.type() != c10::DeviceType::CUDA || !driver().is_whole()) return false;
  const std::optional<void*> stream = handle_of(stream_of(device));
  int captures = kNoCapture;
  const int found = stream ? driver().is_capturing(*stream, &captures) : kDone;
  // The default stream does not tell while another one captures, and is not to be used.
  return found == kCapturedElsewhere || (found == kDone && captures != kNoCapture);
}

void CudaProgram::wait() const {
  const c10::DeviceGuard device(impl_->device);
  stream_of(impl_->device).synchronize();
}

}  // namespace repro_check::capture
