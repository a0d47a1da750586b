// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

struct repro_check_hooks;

/// What the library that is loaded into a running program exports. C, for Python's ctypes; nothing
/// throws. A function that returns `const char*` returns null, or why it failed: a text that lasts
/// until the next call on that thread.

namespace repro_check::probe {

#pragma GCC visibility push(default)
extern "C" {

/// Starts to record this process, and the calling thread in it. LibTorch must be loaded.
/// @param directory  of the journal; made here
/// @param plan       JSON: see docs/EXEC.md
const char* repro_check_begin(const char* directory, const char* plan);

/// Stops, and closes the journal as that of a whole recording. On the thread that began, and
/// without the interpreter's lock: other threads may have to end an operator first.
const char* repro_check_end();

/// In a forked child that does not record itself: that its operators are nobody's loss. Without
/// this a note beside the journals names the child when it runs one.
void repro_check_let_be();

/// The numbers of a notebook's cells by the file that each is compiled as.
/// @param numbers  a dict of Python's, which lasts and may grow
void repro_check_cells(void* numbers);

/// A fact of the environment, to be told before the end.
void repro_check_fact(const char* name, const char* value);

/// The exception that ends the program, or one of its threads; to be told before the end.
/// @param text        of which a digest is kept
/// @param first_line  of it, which is kept, but for what may be a secret; empty: nothing is
/// @param thread      its name; empty: the program ends
void repro_check_raised(const char* type,
                        const char* file,
                        std::uint64_t line,
                        const char* text,
                        const char* first_line,
                        const char* thread);

/// A hook of the front end failed so often, so that what it tells is missing.
void repro_check_failed_hook(const char* where, const char* error, std::uint64_t count);

/// A generator that no operator draws from: what its state is, and where it moves, is recorded.
/// @param state     its memory, which lasts; no function of it is called
/// @param position  where in the state a number of 32 bits says how much of it is used up
void repro_check_watch_generator(const char* name,
                                 const void* state,
                                 std::size_t size,
                                 std::size_t position);

/// Records and rows so far; any thread.
std::uint64_t repro_check_operators();
/// @return not 0: at depth blocks, that this process ran operators and recorded nothing
int repro_check_ran_unread();

/// The module `number`, from 1, as named_modules() has it.
void repro_check_define_module(std::uint32_t number, const char* path, const char* type);
/// @param in_eval  whether it is in evaluation mode
void repro_check_enter_module(std::uint32_t number, int in_eval);
void repro_check_leave_module();

/// The same at depth blocks, of roots and of blocks.
/// @return not 0: borders are recorded in this step
int repro_check_enter_block_module(std::uint32_t number);
void repro_check_leave_block_module();
/// A call of a block, whose module is entered and not left.
/// @param kinds, words, bytes, unopened  what goes in, see Border
/// @return how many tensors could not be read
std::uint32_t repro_check_begin_block(std::uint32_t number,
                                      int training,
                                      const char* kinds,
                                      const void* words,
                                      const void* bytes,
                                      std::uint32_t unopened);
/// @param kinds, words, bytes, unopened  what comes out, see BlockCalls::end()
std::uint32_t repro_check_end_block(std::uint32_t number,
                                    const char* kinds,
                                    const void* words,
                                    const void* bytes,
                                    std::uint32_t unopened);
/// What a recording of blocks says of itself, before its end: leaves of a type that was not opened,
/// and a module that was to be a block and was never called.
void repro_check_unopened(const char* type, std::uint64_t count);
void repro_check_not_seen(const char* path);
/// Appends what parameters hold when a step of an optimizer has ended.
/// @param step   -1: that of the calling thread
/// @param names  one after the other, each with a null behind it
/// @return the step
std::uint32_t repro_check_parameters(std::int64_t step,
                                     std::size_t count,
                                     const char* names,
                                     void* const* tensors);

/// What the calling thread does from here on, until it leaves that, and what it does then outside
/// of modules, -1 = what it did before; numbers as core::Phase has them.
void repro_check_enter_phase(int phase);
void repro_check_leave_phase(int next);
/// A step of an optimizer, on the thread that makes it; its record is appended before it is left.
/// @param plain  not 0: what it leaves tells all of it, so that its operators need not be recorded
/// @return 0: they are not
int repro_check_enter_step(int plain);
void repro_check_leave_step();
/// What the calling thread does from here on is nothing that is computed, as exchanging objects of
/// Python: its operators are recorded without contents. Calls nest.
/// @param entered  0: leaves that again
void repro_check_unread(int entered);
/// From here on gradients are reduced over ranks when they have been accumulated.
void repro_check_expect_reductions();
/// The next step begins on the calling thread, of its lane.
/// @param of_ancestors  and of the lanes that it was forked from, which count none of their own
void repro_check_step(int of_ancestors);

/// For a program that compiles, before its code is compiled for the first time: what is compiled
/// holds for the dispatch keys of that moment, so the engine's is on from here on, in steps that
/// are not recorded too.
void repro_check_keep_key();

/// Something that was not recorded has run, and may have written any memory: nothing that was known
/// of contents holds.
/// @param why  a warning of the recording, said once
void repro_check_unseen_writes(const char* why);

/// Somebody who calls no operator may write the memory of the tensor from here on.
/// @param tensor  address of its TensorImpl
void repro_check_shared(void* tensor);

/// The program reads the tensor, and calls no operator for it: a record of it, where what it holds
/// may not have been told by any.
/// @param tensor  address of its TensorImpl
void repro_check_read(void* tensor);

/// The program has written the tensor, and called no operator for it: a record of what it holds
/// now.
/// @param tensor  address of its TensorImpl
void repro_check_written(void* tensor);

/// Excludes the engine's key on the calling thread from here on (1), and keeps what ranks exchange
/// there out of the recording as well (3), or does neither (0).
/// @return what was so before, to be given back
int repro_check_exclude(int excluded);

/// Names a tensor until an operator writes it.
/// @param tensor  address of its TensorImpl: `tensor._cdata`
/// @param kind    0 = input, 1 = parameter, 2 = buffer
void repro_check_name(void* tensor, const char* name, int kind);

/// What a root module is called, which had another name in all that was recorded.
void repro_check_name_root(const char* until_now, const char* name);

/// Appends a record of named values that no operator made.
/// @param names    one after the other, each with a null behind it
/// @param tensors  addresses of their TensorImpl; null at a place: the number stands there instead;
/// 1:
///                 the next of the texts, which is said beside the values, and compared by nobody
/// @param texts    as names
void repro_check_values(const char* record,
                        std::size_t count,
                        const char* names,
                        void* const* tensors,
                        const double* numbers,
                        const char* texts);

/// L2 norms of tensors; NaN of one that cannot be read.
/// @param norms  filled in, one for each
void repro_check_norms(std::size_t count, void* const* tensors, double* norms);

/// The program gave a storage other memory, with no operator.
/// @param storage  a c10::StorageImpl, as `_cdata` of one has it
void repro_check_new_memory(void* storage);

/// Of the calling thread, as core::lane_text() has it: `main`, `main.2`. Until the next call on it.
const char* repro_check_lane();

/// Where the calling thread stands in Python; equal places are one. Null where it runs none.
const void* repro_check_place();

/// One pass of a loader over its dataset.
// NOLINTNEXTLINE(readability-identifier-naming): as the names of the functions are
struct repro_check_epoch {
  const char* sampler;  ///< type of what orders the samples
  const void* place;    ///< where the loader was made; null: where the thread stands
  std::int64_t loader;
  std::int64_t epoch;  ///< from 0
  std::int64_t workers;
  const char* unseen;  ///< what was set of the dataset since its workers began; null without these
};

/// Appends a record of which samples a loader takes for the batch that comes.
/// @param samples  null where they have no numbers
void repro_check_order(const struct repro_check_epoch* epoch,
                       std::size_t count,
                       const std::int64_t* samples);

/// Records a worker process of a data loader from here on, its calling thread alone. It has no end.
/// @param directory  made here, for the batches
/// @param plan       as repro_check_begin()
const char* repro_check_begin_worker(const char* directory, const char* plan);
/// Of the worker: what it did since the last one made the batch `name`, which is in the directory
/// of that name when this returns.
const char* repro_check_end_batch(const char* name);
// NOLINTNEXTLINE(readability-identifier-naming): as the names of the functions are
struct repro_check_worker {
  std::uint32_t number;   ///< in its loader
  std::uint64_t process;  ///< which of all that were started
  const char* missing;    ///< why there may be nothing
};
/// Of the process that a batch was handed to: takes what the worker did for it, and removes that.
/// @param directory  of the batch; where there is none, a warning says so
const char* repro_check_take_batch(const char* directory, const struct repro_check_worker* worker);

/// A process group, before anything is exchanged in it: records say its name and its ranks.
/// @param group  address of the c10d::ProcessGroup
void repro_check_group(const void* group,
                       const char* name,
                       std::size_t count,
                       const std::int64_t* ranks);

/// For a thread that the calling one is about to start; 0xffffffff where it is in no lane.
std::uint32_t repro_check_fork_thread();
/// On that thread, first and last.
void repro_check_begin_thread(std::uint32_t lane);
void repro_check_end_thread();

/// For a program without Python, whose main() is about to run on the calling thread: records it up
/// to its exit handlers. Phases are those that operators tell.
/// @param plan   file; the journal and the state of the process are made beside it
/// @param hooks  filled in where the recording has begun
void repro_check_begin_program(const char* plan, struct repro_check_hooks* hooks);

}  // extern "C"
#pragma GCC visibility pop

}  // namespace repro_check::probe
