// SPDX-License-Identifier: Apache-2.0
#include "dumpers/probe/python_frames.h"

#include <dlfcn.h>

#include <array>
#include <cstddef>
#include <memory>
#include <string_view>
#include <unordered_map>

#include "core/system/pinned.h"

namespace repro_check::probe {
namespace {

/// The part of Python's C API that is needed, all of it in releases from 3.9 on. Objects are
/// opaque.
struct Api {
  void* (*this_thread)() = nullptr;
  int (*ensure)() = nullptr;
  void (*release)(int) = nullptr;
  int (*finalizing)() = nullptr;
  void* (*eval_frame)() = nullptr;  // borrowed
  void* (*frame_back)(void*) = nullptr;
  void* (*frame_code)(void*) = nullptr;
  int (*frame_line)(void*) = nullptr;
  int (*frame_offset)(void*) = nullptr;  ///< null before 3.11
  void* (*attribute)(void*, const char*) = nullptr;
  const char* (*utf8)(void*) = nullptr;
  void* (*item)(void*, const char*) = nullptr;  // borrowed
  long (*number)(void*) = nullptr;
  void (*clear_error)() = nullptr;
  void (*increase)(void*) = nullptr;
  void (*decrease)(void*) = nullptr;

  Api() {
    const bool found =
        look_up("PyGILState_GetThisThreadState", this_thread) &&
        look_up("PyGILState_Ensure", ensure) && look_up("PyGILState_Release", release) &&
        look_up("PyEval_GetFrame", eval_frame) && look_up("PyFrame_GetBack", frame_back) &&
        look_up("PyFrame_GetCode", frame_code) && look_up("PyFrame_GetLineNumber", frame_line) &&
        look_up("PyObject_GetAttrString", attribute) && look_up("PyUnicode_AsUTF8", utf8) &&
        look_up("PyDict_GetItemString", item) && look_up("PyLong_AsLong", number) &&
        look_up("PyErr_Clear", clear_error) && look_up("Py_IncRef", increase) &&
        look_up("Py_DecRef", decrease) &&
        (look_up("Py_IsFinalizing", finalizing) || look_up("_Py_IsFinalizing", finalizing));
    look_up("PyFrame_GetLasti", frame_offset);
    if (!found) this_thread = nullptr;
  }

 private:
  template <typename Function>
  static bool look_up(const char* name, Function& into) {
    into = reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, name));
    return into != nullptr;
  }
};

const Api& api() {
  static const Api functions;
  return functions;
}

/// The interpreter's lock, held.
class Held : core::Pinned {
 public:
  Held() : state_(api().ensure()) {}
  ~Held() { api().release(state_); }

 private:
  int state_;
};

std::string text_attribute(void* object, const char* name) {
  void* value = api().attribute(object, name);
  const char* text = value == nullptr ? nullptr : api().utf8(value);
  std::string copy = text == nullptr ? "" : text;
  if (value != nullptr) api().decrease(value);
  if (text == nullptr) api().clear_error();
  return copy;
}

constexpr std::string_view kOwnFiles = "/repro-check/python/repro_check_hooks/";

/// Frames that a person did not write: of PyTorch (also what it makes of a program that it traces)
/// and Triton, of the interpreter's own import machinery, of what marks functions as deprecated,
/// and of what brought the probe in.
bool is_framework(std::string_view file) {
  return file.find("-packages/torch/") != std::string_view::npos || file.starts_with("<frozen ") ||
         file.starts_with("<eval_with_key>") || file.ends_with("/typing_extensions.py") ||
         file.ends_with("/warnings.py") ||
         file.find("-packages/triton/") != std::string_view::npos ||
         file.find(kOwnFiles) != std::string_view::npos;
}

/// Frames kept of a chain, and looked at for one.
constexpr std::size_t kMostKept = 4;
constexpr std::size_t kMostSeen = 64;

struct Code {
  std::string file;
  std::string function;
  bool framework = false;
  bool engine = false;  ///< calls the autograd engine
};

struct Step {
  const void* code = nullptr;
  int line = 0;
  bool operator==(const Step&) const = default;
};
using Steps = std::vector<Step>;

struct StepsHash {
  std::size_t operator()(const Steps& steps) const noexcept {
    std::size_t hash = steps.size();
    for (const Step& step : steps) {
      hash = hash * 0x9E3779B97F4A7C15U + reinterpret_cast<std::uintptr_t>(step.code);
      hash = hash * 0x9E3779B97F4A7C15U + static_cast<std::size_t>(step.line);
    }
    return hash;
  }
};

/// Of one instruction, since to find its line Python goes through those of the whole function.
struct KnownLine {
  const void* code = nullptr;
  int offset = 0;
  int line = 0;
};

/// Guarded by the interpreter's lock, and never destroyed.
struct Known {
  std::array<KnownLine, 4096> lines;            ///< those asked for last
  std::unordered_map<const void*, Code> codes;  ///< a code object that is a key is kept alive
  void* cells = nullptr;                        ///< see know_cells()
  std::unordered_map<Steps, std::unique_ptr<PythonChain>, StepsHash> chains;
};

Known& known() {
  static auto* const all = new Known;
  return *all;
}

std::string file_of(void* code) {
  std::string file = text_attribute(code, "co_filename");
  void* cell = known().cells == nullptr ? nullptr : api().item(known().cells, file.c_str());
  return cell == nullptr ? file : "In [" + std::to_string(api().number(cell)) + "]";
}

const Code& describe(void* code) {
  const auto [entry, is_new] = known().codes.try_emplace(code);
  if (is_new) {
    api().increase(code);
    entry->second.file = file_of(code);
    entry->second.function = text_attribute(code, "co_name");
    entry->second.framework = is_framework(entry->second.file);
    entry->second.engine =
        entry->second.file.find("-packages/torch/autograd/") != std::string::npos;
  }
  return entry->second;
}

/// @param code  that describe() has kept alive
int line_of(void* frame, const void* code) {
  if (api().frame_offset == nullptr) return api().frame_line(frame);
  const int offset = api().frame_offset(frame);
  const std::size_t place =
      reinterpret_cast<std::uintptr_t>(code) / alignof(std::max_align_t) * 31 +
      static_cast<std::size_t>(offset) / 2;
  KnownLine& known_line = known().lines[place % known().lines.size()];
  if (known_line.code != code || known_line.offset != offset) {
    known_line = {code, offset, api().frame_line(frame)};
  }
  return known_line.line;
}

/// @param of_hook  up to where the engine was called, and nothing where that is not met
void collect(Steps& steps, bool of_hook) {
  bool is_met = !of_hook;
  void* frame = api().eval_frame();
  if (frame != nullptr) api().increase(frame);
  for (std::size_t seen = 0; frame != nullptr && seen < kMostSeen && steps.size() < kMostKept;
       ++seen) {
    void* code = api().frame_code(frame);
    const Code& known_code = describe(code);
    if (!known_code.framework) steps.push_back({code, line_of(frame, code)});
    is_met = is_met || known_code.engine;
    api().decrease(code);
    if (of_hook && is_met) break;
    void* back = api().frame_back(frame);
    api().decrease(frame);
    frame = back;
  }
  if (frame != nullptr) api().decrease(frame);
  if (!is_met) steps.clear();
}

const PythonChain* frames(bool of_hook) {
  if (api().this_thread == nullptr || api().this_thread() == nullptr || api().finalizing() != 0) {
    return nullptr;
  }
  const Held held;
  thread_local Steps steps;
  steps.clear();
  collect(steps, of_hook);
  if (steps.empty()) return nullptr;
  std::unique_ptr<PythonChain>& chain = known().chains[steps];
  if (!chain) {
    chain = std::make_unique<PythonChain>();
    chain->id = known().chains.size();
    for (const Step& step : steps) {
      const Code& code = known().codes.at(step.code);
      chain->frames.push_back(
          {code.file, static_cast<std::uint32_t>(std::max(step.line, 0)), code.function});
    }
  }
  return chain.get();
}

}  // namespace

void know_cells(void* numbers) { known().cells = numbers; }

const PythonChain* python_frames() { return frames(false); }

const PythonChain* frames_of_hook() { return frames(true); }

std::string python_class(const void* object) {
  // An object begins with a count and its type, a type with a count, its own, a size and its name.
  // Without the interpreter's lock, for which another thread may wait that holds one of ours.
  struct Type {
    std::size_t count;
    const Type* type;
    std::size_t size;
    const char* name;
    std::ptrdiff_t basic_size;
  };
  struct Object {
    std::size_t count;
    const Type* type;
  };
  static const auto* const root =
      static_cast<const Type*>(::dlsym(RTLD_DEFAULT, "PyBaseObject_Type"));
  // Builds without that lock have more in it.
  if (root == nullptr || root->basic_size != sizeof(Object)) return {};
  const char* name = static_cast<const Object*>(object)->type->name;
  return name == nullptr ? std::string() : std::string(name);
}

}  // namespace repro_check::probe
