// Put before libc by LD_PRELOAD: a system that makes no further thread. Of the threads that a
// process asks for, the one with the number FEW_THREADS_ONE (from 1), and all from FEW_THREADS_FROM
// on, are refused.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

static int is_refused(void) {
  static int asked;
  const int number = __atomic_add_fetch(&asked, 1, __ATOMIC_RELAXED);
  const char* const one = getenv("FEW_THREADS_ONE");
  const char* const from = getenv("FEW_THREADS_FROM");
  return (one != NULL && number == atoi(one)) || (from != NULL && number >= atoi(from));
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                   void* argument) {
  static int (*real)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  if (real == NULL) *(void**)&real = dlsym(RTLD_NEXT, "pthread_create");
  return is_refused() ? EAGAIN : real(thread, attributes, run, argument);
}
