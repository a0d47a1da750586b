/* SPDX-License-Identifier: Apache-2.0 */
/* What is read at the border of a block: tensors, numbers and texts inside of what a call is given
   or returns. A program that computes for a millisecond between two borders finds neither the
   interpreter nor its objects in the caches: what is done at each border is done here, and Python
   is asked for what is no type of the language. */
#include "borders.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Functions of the probe. */
static int (*enter_module)(uint32_t);
static void (*leave_module)(void);
static uint32_t (*begin_probe)(
    uint32_t, int, const char*, const void*, const void*, uint32_t unopened);
static uint32_t (*end_probe)(uint32_t, const char*, const void*, const void*, uint32_t unopened);

static type *tensor_kind, *parameter_kind;
static object *open_other, *may_read, *note; /* see tell_borders() */
static object *address_name, *training_name, *no_arguments;

enum { kDeepest = 8, kMostLeaves = 10000, kFewLeaves = 32, kFewBytes = 256 };

/* A letter and a word for each leaf, as `Border` of the probe has them. */
typedef struct {
  char* kinds; /* with a null behind them */
  uint64_t* words;
  object** held; /* the tensor that a word is the address of, or NULL */
  unsigned char* bytes;
  size_t leaves, room, size, bytes_room;
  object* unopened; /* names of types that were not opened; NULL = Python was not asked */
  char few_kinds[kFewLeaves + 1];
  uint64_t few_words[kFewLeaves];
  object* few_held[kFewLeaves];
  unsigned char few_bytes[kFewBytes];
} border;

static void begin_border(border* read) {
  read->kinds = read->few_kinds;
  read->words = read->few_words;
  read->held = read->few_held;
  read->bytes = read->few_bytes;
  read->leaves = read->size = 0;
  read->room = kFewLeaves;
  read->bytes_room = kFewBytes;
  read->unopened = NULL;
  read->kinds[0] = 0;
}

static void end_border(border* read) {
  for (size_t i = 0; i < read->leaves; ++i) drop(read->held[i]);
  if (read->kinds != read->few_kinds) free(read->kinds);
  if (read->words != read->few_words) free(read->words);
  if (read->held != read->few_held) free(read->held);
  if (read->bytes != read->few_bytes) free(read->bytes);
  drop(read->unopened);
}

/* @return memory of that size with what is in the other; NULL with an exception */
static void* moved(void* from, const void* few, size_t size, size_t room) {
  void* to = from == few ? malloc(room) : realloc(from, room);
  if (to == NULL) return PyErr_NoMemory();
  if (from == few) memcpy(to, from, size);
  return to;
}

/* These return -1 with an exception. */

static int add_leaf(border* read, char kind, uint64_t word, object* held) {
  if (read->leaves == read->room) {
    const size_t room = 2 * read->room, used = read->leaves;
    void* to = moved(read->kinds, read->few_kinds, used + 1, room + 1);
    if (to == NULL) return -1;
    read->kinds = to;
    to =
        moved(read->words, read->few_words, used * sizeof *read->words, room * sizeof *read->words);
    if (to == NULL) return -1;
    read->words = to;
    to = moved(read->held, read->few_held, used * sizeof *read->held, room * sizeof *read->held);
    if (to == NULL) return -1;
    read->held = to;
    read->room = room;
  }
  if (held != NULL) Py_IncRef(held);
  read->held[read->leaves] = held;
  read->words[read->leaves] = word;
  read->kinds[read->leaves++] = kind;
  read->kinds[read->leaves] = 0;
  return 0;
}

static int add_bytes(border* read, char kind, const void* bytes, size_t size) {
  if (size > read->bytes_room - read->size) {
    const size_t room = 2 * (read->size + size);
    void* to = moved(read->bytes, read->few_bytes, read->size, room);
    if (to == NULL) return -1;
    read->bytes = to;
    read->bytes_room = room;
  }
  if (add_leaf(read, kind, size, NULL) != 0) return -1;
  memcpy(read->bytes + read->size, bytes, size);
  read->size += size;
  return 0;
}

static int add_tensor(border* read, object* tensor) {
  object* address = PyObject_GetAttr(tensor, address_name);
  const uint64_t word = address == NULL ? 0 : (uint64_t)(uintptr_t)PyLong_AsVoidPtr(address);
  drop(address);
  if (PyErr_Occurred() != NULL) return -1;
  return add_leaf(read, 'T', word, tensor);
}

static int add(border* read, object* value, int depth);

static int add_items(border* read, object* items, int depth) {
  const int is_list = items->kind == &PyList_Type;
  /* Python may be asked meanwhile, and make a list shorter. */
  for (ssize_t i = 0; i < (is_list ? PyList_Size(items) : PyTuple_Size(items)); ++i) {
    object* item = held_reference(is_list ? PyList_GetItem(items, i) : PyTuple_GetItem(items, i));
    const int failed = add(read, item, depth);
    Py_DecRef(item);
    if (failed) return -1;
  }
  return 0;
}

/* Types of which Python has said how values of them are opened: most that are met are of few. */
enum { kKnownTypes = 32 };
static struct {
  type* kind;
  int has_parts; /* those that are its attributes; else it says nothing of what is computed */
} known_types[kKnownTypes];
static unsigned types_known;

static void know_type(type* kind, int has_parts) {
  if (types_known == kKnownTypes) return;
  Py_IncRef((object*)kind); /* so that no other one comes to lie there */
  known_types[types_known].kind = kind;
  known_types[types_known++].has_parts = has_parts;
}

static int add_attributes(border* read, object* value, int depth) {
  object* attributes = PyObject_GetAttrString(value, "__dict__");
  const int failed = attributes == NULL ? -1 : add(read, attributes, depth);
  drop(attributes);
  return failed;
}

static int add_opened(border* read, object* value, object* pair, int depth) {
  object* what =
      pair->kind == &PyTuple_Type && PyTuple_Size(pair) == 2 ? PyTuple_GetItem(pair, 1) : NULL;
  const char* letter = what == NULL ? NULL : PyUnicode_AsUTF8(PyTuple_GetItem(pair, 0));
  if (letter != NULL && *letter == 'T') return add_tensor(read, what);
  if (letter != NULL && (*letter == 'n' || *letter == 'a')) {
    know_type(value->kind, *letter == 'a');
    return *letter == 'a' ? add_attributes(read, value, depth) : 0;
  }
  if (letter != NULL && *letter == 'p' &&
      (what->kind == &PyList_Type || what->kind == &PyTuple_Type)) {
    return add_items(read, what, depth + 1);
  }
  if (letter != NULL && what->kind == &PyBytes_Type) {
    char* bytes;
    ssize_t size;
    if (PyBytes_AsStringAndSize(what, &bytes, &size) != 0) return -1;
    return add_bytes(read, *letter, bytes, (size_t)size);
  }
  if (PyErr_Occurred() == NULL)
    PyErr_SetString(PyExc_TypeError, "a value is opened to a letter and what it is");
  return -1;
}

static int add_other(border* read, object* value, int depth, int can_open) {
  object *given, *opened;
  int failed = 0;
  if (read->unopened == NULL && (read->unopened = PyList_New(0)) == NULL) return -1;
  given = PyTuple_New(3);
  if (given == NULL) return -1;
  PyTuple_SetItem(given, 0, held_reference(value));
  PyTuple_SetItem(given, 1, held_reference(can_open ? &_Py_TrueStruct : &_Py_FalseStruct));
  PyTuple_SetItem(given, 2, held_reference(read->unopened));
  opened = PyObject_Call(open_other, given, NULL);
  Py_DecRef(given);
  if (opened == NULL) return -1;
  if (opened != NONE) failed = add_opened(read, value, opened, depth);
  Py_DecRef(opened);
  return failed;
}

static int add_parts(border* read, object* value, int depth) {
  object* values;
  int failed;
  if (value->kind != &PyDict_Type) return add_items(read, value, depth + 1);
  values = PyDict_Values(value);
  if (values == NULL) return -1;
  failed = add_items(read, values, depth + 1);
  Py_DecRef(values);
  return failed;
}

static int add(border* read, object* value, int depth) {
  type* kind = value->kind;
  const int can_open = depth < kDeepest && read->leaves < kMostLeaves;
  if (kind == tensor_kind || kind == parameter_kind) return add_tensor(read, value);
  if (value == NONE) return 0;
  if (kind == &PyBool_Type) {
    const char is_true = value == &_Py_TrueStruct;
    return add_bytes(read, 'b', &is_true, 1);
  }
  if (kind == &PyLong_Type) {
    int overflows;
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflows);
    if (!overflows) return add_bytes(read, 'i', &number, sizeof number);
  } else if (kind == &PyFloat_Type) {
    const double number = PyFloat_AsDouble(value);
    return add_bytes(read, 'd', &number, sizeof number);
  } else if (kind == &PyUnicode_Type) {
    ssize_t size;
    const char* text = PyUnicode_AsUTF8AndSize(value, &size);
    if (text != NULL) return add_bytes(read, 's', text, (size_t)size);
    PyErr_Clear(); /* it has no UTF-8 */
  } else if (can_open && (kind == &PyTuple_Type || kind == &PyList_Type || kind == &PyDict_Type)) {
    return add_parts(read, value, depth);
  }
  for (unsigned i = 0; i < types_known; ++i) {
    if (known_types[i].kind != kind) continue;
    if (!known_types[i].has_parts) return 0;
    if (can_open) return add_attributes(read, value, depth);
  }
  return add_other(read, value, depth, can_open);
}

static uint32_t unopened_in(const border* read) {
  return read->unopened == NULL ? 0 : (uint32_t)PyList_Size(read->unopened);
}

/* @return None, or where there is something to say (names of types that were not opened, tensors of
   which `unread` could not be read, or None) */
static object* said_of(const border* read, uint32_t unread) {
  object *said, *tensors;
  if (unread == 0 && unopened_in(read) == 0) return held_reference(NONE);
  tensors = unread == 0 ? held_reference(NONE) : PyList_New(0);
  said = PyTuple_New(2);
  if (said == NULL || tensors == NULL) {
    drop(said);
    drop(tensors);
    return NULL;
  }
  for (size_t i = 0; unread != 0 && i < read->leaves; ++i) {
    if (read->held[i] != NULL) PyList_Append(tensors, read->held[i]);
  }
  PyTuple_SetItem(said, 0, read->unopened == NULL ? PyList_New(0) : held_reference(read->unopened));
  PyTuple_SetItem(said, 1, tensors);
  return said;
}

static object* begun(uint32_t number, int training, const border* read) {
  return said_of(
      read,
      begin_probe(number, training, read->kinds, read->words, read->bytes, unopened_in(read)));
}

static object* ended(uint32_t number, const border* read) {
  return said_of(read, end_probe(number, read->kinds, read->words, read->bytes, unopened_in(read)));
}

/* begin_block(number, training, args, kwargs): a call of a block begins, see said_of(). */
object* hooks_begin_block(object* self, object* const* given, ssize_t count) {
  border read;
  object* said = NULL;
  const uint32_t number = count == 4 ? (uint32_t)PyLong_AsLong(given[0]) : 0;
  (void)self;
  if (count != 4) {
    PyErr_SetString(PyExc_TypeError, "begin_block(number, training, args, kwargs)");
    return NULL;
  }
  begin_border(&read);
  if (add(&read, given[2], 0) == 0 && add(&read, given[3], 0) == 0) {
    said = begun(number, given[1] == &_Py_TrueStruct, &read);
  }
  end_border(&read);
  return said;
}

/* end_block(number, result): it has returned, or raised what has that name; see said_of(). */
object* hooks_end_block(object* self, object* const* given, ssize_t count) {
  border read;
  object* said = NULL;
  const uint32_t number = count == 2 ? (uint32_t)PyLong_AsLong(given[0]) : 0;
  (void)self;
  if (count != 2) {
    PyErr_SetString(PyExc_TypeError, "end_block(number, result)");
    return NULL;
  }
  begin_border(&read);
  if (add(&read, given[1], 0) == 0) said = ended(number, &read);
  end_border(&read);
  return said;
}

/* enter_block(number): a module that is told of is called.
   @return whether borders are recorded in this step */
object* hooks_enter_block(object* self, object* number) {
  (void)self;
  return held_reference(enter_module((uint32_t)PyLong_AsLong(number)) ? &_Py_TrueStruct
                                                                      : &_Py_FalseStruct);
}

object* hooks_leave_block(object* self, object* unused) {
  (void)self;
  (void)unused;
  leave_module();
  return held_reference(NONE);
}

int may_read_borders(void) {
  object* answer = PyObject_Call(may_read, no_arguments, NULL);
  const int may = answer == &_Py_TrueStruct;
  if (answer == NULL) PyErr_Clear();
  drop(answer);
  return may;
}

int enter_border(uint32_t block) { return enter_module(block >> kBlockShift); }

void leave_border(void) { leave_module(); }

/* @param said  see said_of(); NULL = an exception. Taken. */
static void tell_python(object* said) {
  object *kind = NULL, *error = NULL, *trace = NULL, *given, *told = NULL;
  if (said == NONE) {
    Py_DecRef(said);
    return;
  }
  if (said == NULL) {
    PyErr_Fetch(&kind, &error, &trace);
    PyErr_NormalizeException(&kind, &error, &trace);
  }
  given = PyTuple_New(2);
  if (given != NULL) {
    PyTuple_SetItem(given, 0, held_reference(said == NULL ? NONE : said));
    PyTuple_SetItem(given, 1, held_reference(error == NULL ? NONE : error));
    told = PyObject_Call(note, given, NULL);
    Py_DecRef(given);
  }
  if (told == NULL) PyErr_Clear();
  drop(told);
  drop(said);
  drop(kind);
  drop(error);
  drop(trace);
}

void begin_call(uint32_t block, object* const* arguments, size_t count, object* names) {
  border read;
  object *said = NULL, *training;
  const size_t all = count + (names == NULL ? 0 : (size_t)PyTuple_Size(names));
  int failed = 0;
  if ((block & kBegins) == 0) return;
  training = PyObject_GetAttr(arguments[0], training_name);
  begin_border(&read);
  for (size_t i = 1; i < all && !failed; ++i) failed = add(&read, arguments[i], 1);
  if (!failed && training != NULL) {
    said = begun(block >> kBlockShift, training == &_Py_TrueStruct, &read);
  }
  end_border(&read);
  drop(training);
  tell_python(said);
}

/* @return the class of an exception, as a text */
static object* name_of_class(object* kind) {
  object* module_name = PyObject_GetAttrString(kind, "__module__");
  object* name = module_name == NULL ? NULL : PyObject_GetAttrString(kind, "__qualname__");
  object* whole = name == NULL ? NULL : PyUnicode_FromFormat("%U.%U", module_name, name);
  drop(module_name);
  drop(name);
  return whole;
}

void end_call(uint32_t block, object* result) {
  object *kind = NULL, *value = NULL, *trace = NULL, *given;
  border read;
  object* said = NULL;
  if ((block & kEnds) == 0) return;
  if (result == NULL) PyErr_Fetch(&kind, &value, &trace);
  given = result != NULL ? held_reference(result) : name_of_class(kind);
  begin_border(&read);
  if (given != NULL && add(&read, given, 0) == 0) said = ended(block >> kBlockShift, &read);
  end_border(&read);
  drop(given);
  tell_python(said);
  if (kind != NULL) PyErr_Restore(kind, value, trace);
}

/* tell_borders([enter, leave, begin, end], Tensor, Parameter, open, may_read, note): addresses of
   functions of the probe, classes, and functions in Python. `open(value, can_open, unopened)`
   returns what a value of another type is, a letter and what that says: ("T", tensor), ("p", list
   of parts), ("s" or "c", bytes) or None; of all values of its type ("a", None), its attributes are
   its parts, or ("n", None), it says nothing of what is computed; to the list `unopened` it adds
   the name of a type that it cannot open. `may_read()` says whether a border may be read without
   asking Python first, and `note(said, error)` is told what said_of() says, or what failed. */
object* hooks_tell_borders(object* self, object* const* given, ssize_t count) {
  (void)self;
  if (count != 6 || given[0]->kind != &PyList_Type || PyList_Size(given[0]) != 4) {
    PyErr_SetString(PyExc_TypeError,
                    "tell_borders(probe, Tensor, Parameter, open, may_read, note)");
    return NULL;
  }
  *(void**)&enter_module = PyLong_AsVoidPtr(PyList_GetItem(given[0], 0));
  *(void**)&leave_module = PyLong_AsVoidPtr(PyList_GetItem(given[0], 1));
  *(void**)&begin_probe = PyLong_AsVoidPtr(PyList_GetItem(given[0], 2));
  *(void**)&end_probe = PyLong_AsVoidPtr(PyList_GetItem(given[0], 3));
  tensor_kind = (type*)held_reference(given[1]); /* for good, as the hooks are */
  parameter_kind = (type*)held_reference(given[2]);
  open_other = held_reference(given[3]);
  may_read = held_reference(given[4]);
  note = held_reference(given[5]);
  address_name = PyUnicode_FromString("_cdata");
  training_name = PyUnicode_FromString("training");
  no_arguments = PyTuple_New(0);
  return PyErr_Occurred() != NULL ? NULL : held_reference(NONE);
}
