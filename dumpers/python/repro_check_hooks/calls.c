/* SPDX-License-Identifier: Apache-2.0 */
/* Watches functions of a program where they are: a call of one is told to hooks in Python. The
   function stays the object that it was, so that it is pickled, copied, compared and asked for its
   signature as before, and no frame of ours is in its tracebacks or on its stack.

   A function of Python, or of Cython, is called through a pointer in the object; a function in C
   through one in its definition. Both have lain in the same place since Python 3.8.

   While a hook runs, the program's own signal handlers wait: what they raise is raised when the
   hook is through, in the program's code. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "borders.h"
#include "interpreter.h"

#define EXPORTED __attribute__((visibility("default")))

static _Thread_local int holding; /* hooks that run */

/* Before a hook, and behind it: what the program traces and profiles are its own calls. */
static void enter_hook(void) {
  ++holding;
  if (PyThreadState_EnterTracing != NULL) PyThreadState_EnterTracing(PyThreadState_Get());
}

static void leave_hook(void) {
  if (PyThreadState_LeaveTracing != NULL) PyThreadState_LeaveTracing(PyThreadState_Get());
  --holding;
}

static int is_a(object* one, type* kind) {
  return one->kind == kind || PyType_IsSubtype(one->kind, kind);
}

/* Signals. */

enum { kSignals = 65 };
static object*
    deferred[kSignals]; /* handlers, of the main thread, which alone is told of signals */
static _Thread_local int has_deferred;

static object* call_handler(object* handler, long number, object* frame) {
  object* arguments = PyTuple_New(2);
  object* result;
  if (arguments == NULL) return NULL;
  PyTuple_SetItem(arguments, 0, PyLong_FromLong(number));
  PyTuple_SetItem(arguments, 1, held_reference(frame == NULL ? NONE : frame));
  result = PyObject_Call(handler, arguments, NULL);
  Py_DecRef(arguments);
  return result;
}

/* @return -1 with an exception, which is the program's */
static int deliver(void* unused) {
  (void)unused;
  while (has_deferred && holding == 0) {
    has_deferred = 0;
    for (int number = 1; number < kSignals; ++number) {
      object* handler = deferred[number];
      object* result;
      if (handler == NULL) continue;
      deferred[number] = NULL;
      result = call_handler(handler, number, PyEval_GetFrame());
      Py_DecRef(handler);
      if (result == NULL) {
        for (int other = 1; other < kSignals; ++other) has_deferred |= deferred[other] != NULL;
        if (has_deferred) Py_AddPendingCall(&deliver, NULL);
        return -1;
      }
      Py_DecRef(result);
    }
  }
  return 0;
}

/* In the place of a handler of the program. */
static object* handle(object* handler, object* const* arguments, ssize_t count) {
  const long number = count == 2 ? PyLong_AsLong(arguments[0]) : -1;
  if (count != 2 || number < 1 || number >= kSignals) {
    PyErr_SetString(PyExc_TypeError, "a signal handler is given a signal and a frame");
    return NULL;
  }
  if (holding == 0) return call_handler(handler, number, arguments[1]);
  if (deferred[number] != handler) {
    drop(deferred[number]);
    deferred[number] = held_reference(handler);
  }
  has_deferred = 1;
  return held_reference(NONE);
}

static method handle_definition = {"signal_handler", (void*)&handle, kFast, NULL};

static int is_ours(object* handler) {
  return handler->kind == &PyCFunction_Type &&
         ((c_function*)handler)->definition == &handle_definition;
}

/* @return as it is known to the program; takes the reference */
static object* as_known(object* handler) {
  object* known;
  if (handler == NULL || !is_ours(handler)) return handler;
  known = held_reference(((c_function*)handler)->self);
  Py_DecRef(handler);
  return known;
}

typedef object* fast_function(object*, object* const*, ssize_t);
typedef object* plain_function(object*, object*);
static fast_function* set_handler; /* _signal.signal */
static plain_function* get_handler;

static object* signal_signal(object* self, object* const* arguments, ssize_t count) {
  object *given[2], *result;
  if (count != 2 || !PyCallable_Check(arguments[1])) return set_handler(self, arguments, count);
  given[0] = arguments[0];
  given[1] = PyCFunction_NewEx(&handle_definition, arguments[1], NULL);
  if (given[1] == NULL) return NULL;
  result = set_handler(self, given, 2);
  Py_DecRef(given[1]);
  return as_known(result);
}

static object* signal_getsignal(object* self, object* number) {
  return as_known(get_handler(self, number));
}

/* What can be written is in a part of memory that says so: what the linker has made read-only must
   not end the program. */
static int is_writable(const void* place) {
  static struct { uintptr_t begin, end; } known[16];
  static unsigned next;
  const uintptr_t address = (uintptr_t)place;
  char line[512];
  int found = 0;
  FILE* maps;
  for (unsigned i = 0; i < 16; ++i) {
    if (address >= known[i].begin && address < known[i].end) return 1;
  }
  maps = fopen("/proc/self/maps", "re");
  if (maps == NULL) return 0;
  while (!found && fgets(line, sizeof line, maps) != NULL) {
    unsigned long begin, end;
    char rights[5];
    if (sscanf(line, "%lx-%lx %4s", &begin, &end, rights) != 3) continue;
    if (address < begin || address >= end) continue;
    if (rights[1] != 'w') break;
    found = 1;
    known[next % 16].begin = begin;
    known[next++ % 16].end = end;
  }
  fclose(maps);
  return found;
}

static c_function* as_c_function(object* module_of, const char* name, int shape) {
  object* found = PyObject_GetAttrString(module_of, name);
  c_function* function = (c_function*)found;
  if (found == NULL) return NULL;
  Py_DecRef(found); /* the module keeps it */
  if (found->kind != &PyCFunction_Type || (function->definition->flags & kShapes) != shape ||
      !is_writable(&function->definition->function)) {
    return NULL;
  }
  return function;
}

/* That handlers wait for hooks, of those that are there and those that come. */
static object* hooks_defer_signals(object* self, object* unused) {
  object* signals = PyImport_ImportModule("_signal");
  c_function *set, *get;
  (void)self;
  (void)unused;
  if (signals == NULL) return NULL;
  if (set_handler != NULL) return signals;
  set = as_c_function(signals, "signal", kFast);
  get = as_c_function(signals, "getsignal", kOne);
  if (set == NULL || get == NULL) {
    PyErr_Clear();
    PyErr_SetString(PyExc_RuntimeError, "signal handlers cannot be deferred");
    return NULL;
  }
  set_handler = (fast_function*)set->definition->function;
  get_handler = (plain_function*)get->definition->function;
  set->definition->function = (void*)&signal_signal;
  get->definition->function = (void*)&signal_getsignal;
  for (long number = 1; number < kSignals; ++number) {
    object* given[2] = {PyLong_FromLong(number), NULL};
    object* result = NULL;
    given[1] = get_handler(get->self, given[0]);
    if (given[1] != NULL && PyCallable_Check(given[1]) && !is_ours(given[1])) {
      result = signal_signal(set->self, given, 2);
    }
    if (PyErr_Occurred() != NULL) PyErr_Clear(); /* not the main thread, or no such signal */
    drop(result);
    drop(given[0]);
    drop(given[1]);
  }
  Py_DecRef(signals);
  return held_reference(NONE);
}

static object* hooks_hold(object* self, object* unused) {
  (void)self;
  (void)unused;
  ++holding;
  return held_reference(NONE);
}

static object* hooks_release(object* self, object* unused) {
  (void)self;
  (void)unused;
  --holding;
  return deliver(NULL) != 0 ? NULL : held_reference(NONE);
}

/* Watched functions. */

typedef struct watch watch;
struct watch {
  object* function;
  vectorcall* called; /* of a function of Python */
  method* definition; /* of a function in C, and what that was */
  void* original;
  int has_self;                   /* what it is bound to is its first argument */
  int lets_pass;                  /* calls whose first argument is one of those let through */
  object *before, *after, *leave; /* functions; NULL = none */
  watch* inner;                   /* what watches it as well, and is called inside */
};

/* A call in one of its forms. */
typedef struct {
  const watch* of;
  object* self; /* of a function in C */
  object* kind; /* class that defines it */
  object* const* arguments;
  size_t count; /* with what else vectorcall says in it */
  object* names;
  object* tuple; /* of functions that are given one */
  object* dictionary;
} call;

static object* given_instead; /* a class: of a tuple (args, kwargs, token) */

typedef object* fast_keywords(object*, object* const*, ssize_t, object*);
typedef object* method_keywords(object*, object*, object* const*, size_t, object*);
typedef object* keywords_function(object*, object*, object*);

static object* around(const call* made);

static object* run(const call* made) {
  const watch* of = made->of;
  const ssize_t count = (ssize_t)(made->count & ~ARGUMENTS_OFFSET);
  if (of->inner != NULL) {
    call inside = *made;
    inside.of = of->inner;
    return around(&inside);
  }
  if (of->definition == NULL) {
    return of->called(of->function, made->arguments, made->count, made->names);
  }
  switch (of->definition->flags & kShapes) {
    case kVarargs:
      return ((plain_function*)of->original)(made->self, made->tuple);
    case kVarargs | kKeywords:
      return ((keywords_function*)of->original)(made->self, made->tuple, made->dictionary);
    case kNoArgs:
      return ((plain_function*)of->original)(made->self, NULL);
    case kOne:
      return ((plain_function*)of->original)(made->self, made->arguments[0]);
    case kFast:
      return ((fast_function*)of->original)(made->self, made->arguments, count);
    case kFast | kKeywords:
      return ((fast_keywords*)of->original)(made->self, made->arguments, count, made->names);
    default:
      return ((method_keywords*)of->original)(
          made->self, made->kind, made->arguments, (size_t)count, made->names);
  }
}

/* Arguments as hooks are given them, behind `lead` others. */
typedef struct {
  object* few[16];
  object** all;
  size_t count;
  object* names;
  object* own_names;
} arguments;

static int take_arguments(const call* made, size_t lead, arguments* taken) {
  const size_t own = made->of->has_self ? 1 : 0;
  const size_t keywords = made->dictionary != NULL ? (size_t)PyDict_Size(made->dictionary)
                          : made->names != NULL    ? (size_t)PyTuple_Size(made->names)
                                                   : 0;
  const size_t plain =
      made->tuple != NULL ? (size_t)PyTuple_Size(made->tuple) : (made->count & ~ARGUMENTS_OFFSET);
  object** to;
  taken->all = taken->few;
  taken->own_names = NULL;
  taken->names = made->names;
  if (lead + own + plain + keywords > sizeof taken->few / sizeof *taken->few) {
    taken->all = malloc((lead + own + plain + keywords) * sizeof *taken->all);
    if (taken->all == NULL) return PyErr_NoMemory(), -1;
  }
  to = taken->all + lead;
  if (own != 0) *to++ = made->self;
  if (made->tuple != NULL) {
    for (size_t i = 0; i < plain; ++i) *to++ = PyTuple_GetItem(made->tuple, (ssize_t)i);
  } else {
    memcpy(to, made->arguments, (plain + (made->dictionary == NULL ? keywords : 0)) * sizeof *to);
    to += plain;
  }
  if (made->dictionary != NULL && keywords != 0) {
    ssize_t place = 0;
    object *key, *value;
    taken->names = taken->own_names = PyTuple_New((ssize_t)keywords);
    if (taken->names == NULL) return -1;
    for (ssize_t i = 0; PyDict_Next(made->dictionary, &place, &key, &value); ++i) {
      PyTuple_SetItem(taken->names, i, held_reference(key));
      *to++ = value;
    }
  }
  taken->count = lead + own + plain;
  return 0;
}

static void release_arguments(arguments* taken) {
  drop(taken->own_names);
  if (taken->all != taken->few) free(taken->all);
}

static object* call_function(object* function, object* const* given, size_t count, object* names) {
  vectorcall* const* called =
      (vectorcall* const*)((const char*)function + PyFunction_Type.vectorcall_offset);
  return (*called)(function, given, count, names);
}

/* Of the exception of a hook, which goes on into the program: the part of its traceback that is
   ours is taken away. */
static void hide_own_frames(void) {
  static const char kOwn[] = "/repro_check_hooks/";
  object *kind, *value, *trace;
  PyErr_Fetch(&kind, &value, &trace);
  PyErr_NormalizeException(&kind, &value, &trace);
  while (trace != NULL && trace != NONE) {
    object* frame = PyObject_GetAttrString(trace, "tb_frame");
    object* code = frame == NULL ? NULL : PyObject_GetAttrString(frame, "f_code");
    object* file = code == NULL ? NULL : PyObject_GetAttrString(code, "co_filename");
    const char* name = file == NULL ? NULL : PyUnicode_AsUTF8(file);
    const int is_own = name != NULL && strstr(name, kOwn) != NULL;
    drop(file);
    drop(code);
    drop(frame);
    if (!is_own) break;
    object* next = PyObject_GetAttrString(trace, "tb_next");
    Py_DecRef(trace);
    trace = next;
  }
  if (PyErr_Occurred() != NULL) PyErr_Clear();
  if (trace == NONE) {
    Py_DecRef(trace);
    trace = NULL;
  }
  if (value != NULL) PyException_SetTraceback(value, trace == NULL ? NONE : trace);
  PyErr_Restore(kind, value, trace);
}

/* @param lead  objects that the hook is given first */
static object* tell(object* hook, const call* made, object** lead, size_t leading) {
  arguments taken;
  object* result;
  if (take_arguments(made, leading, &taken) != 0) return NULL;
  for (size_t i = 0; i < leading; ++i) taken.all[i] = lead[i];
  enter_hook();
  result = call_function(hook, taken.all, taken.count, taken.names);
  leave_hook();
  if (result == NULL) hide_own_frames();
  release_arguments(&taken);
  return result;
}

/* The call, with the arguments that the hook before it has put in the place of its own. */
static object* run_instead(const call* made, object* instead) {
  object* tuple = PyTuple_GetItem(instead, 0);
  object* dictionary = PyTuple_GetItem(instead, 1);
  call other = {.of = made->of, .self = made->self, .kind = made->kind};
  arguments taken;
  object* result;
  const watch plain = {.definition = made->of->definition};
  const int has_self = made->of->has_self;
  const call given = {.of = &plain, .tuple = tuple, .dictionary = dictionary};
  object* bare = NULL;
  if (has_self) { /* which is not given to it again */
    const ssize_t size = PyTuple_Size(tuple);
    bare = PyTuple_New(size - 1);
    if (bare == NULL) return NULL;
    for (ssize_t i = 1; i < size; ++i) {
      PyTuple_SetItem(bare, i - 1, held_reference(PyTuple_GetItem(tuple, i)));
    }
  }
  if (made->tuple != NULL) {
    other.tuple = has_self ? bare : tuple;
    other.dictionary = made->dictionary == NULL && PyDict_Size(dictionary) == 0 ? NULL : dictionary;
    result = run(&other);
  } else {
    call from = given;
    if (has_self) from.tuple = bare;
    if (take_arguments(&from, 0, &taken) != 0) {
      drop(bare);
      return NULL;
    }
    other.arguments = taken.all;
    other.count = taken.count;
    other.names = taken.names;
    result = run(&other);
    release_arguments(&taken);
  }
  drop(bare);
  return result;
}

/* Behind a call, the signals that came while its hooks ran.
   @return the result, or NULL with the exception of the call or of a signal handler */
static object* deliver_behind(object* result) {
  if (!has_deferred || holding != 0) return result;
  if (result == NULL) {
    Py_AddPendingCall(&deliver, NULL);
  } else if (deliver(NULL) != 0) {
    Py_DecRef(result);
    return NULL;
  }
  return result;
}

/* @return the result, or NULL with the exception of the call, of a hook, or of a signal handler */
static object* tell_end(const call* made, object* token, object* result) {
  const watch* of = made->of;
  if (result != NULL && of->after != NULL) {
    object* lead[2] = {token, result};
    object* told = tell(of->after, made, lead, 2);
    if (told == NULL) {
      Py_DecRef(result);
      result = NULL;
    } else {
      if (told->kind == (type*)given_instead) {
        Py_DecRef(result);
        result = held_reference(PyTuple_GetItem(told, 0));
      }
      Py_DecRef(told);
    }
  }
  if (of->leave != NULL) {
    object *kind, *value, *trace, *left, *given[2];
    PyErr_Fetch(&kind, &value, &trace);
    if (kind != NULL) {
      PyErr_NormalizeException(&kind, &value, &trace);
      if (trace != NULL) PyException_SetTraceback(value, trace);
    }
    given[0] = token;
    given[1] = value == NULL ? NONE : value;
    enter_hook();
    left = call_function(of->leave, given, 2, NULL);
    leave_hook();
    if (left == NULL) {
      drop(kind);
      drop(value);
      drop(trace);
      drop(result);
      return NULL;
    }
    Py_DecRef(left);
    PyErr_Restore(kind, value, trace);
  }
  return deliver_behind(result);
}

static object* around(const call* made) {
  const watch* of = made->of;
  object *token = held_reference(NONE), *result;
  if (of->before != NULL) {
    Py_DecRef(token);
    token = tell(of->before, made, NULL, 0);
    if (token == NULL) return NULL;
    if (has_deferred && holding == 0 && deliver(NULL) != 0) {
      object* nothing = NULL;
      if (token != NONE && of->leave != NULL) nothing = tell_end(made, token, NULL);
      drop(nothing);
      Py_DecRef(token);
      return NULL;
    }
    if (token == NONE) { /* nothing that the recording wants to know */
      Py_DecRef(token);
      return run(made);
    }
  }
  if (token->kind == (type*)given_instead) {
    object* instead = token;
    result = run_instead(made, instead);
    token = held_reference(PyTuple_GetItem(instead, 2));
    Py_DecRef(instead);
  } else {
    result = run(made);
  }
  result = tell_end(made, token, result);
  Py_DecRef(token);
  return result;
}

/* Of functions of Python, by address. */
enum { kTable = 2048 };
static watch* table[kTable];
static unsigned in_table;

static watch** place_of(const object* function) {
  size_t place = ((uintptr_t)function >> 4) * 0x9E3779B97F4A7C15u >> 40;
  while (table[place % kTable] != NULL && table[place % kTable]->function != function) ++place;
  return &table[place % kTable];
}

/* Objects whose calls no hook in Python is told of, by address: open addressing, at most half full.
   Most calls of modules are of these, so that asking must cost next to nothing. */
typedef struct {
  uintptr_t address;
  uint32_t block; /* 0 = the call is let through; else what it is of a call of a block */
} known;
static known* passing;
static size_t passing_size, passing_used; /* places, and those that are or were taken */
enum { kWasTaken = 1 };                   /* no address */
static _Thread_local int in_root; /* whether blocks are called here by a root that is known */

static known* passing_place(known* places, size_t size, uintptr_t address) {
  size_t place = (address >> 4) * 0x9E3779B97F4A7C15u >> 32;
  while (places[place & (size - 1)].address != 0 && places[place & (size - 1)].address != address) {
    ++place;
  }
  return &places[place & (size - 1)];
}

static int grow_passing(void) {
  const size_t size = passing_size == 0 ? 1024 : 2 * passing_size;
  known* places = calloc(size, sizeof *places);
  size_t used = 0;
  if (places == NULL) return -1;
  for (size_t i = 0; i < passing_size; ++i) {
    if (passing[i].address <= kWasTaken) continue;
    *passing_place(places, size, passing[i].address) = passing[i];
    ++used;
  }
  free(passing);
  passing = places;
  passing_size = size;
  passing_used = used;
  return 0;
}

/* let_pass(id, passes): calls of the object with that id are let through, or are told of again.
   let_pass(id, True, number, begins, ends): they are let through inside of a root as what they are
   of a block. */
static object* hooks_let_pass(object* self, object* const* given, ssize_t count) {
  uintptr_t address;
  known* place;
  uint32_t block = 0;
  (void)self;
  if (count != 2 && count != 5) {
    PyErr_SetString(PyExc_TypeError, "let_pass(id, passes, number, begins, ends)");
    return NULL;
  }
  address = (uintptr_t)PyLong_AsLong(given[0]);
  if (count == 5) {
    block = (uint32_t)PyLong_AsLong(given[2]) << kBlockShift;
    if (given[3] == &_Py_TrueStruct) block |= kBegins;
    if (given[4] == &_Py_TrueStruct) block |= kEnds;
  }
  if (PyErr_Occurred() != NULL) return NULL;
  if (2 * (passing_used + 1) > passing_size && grow_passing() != 0) return PyErr_NoMemory();
  place = passing_place(passing, passing_size, address);
  if (PyLong_AsLong(given[1]) != 0) {
    if (place->address == 0) ++passing_used;
    place->address = address;
    place->block = block;
  } else if (place->address == address) {
    place->address = kWasTaken;
  }
  return held_reference(NONE);
}

/* set_in_root(is_in): whether calls of blocks that the calling thread makes are let through. */
static object* hooks_set_in_root(object* self, object* is_in) {
  (void)self;
  in_root = is_in == &_Py_TrueStruct;
  return held_reference(NONE);
}

/* As around(), without a hook in Python. */
static object* run_block(const call* made, uint32_t block) {
  object* result;
  int reads;
  enter_hook();
  if (!may_read_borders()) {
    leave_hook();
    return around(made);
  }
  reads = enter_border(block);
  if (reads) begin_call(block, made->arguments, made->count & ~ARGUMENTS_OFFSET, made->names);
  leave_hook();
  result = has_deferred && holding == 0 && deliver(NULL) != 0 ? NULL : run(made);
  enter_hook();
  if (reads) end_call(block, result);
  leave_border();
  leave_hook();
  return deliver_behind(result);
}

static object* call_watched(object* function, object* const* given, size_t count, object* names) {
  const watch* of = *place_of(function);
  const call made = {.of = of, .arguments = given, .count = count, .names = names};
  if (of->lets_pass && (count & ~ARGUMENTS_OFFSET) != 0 && passing_used != 0) {
    const known found = *passing_place(passing, passing_size, (uintptr_t)given[0]);
    if (found.address == (uintptr_t)given[0]) {
      if (found.block == 0) return of->called(function, given, count, names);
      if (in_root && holding == 0) return run_block(&made, found.block);
    }
  }
  return around(&made);
}

/* lets_pass(function): calls of the watched function of Python whose first argument let_pass() has
   named are told to none of its hooks. */
static object* hooks_lets_pass(object* self, object* function) {
  watch* of = *place_of(function);
  (void)self;
  if (of == NULL) {
    PyErr_SetString(PyExc_RuntimeError, "it is not watched");
    return NULL;
  }
  of->lets_pass = 1;
  return held_reference(NONE);
}

/* Of functions in C: each has its own function here, one for each form that such may have. */
enum { kSlots = 64 };
static watch slots[kSlots];
static unsigned used_slots;

#define SLOT(N)                                                                               \
  static object* plain_##N(object* self, object* given) {                                     \
    call made = {.of = &slots[N], .self = self};                                              \
    const int shape = slots[N].definition->flags & kShapes;                                   \
    if (shape == kVarargs) made.tuple = given;                                                \
    if (shape == kOne) made.arguments = &given, made.count = 1;                               \
    return around(&made);                                                                     \
  }                                                                                           \
  static object* keywords_##N(object* self, object* given, object* named) {                   \
    const call made = {.of = &slots[N], .self = self, .tuple = given, .dictionary = named};   \
    return around(&made);                                                                     \
  }                                                                                           \
  static object* fast_##N(object* self, object* const* given, ssize_t count, object* names) { \
    const int named = (slots[N].definition->flags & kKeywords) != 0;                          \
    const call made = {.of = &slots[N],                                                       \
                       .self = self,                                                          \
                       .arguments = given,                                                    \
                       .count = (size_t)count,                                                \
                       .names = named ? names : NULL};                                        \
    return around(&made);                                                                     \
  }                                                                                           \
  static object* method_##N(                                                                  \
      object* self, object* kind, object* const* given, size_t count, object* names) {        \
    const call made = {.of = &slots[N],                                                       \
                       .self = self,                                                          \
                       .kind = kind,                                                          \
                       .arguments = given,                                                    \
                       .count = count,                                                        \
                       .names = names};                                                       \
    return around(&made);                                                                     \
  }
#define EIGHT(F, N) F(N##0) F(N##1) F(N##2) F(N##3) F(N##4) F(N##5) F(N##6) F(N##7)
/* Octal, so that a slot is a number as well. */
#define ALL(F) \
  EIGHT(F, 00) \
  EIGHT(F, 01) EIGHT(F, 02) EIGHT(F, 03) EIGHT(F, 04) EIGHT(F, 05) EIGHT(F, 06) EIGHT(F, 07)
ALL(SLOT)
#define ENTRIES(N) {(void*)&plain_##N, (void*)&keywords_##N, (void*)&fast_##N, (void*)&method_##N},
static void* const entries[kSlots][4] = {ALL(ENTRIES)};

/* @return which of the entries of a slot; -1 = none */
static int entry_of(int shape) {
  switch (shape) {
    case kVarargs:
    case kNoArgs:
    case kOne:
      return 0;
    case kVarargs | kKeywords:
      return 1;
    case kFast:
    case kFast | kKeywords:
      return 2;
    case kMethod | kFast | kKeywords:
      return 3;
    default:
      return -1;
  }
}

/* Puts a watch around another one. */
static const char* watch_again(watch* known, const watch* given) {
  watch* inner = malloc(sizeof *inner);
  if (inner == NULL) return "out of memory";
  *inner = *known;
  known->before = given->before;
  known->after = given->after;
  known->leave = given->leave;
  known->inner = inner;
  return NULL;
}

static const char* watch_c(method* definition, int has_self, const watch* given) {
  const int entry = entry_of(definition->flags & kShapes);
  watch* slot = &slots[used_slots];
  for (unsigned i = 0; i < used_slots; ++i) {
    if (slots[i].definition == definition) return watch_again(&slots[i], given);
  }
  if (entry < 0) return "it is called in a way that is not known";
  if (used_slots == kSlots) return "too many functions are watched";
  if (!is_writable(&definition->function)) return "its definition cannot be written";
  *slot = *given;
  slot->definition = definition;
  slot->original = definition->function;
  slot->has_self = has_self;
  definition->function = entries[used_slots++][entry];
  return NULL;
}

/* Interpreters of 3.11 run the code of what is exactly a function without asking by which pointer
   it is called: there a watched function is of a class like that of functions, of the same layout.
 */
static union {
  type kind;
  char bytes[1024];
} watched_functions;

static type* class_of_watched(void) {
  enum { kSizeOfType = 408 };
  if (strncmp(Py_GetVersion(), "3.11.", 5) != 0) return &PyFunction_Type;
  if (watched_functions.kind.name == NULL) {
    const volatile char* from = (const volatile char*)&PyFunction_Type; /* longer than declared */
    for (int i = 0; i < kSizeOfType; ++i) watched_functions.bytes[i] = from[i];
    watched_functions.kind.head.references = 1 << 30;
  }
  return &watched_functions.kind;
}

static const char* watch_python(object* function, const watch* given) {
  vectorcall** called = (vectorcall**)((char*)function + function->kind->vectorcall_offset);
  watch** place = place_of(function);
  if (*place != NULL) return watch_again(*place, given);
  if (2 * in_table >= kTable) return "too many functions are watched";
  if (*called == NULL) return "it is called in a way that is not known";
  *place = malloc(sizeof **place);
  if (*place == NULL) return "out of memory";
  ++in_table;
  **place = *given;
  (*place)->called = *called;
  if (function->kind == &PyFunction_Type && PyFunction_SetVectorcall != NULL) {
    PyFunction_SetVectorcall(function, &call_watched);
  } else {
    *called = &call_watched;
    if (function->kind == &PyFunction_Type) function->kind = class_of_watched();
  }
  return NULL;
}

/* watch(function, before, after, leave): hooks are functions, or None. A call `f(*a, **k)` is
     token = before(*a, **k)     None: nothing more is told of the call
     result = f(*a, **k)         or with other arguments, where that was Instead(args, kwargs,
   token) after(token, result, *a, **k)   where it returned; Instead(result,) takes the result's
   place leave(token, error)         however it ended: error is the exception, or None Several
   watches of one function are around each other, the last one outermost. Without `before` the token
   is None. */
static object* hooks_watch(object* self, object* const* given, ssize_t count) {
  watch made = {0};
  object** hooks[3] = {&made.before, &made.after, &made.leave};
  const char* why = "it is no function";
  (void)self;
  if (count != 4) {
    PyErr_SetString(PyExc_TypeError, "watch(function, before, after, leave)");
    return NULL;
  }
  for (int i = 0; i < 3; ++i) {
    if (given[i + 1] == NONE) continue;
    if (given[i + 1]->kind != &PyFunction_Type) {
      PyErr_SetString(PyExc_TypeError, "a hook is a function");
      return NULL;
    }
    *hooks[i] = given[i + 1];
  }
  made.function = given[0];
  if (made.function->kind == &PyMethodDescr_Type) {
    why = watch_c(((c_method*)made.function)->definition, 1, &made);
  } else if (made.function->kind == &PyCFunction_Type) {
    object* bound = ((c_function*)made.function)->self;
    const int has_self =
        bound != NULL && !is_a(bound, &PyModule_Type) && !is_a(bound, &PyType_Type);
    why = watch_c(((c_function*)made.function)->definition, has_self, &made);
  } else if (made.function->kind == &PyFunction_Type || made.function->kind == class_of_watched() ||
             ((PyType_GetFlags(made.function->kind) & HAS_VECTORCALL) != 0 &&
              strstr(made.function->kind->name, "cython_function_or_method") != NULL)) {
    why = watch_python(made.function, &made);
  }
  if (why != NULL) {
    PyErr_SetString(PyExc_RuntimeError, why);
    return NULL;
  }
  /* For good: the function may be called as long as the process lives. */
  Py_IncRef(made.function);
  for (int i = 0; i < 3; ++i) {
    if (*hooks[i] != NULL) Py_IncRef(*hooks[i]);
  }
  return held_reference(NONE);
}

/* given_by(class): the class of what before() and after() return to put something else in place. */
static object* hooks_given_by(object* self, object* kind) {
  (void)self;
  given_instead = held_reference(kind);
  return held_reference(NONE);
}

/* A call of what between() has made. */
static object* run_between(object* parts, object* given, object* named) {
  object *kind, *value, *trace, *told, *error;
  object* result = NULL;
  enter_hook();
  told = call_function(PyTuple_GetItem(parts, 1), NULL, 0, NULL);
  leave_hook();
  if (told == NULL) return NULL;
  Py_DecRef(told);
  result = PyObject_Call(PyTuple_GetItem(parts, 0), given, named);
  PyErr_Fetch(&kind, &value, &trace);
  error = result == NULL ? PyExc_RuntimeError : NONE; /* which it is nobody asks */
  enter_hook();
  told = call_function(PyTuple_GetItem(parts, 2), &error, 1, NULL);
  leave_hook();
  if (told == NULL) {
    PyErr_Clear();
  } else {
    Py_DecRef(told);
  }
  PyErr_Restore(kind, value, trace);
  return result;
}

static method between_definition = {"between", (void*)&run_between, kVarargs | kKeywords, NULL};

/* between(function, enter, leave): what calls it between enter() and leave(raised), without a frame
   of its own; where it returned, raised is None. */
static object* hooks_between(object* self, object* const* given, ssize_t count) {
  object *parts, *made;
  (void)self;
  if (count != 3 || given[1]->kind != &PyFunction_Type || given[2]->kind != &PyFunction_Type) {
    PyErr_SetString(PyExc_TypeError, "between(function, enter, leave)");
    return NULL;
  }
  parts = PyTuple_New(3);
  if (parts == NULL) return NULL;
  for (int i = 0; i < 3; ++i) PyTuple_SetItem(parts, i, held_reference(given[i]));
  made = PyCFunction_NewEx(&between_definition, parts, NULL);
  Py_DecRef(parts);
  return made;
}

/* The class of functions of Python that are watched: pickle and copy know it by a table of theirs.
 */
static object* hooks_function_type(object* self, object* unused) {
  (void)self;
  (void)unused;
  return held_reference((object*)class_of_watched());
}

static method methods[] = {{"tell_borders", (void*)&hooks_tell_borders, kFast, NULL},
                           {"enter_block", (void*)&hooks_enter_block, kOne, NULL},
                           {"leave_block", (void*)&hooks_leave_block, kNoArgs, NULL},
                           {"begin_block", (void*)&hooks_begin_block, kFast, NULL},
                           {"end_block", (void*)&hooks_end_block, kFast, NULL},
                           {"function_type", (void*)&hooks_function_type, kNoArgs, NULL},
                           {"between", (void*)&hooks_between, kFast, NULL},
                           {"watch", (void*)&hooks_watch, kFast, NULL},
                           {"lets_pass", (void*)&hooks_lets_pass, kOne, NULL},
                           {"let_pass", (void*)&hooks_let_pass, kFast, NULL},
                           {"set_in_root", (void*)&hooks_set_in_root, kOne, NULL},
                           {"given_by", (void*)&hooks_given_by, kOne, NULL},
                           {"defer_signals", (void*)&hooks_defer_signals, kNoArgs, NULL},
                           {"hold", (void*)&hooks_hold, kNoArgs, NULL},
                           {"release", (void*)&hooks_release, kNoArgs, NULL},
                           {NULL, NULL, 0, NULL}};
static module definition = {.head = {1, NULL}, .name = "calls", .size = -1, .methods = methods};

EXPORTED object* PyInit_calls(void) { return PyModule_Create2(&definition, kApi); }
