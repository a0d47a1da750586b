/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of the module `calls`, for the borders of blocks; borders.c says what they are given.
 */
#pragma once

#include <stdint.h>

#include "interpreter.h"

object* hooks_tell_borders(object* self, object* const* given, ssize_t count);
object* hooks_enter_block(object* self, object* number);
object* hooks_leave_block(object* self, object* unused);
object* hooks_begin_block(object* self, object* const* given, ssize_t count);
object* hooks_end_block(object* self, object* const* given, ssize_t count);

/* A call of a module that begins a block, ends one, or both: its number, and which. */
enum { kBegins = 1, kEnds = 2, kBlockShift = 2 };

/* Whether borders are read here and now, and no `__torch_function__` would be told of that. */
int may_read_borders(void);
/* @return whether borders are recorded in this step */
int enter_border(uint32_t block);
/* These leave no exception: Python is told of one.
   @param arguments  of a vectorcall, the module first */
void begin_call(uint32_t block, object* const* arguments, size_t count, object* names);
/* @param result  NULL = the call has raised an exception, which stays */
void end_call(uint32_t block, object* result);
void leave_border(void);
