/* SPDX-License-Identifier: Apache-2.0 */
/* What is used of Python, whose headers are not: the library is loaded by any of its releases that
   have a global interpreter lock. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

typedef struct type type;
typedef struct {
  ssize_t references;
  type* kind;
} object;
struct type {
  object head;
  ssize_t size;
  const char* name;
  ssize_t basic_size, item_size;
  void* deallocate;
  ssize_t vectorcall_offset;
};
typedef object* vectorcall(object*, object* const*, size_t, object*);
typedef struct {
  const char* name;
  void* function;
  int flags;
  const char* text;
} method;
typedef struct {
  object head;
  method* definition;
  object* self;
} c_function;
typedef struct {
  object head;
  object *owner, *name, *full_name;
  method* definition;
} c_method;
typedef struct {
  object head;
  void* initialise;
  ssize_t index;
  object* copy;
  const char *name, *text;
  ssize_t size;
  method* methods;
  void *slots, *traverse, *clear, *release;
} module;

enum {
  kVarargs = 0x1,
  kKeywords = 0x2,
  kNoArgs = 0x4,
  kOne = 0x8,
  kFast = 0x80,
  kMethod = 0x200,
  kShapes = kVarargs | kKeywords | kNoArgs | kOne | kFast | kMethod,
  kApi = 1013
};
#define HAS_VECTORCALL (1UL << 11)
#define ARGUMENTS_OFFSET ((size_t)1 << (8 * sizeof(size_t) - 1))

extern object _Py_NoneStruct, _Py_TrueStruct, _Py_FalseStruct, *PyExc_TypeError,
    *PyExc_RuntimeError;
extern type PyFunction_Type, PyCFunction_Type, PyMethodDescr_Type, PyModule_Type, PyType_Type;
extern type PyBool_Type, PyLong_Type, PyFloat_Type, PyUnicode_Type, PyBytes_Type, PyTuple_Type,
    PyList_Type, PyDict_Type;
extern void Py_IncRef(object*), Py_DecRef(object*);
extern void PyErr_Fetch(object**, object**, object**), PyErr_Restore(object*, object*, object*);
extern void PyErr_NormalizeException(object**, object**, object**);
extern int PyException_SetTraceback(object*, object*);
extern void PyErr_SetString(object*, const char*), PyErr_Clear(void);
extern object *PyErr_Occurred(void), *PyErr_NoMemory(void),
    *PyErr_Format(object*, const char*, ...);
extern object *PyTuple_New(ssize_t), *PyTuple_GetItem(object*, ssize_t);
extern ssize_t PyTuple_Size(object*), PyDict_Size(object*);
extern int PyTuple_SetItem(object*, ssize_t, object*);
extern int PyDict_Next(object*, ssize_t*, object**, object**),
    PyDict_SetItem(object*, object*, object*);
extern object *PyDict_New(void), *PyObject_Call(object*, object*, object*);
extern object *PyObject_GetAttrString(object*, const char*), *PyImport_ImportModule(const char*);
extern object *PyCFunction_NewEx(method*, object*, object*), *PyModule_Create2(module*, int);
extern object *PyLong_FromLong(long), *PyEval_GetFrame(void);
extern long PyLong_AsLong(object*);
extern long long PyLong_AsLongLongAndOverflow(object*, int*);
extern void* PyLong_AsVoidPtr(object*);
extern double PyFloat_AsDouble(object*);
extern object *PyList_New(ssize_t), *PyList_GetItem(object*, ssize_t), *PyDict_Values(object*);
extern int PyList_Append(object*, object*), PyBytes_AsStringAndSize(object*, char**, ssize_t*);
extern ssize_t PyList_Size(object*);
extern object *PyUnicode_FromString(const char*), *PyUnicode_FromFormat(const char*, ...),
    *PyObject_GetAttr(object*, object*);
extern int PyCallable_Check(object*), PyType_IsSubtype(type*, type*),
    Py_AddPendingCall(int (*)(void*), void*);
extern unsigned long PyType_GetFlags(type*);
extern const char *Py_GetVersion(void), *PyUnicode_AsUTF8(object*),
    *PyUnicode_AsUTF8AndSize(object*, ssize_t*);
/* Since 3.11. */
extern void PyThreadState_EnterTracing(void*) __attribute__((weak));
extern void PyThreadState_LeaveTracing(void*) __attribute__((weak));
extern void* PyThreadState_Get(void);
/* Since 3.12; before, what it does is done here. */
extern void PyFunction_SetVectorcall(object*, vectorcall*) __attribute__((weak));

#define NONE (&_Py_NoneStruct)

static inline object* held_reference(object* one) {
  Py_IncRef(one);
  return one;
}

static inline void drop(object* one) {
  if (one != NULL) Py_DecRef(one);
}
