/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the preloaded library and the probe say to each other, in C. */
/* NOLINTBEGIN(modernize-redundant-void-arg,modernize-use-using) */

#ifdef __cplusplus
extern "C" {
#endif

/* What the probe wants to know of threads and of the end. */
struct repro_check_hooks {
  unsigned (*fork_thread)(void); /* on the thread that starts another */
  void (*begin_thread)(unsigned lane);
  void (*end_thread)(void);
  void (*leave)(void); /* before the process ends without its exit handlers */
};

/* Exported by the probe: records this process from here on, as the plan says.
   plan: its file. hooks: filled in where the recording has begun. */
typedef void repro_check_begin_program_function(const char* plan, struct repro_check_hooks* hooks);

#ifdef __cplusplus
}
#endif
/* NOLINTEND(modernize-redundant-void-arg,modernize-use-using) */
