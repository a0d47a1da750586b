// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/torch/python_dispatch.h"

#include <c10/core/impl/PyInterpreter.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <vector>

#include "dumpers/capture/torch/torch_compat.h"

namespace repro_check::capture {
namespace {

using Interpreter = c10::impl::PyInterpreter;
using Functions = c10::impl::PyInterpreterVTable;

#if defined(__GNUC__) && defined(__x86_64__)
/// Its first function stands behind the last one of the release that this is built against.
struct Behind : Functions {
  virtual void behind() const = 0;
};

/// The place of a virtual function in the table of its class, as the Itanium C++ ABI has it.
template <class Function>
std::size_t place_of(Function function) {
  std::array<std::uintptr_t, 2> words{};
  static_assert(sizeof words == sizeof function);
  std::memcpy(words.data(), &function, sizeof words);
  return (words[0] - 1) / sizeof(void*);
}

constexpr bool kKnowsTables = true;
std::size_t place_of_dispatch() { return place_of(&Functions::dispatch); }
std::size_t place_of_end() { return place_of(&Behind::behind); }
#else
constexpr bool kKnowsTables = false;
std::size_t place_of_dispatch() { return 0; }
std::size_t place_of_end() { return 0; }
#endif

struct Watched {
  std::once_flag once;
  Interpreter* interpreter = nullptr;
  const Functions* functions = nullptr;  ///< that the interpreter had
  PythonDispatch around = nullptr;
  /// What LibTorch calls is a table of functions without any member, so that this is another: like
  /// the interpreter's own, but for how an operator goes to Python.
  std::vector<const void*> table;
  const void* const* object = nullptr;
};

Watched& watched() {
  static auto* state = new Watched;  // outlives every thread
  return *state;
}

void dispatch(const Functions* /*interpreter*/,
              const c10::OperatorHandle& op,
              torch::jit::Stack* stack) {
  watched().around(op, stack);
}

void watch(Interpreter* interpreter, PythonDispatch around) {
  Watched& state = watched();
  state.around = around;
  state.functions = interpreter->vtable_;
  state.interpreter = interpreter;
  constexpr std::size_t kBefore = 2;  // where the object begins, and its type
  const auto* real = *reinterpret_cast<const void* const* const*>(state.functions);
  state.table.assign(real - kBefore, real + place_of_end());
  state.table[kBefore + place_of_dispatch()] = reinterpret_cast<const void*>(&dispatch);
  state.object = state.table.data() + kBefore;
  // Other threads may be on their way to Python. When the interpreter ends it has a table of its
  // own put in the place of ours.
  std::atomic_ref(interpreter->vtable_).store(reinterpret_cast<const Functions*>(&state.object));
}

}  // namespace

bool stand_before_python(const torch::jit::Stack& stack, PythonDispatch around) {
  if (!kKnowsTables) return false;
  Interpreter* const interpreter = python_interpreter(stack);
  if (interpreter == nullptr) return false;
  Watched& state = watched();
  std::call_once(state.once, [&] { watch(interpreter, around); });
  return state.interpreter == interpreter;
}

void go_to_python(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  watched().functions->dispatch(op, stack);
}

}  // namespace repro_check::capture
