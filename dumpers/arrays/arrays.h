// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

/// What the library exports that is loaded into programs whose arrays are not PyTorch's: the front
/// end tells it of calls and of the arrays that go in and come out. It knows no framework, and no
/// LibTorch. C, for Python's ctypes; nothing throws. A function that returns `const char*` returns
/// null, or why it failed: a text that lasts until the next call on that thread. What fails of a
/// call keeps the recording from being whole, and the end says it. Any thread may call any of them.

namespace repro_check::arrays {

#pragma GCC visibility push(default)
extern "C" {

/// Starts to record this process; in a child that was forked anew, in a place of its own.
/// @param directory  of the journal; made here
/// @param plan       JSON: see docs/EXEC.md
const char* repro_check_arrays_begin(const char* directory, const char* plan);

/// Stops, and closes the journal as that of a whole recording.
const char* repro_check_arrays_end();

/// Calls that were recorded so far.
std::uint64_t repro_check_arrays_calls();

/// As the functions of the probe without `arrays` in their names.
void repro_check_arrays_fact(const char* name, const char* value);
void repro_check_arrays_raised(
    const char* type, const char* file, std::uint64_t line, const char* text, const char* thread);
void repro_check_arrays_failed_hook(const char* where, const char* error, std::uint64_t count);

/// A value of that type was not read, which every report says.
void repro_check_arrays_unread(const char* type);

/// As repro_check_watch_generator() of the probe.
void repro_check_arrays_watch_generator(const char* name,
                                        const void* state,
                                        std::size_t size,
                                        std::size_t position);

/// A place in the program.
/// @param count      frames, the innermost first
/// @param files      each with a null behind it, as `functions`
/// @return its number
std::uint32_t repro_check_arrays_site(const char* module_path,
                                      std::uint32_t count,
                                      const char* files,
                                      const std::uint32_t* lines,
                                      const char* functions);

struct repro_check_array {
  const char* dtype;       ///< `float32`, as NumPy and ml_dtypes have it
  const char* device;      ///< `cpu`, `cuda:0`
  const char* attributes;  ///< what else it is, as text: `key<fry>`; empty: nothing
  std::uint32_t dims;
  const std::int64_t* shape;
  const void* data;  ///< row-major; null: its values cannot be read
};

/// Reads arrays: their digests, and their statistics where the plan has them.
/// @param numbers  as many: by which calls name them from now on. What has the number has the
/// content;
///                 -1 where the recording has failed
void repro_check_arrays_read(std::size_t count,
                             const repro_check_array* arrays,
                             std::int64_t* numbers);

/// Keeps the bytes of an array that was read.
/// @param data  row-major, and what was read before
void repro_check_arrays_keep(std::int64_t number, const void* data);

/// The program has let go of it.
void repro_check_arrays_forget(std::int64_t number);

/// Before a call runs.
/// @param op      `jax::train_step`
/// @param parent  number of the call that it is inside of; -1 = none
/// @param lane    0, or 1 for threads that no one knows the order of
/// @param draws   whether it is given a generator
/// @return its number; -1 where the plan leaves it out
std::int64_t repro_check_arrays_enter(const char* op,
                                      std::uint32_t site,
                                      std::uint32_t step,
                                      std::int64_t parent,
                                      int lane,
                                      int draws);

/// Whether bytes are kept of what goes into that call and comes out of it.
int repro_check_arrays_keeps(std::int64_t call);

struct repro_check_arrays_of {
  std::size_t count;
  const std::int64_t* numbers;
  const char* names;  ///< each with a null behind it
};

/// What a call drew from: a generator that is a value, as a key of JAX.
struct repro_check_key {
  const char* kind;  ///< `key<fry>`; null: the call had none
  std::uint64_t seed;
  std::uint64_t position;
};

/// Behind the call that has that number.
void repro_check_arrays_leave(std::int64_t call,
                              const repro_check_arrays_of* inputs,
                              const repro_check_arrays_of* outputs,
                              const repro_check_key* key,
                              std::uint64_t wall_ns);

}  // extern "C"
#pragma GCC visibility pop

}  // namespace repro_check::arrays
