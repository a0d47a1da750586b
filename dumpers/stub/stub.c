/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into a recorded program, and so into its children: into those that have no LibTorch it
   only costs its loading. Where LibTorch is linked and there is a probe, it opens the probe when
   main() is about to run. Python finds the recorder by itself; this library sees to it that it does
   where the program has set PYTHONPATH, and leaves a note of every process that loads LibTorch, so
   that one that does not record itself is known. Depends on libc alone. */
#define _GNU_SOURCE
#include "dumpers/stub/stub.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef int main_function(int, char**, char**);
typedef int start_function(
    main_function*, int, char**, void (*)(void), void (*)(void), void (*)(void), void*);
typedef int exit_function(void (*)(void*), void*, void*);
typedef void thread_function(void);
typedef int create_function(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);

#define EXPORTED __attribute__((visibility("default")))

static const char kPlan[] = "REPRO_CHECK_EXEC";
static main_function* program_main;
static struct repro_check_hooks hooks;
static atomic_int hooked;

static int is_libtorch(struct dl_phdr_info* library, size_t size, void* unused) {
  (void)size;
  (void)unused;
  return strstr(library->dlpi_name, "/libtorch_cpu.so") != NULL;
}

/* As the probe tells it where it can. */
static void say_failure(const char* folder, const char* why) {
  char path[4096];
  const int process = (int)getpid();
  if (snprintf(path, sizeof path, "%s/%d.json", folder, process) >= (int)sizeof path) return;
  FILE* file = fopen(path, "we");
  if (file == NULL) return;
  fprintf(file, "{\"process\": %d, \"failure\": \"", process);
  for (; why != NULL && *why != '\0'; ++why) {
    const int plain = *why >= ' ' && *why != '"' && *why != '\\';
    fputc(plain ? *why : ' ', file);
  }
  fputs("\"}", file);
  fclose(file);
}

/* The folder of the plan, whose probe is opened, is made by `exec` for the user alone. */
static int is_ours(const char* folder) {
  struct stat found;
  return lstat(folder, &found) == 0 && S_ISDIR(found.st_mode) &&
         (found.st_uid == geteuid() || found.st_uid == 0) &&
         (found.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* The folder of the plan; 0 in a process that is not recorded. */
static int find_folder(char* folder, size_t size) {
  const char* plan = getenv(kPlan);
  const char* end = plan == NULL ? NULL : strrchr(plan, '/');
  if (end == NULL || (size_t)(end - plan) >= size) return 0;
  memcpy(folder, plan, (size_t)(end - plan));
  folder[end - plan] = '\0';
  return is_ours(folder);
}

/* The words that this process was started with, in a file of its name. */
static void note_libtorch(void) {
  char folder[4000];
  char path[4096];
  char words[4096];
  if (!find_folder(folder, sizeof folder)) return;
  snprintf(path, sizeof path, "%s/%d.libtorch", folder, (int)getpid());
  const int from = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  const int to = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const ssize_t length = from < 0 ? 0 : read(from, words, sizeof words);
  if (to >= 0 && length > 0 && write(to, words, (size_t)length) < 0) unlink(path);
  if (from >= 0) close(from);
  if (to >= 0) close(to);
}

/* Python reads the variable when it starts. A program that starts another one may have set it. */
static void lead_python(void) {
  static const char kVariable[] = "PYTHONPATH";
  static const char kOurs[] = "/python";
  Dl_info self;
  const char* others = getenv(kVariable);
  if (getenv(kPlan) == NULL || dladdr(kVariable, &self) == 0 || self.dli_fname == NULL) return;
  const char* end = strrchr(self.dli_fname, '/');
  if (end == NULL) return;
  const size_t folder = (size_t)(end - self.dli_fname);
  const size_t length = folder + sizeof kOurs - 1;
  char* list = malloc(length + 2 + (others == NULL ? 0 : strlen(others)));
  if (list == NULL) return;
  memcpy(list, self.dli_fname, folder);
  strcpy(list + folder, kOurs);
  const char* there = others == NULL ? NULL : strstr(others, list);
  const int leads = there != NULL && (there == others || there[-1] == ':') &&
                    (there[length] == ':' || there[length] == '\0');
  if (!leads) {
    if (others != NULL && *others != '\0') {
      strcat(list, ":");
      strcat(list, others);
    }
    setenv(kVariable, list, 1);
  }
  free(list);
}

static void attach(void) {
  char folder[4000];
  char probe[4096];
  if (!find_folder(folder, sizeof folder)) return;
  if (dl_iterate_phdr(is_libtorch, NULL) == 0) return;
  snprintf(probe, sizeof probe, "%s/probe.so", folder);
  /* Python programs have none: they attach by themselves. */
  if (access(probe, F_OK) != 0) return;
  void* library = dlopen(probe, RTLD_NOW | RTLD_LOCAL);
  repro_check_begin_program_function* begin = NULL;
  if (library != NULL) {
    begin = (repro_check_begin_program_function*)dlsym(library, "repro_check_begin_program");
  }
  if (begin == NULL) {
    say_failure(folder, dlerror());
    return;
  }
  begin(getenv(kPlan), &hooks);
  if (hooks.leave != NULL) atomic_store(&hooked, 1);
}

static int main_with_probe(int count, char** arguments, char** environment) {
  lead_python();
  attach();
  return program_main(count, arguments, environment);
}

EXPORTED int __libc_start_main(main_function* program,
                               int count,
                               char** arguments,
                               void (*init)(void),
                               void (*fini)(void),
                               void (*loader_fini)(void),
                               void* stack_end) {
  start_function* start = (start_function*)dlsym(RTLD_NEXT, "__libc_start_main");
  program_main = program;
  return start(main_with_probe, count, arguments, init, fini, loader_fini, stack_end);
}

/* Told of each thread that Python did not start, on that thread. */
static _Atomic(thread_function*) native_thread;

EXPORTED void repro_check_watch_threads(thread_function* told) {
  atomic_store(&native_thread, told);
}

struct started {
  void* (*work)(void*);
  void* argument;
  unsigned lane;
};

static void end_thread(void* unused) {
  (void)unused;
  hooks.end_thread();
}

static void* run_native(void* given) {
  const struct started thread = *(struct started*)given;
  free(given);
  atomic_load (&native_thread)();
  return thread.work(thread.argument);
}

static void* run_thread(void* given) {
  const struct started thread = *(struct started*)given;
  void* result;
  free(given);
  hooks.begin_thread(thread.lane);
  pthread_cleanup_push(end_thread, NULL);
  result = thread.work(thread.argument);
  pthread_cleanup_pop(1);
  return result;
}

static int is_of(const void* caller, const char* library) {
  Dl_info found;
  if (dladdr(caller, &found) == 0 || found.dli_fname == NULL) return 0;
  const char* name = strrchr(found.dli_fname, '/');
  return strncmp(name == NULL ? found.dli_fname : name + 1, library, strlen(library)) == 0;
}

/* Workers of OpenMP call no operators, and how many there are must not number the others anew. */
static int is_openmp(const void* caller) {
  return is_of(caller, "libgomp") || is_of(caller, "libiomp") || is_of(caller, "libomp");
}

/* The recorder's part in Python tells of these. */
static int is_python(const void* caller) {
  return is_of(caller, "python") || is_of(caller, "libpython");
}

EXPORTED int pthread_create(pthread_t* thread,
                            const pthread_attr_t* attributes,
                            void* (*work)(void*),
                            void* argument) {
  static _Atomic(create_function*) known;
  create_function* create = atomic_load(&known);
  struct started* started;
  int error;
  if (create == NULL) {
    create = (create_function*)dlsym(RTLD_NEXT, "pthread_create");
    atomic_store(&known, create);
  }
  const void* caller = __builtin_return_address(0);
  const int is_hooked = atomic_load(&hooked);
  const int is_native = !is_hooked && atomic_load(&native_thread) != NULL && !is_python(caller);
  if ((!is_hooked && !is_native) || is_openmp(caller)) {
    return create(thread, attributes, work, argument);
  }
  started = malloc(sizeof *started);
  if (started == NULL) return create(thread, attributes, work, argument);
  started->work = work;
  started->argument = argument;
  started->lane = is_hooked ? hooks.fork_thread() : 0;
  error = create(thread, attributes, is_hooked ? run_thread : run_native, started);
  if (error != 0) free(started);
  return error;
}

/* In a handler its signal is blocked: nothing may be allocated there, and the recording stays
   unfinished. */
static int may_handle_signal(void) {
  sigset_t blocked;
  return sigprocmask(SIG_BLOCK, NULL, &blocked) != 0 || !sigisemptyset(&blocked);
}

EXPORTED void _exit(int status) {
  if (atomic_load(&hooked) && !may_handle_signal()) hooks.leave();
  for (;;) syscall(SYS_exit_group, status);
}

EXPORTED void _Exit(int status) { _exit(status); }

/* Every library with something to destroy calls this when it is loaded. */
EXPORTED int __cxa_atexit(void (*function)(void*), void* argument, void* library) {
  static _Atomic(exit_function*) known;
  static _Atomic(void*) latest;
  static atomic_int noted;
  exit_function* original = atomic_load(&known);
  Dl_info found;
  if (original == NULL) {
    original = (exit_function*)dlsym(RTLD_NEXT, "__cxa_atexit");
    atomic_store(&known, original);
  }
  if (!atomic_load(&noted) && library != NULL && atomic_exchange(&latest, library) != library &&
      dladdr(library, &found) != 0 && found.dli_fname != NULL &&
      strstr(found.dli_fname, "/libtorch_cpu.so") != NULL) {
    atomic_store(&noted, 1);
    note_libtorch();
  }
  return original(function, argument, library);
}
