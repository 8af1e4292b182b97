// Put before libc by LD_PRELOAD: a disk that hangs, as a network file system does whose server is
// away. While the file that SLOW_DISK_WRITES names exists, no write to a regular file called
// *.log comes to its end; while the one of SLOW_DISK_FOLDERS exists, no folder is made.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void wait_for_disk(const char* variable) {
  const char* const gate = getenv(variable);
  while (gate != NULL && access(gate, F_OK) == 0) usleep(10000);
}

static int is_log(int fd) {
  struct stat about;
  if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) return 0;
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t n = readlink(link, path, sizeof path);
  return n > 4 && memcmp(path + n - 4, ".log", 4) == 0;
}

ssize_t write(int fd, const void* bytes, size_t n) {
  static ssize_t (*real)(int, const void*, size_t);
  if (real == NULL) *(void**)&real = dlsym(RTLD_NEXT, "write");
  const int before = errno;
  if (getenv("SLOW_DISK_WRITES") != NULL && is_log(fd)) wait_for_disk("SLOW_DISK_WRITES");
  errno = before;
  return real(fd, bytes, n);
}

int mkdir(const char* path, mode_t mode) {
  static int (*real)(const char*, mode_t);
  if (real == NULL) *(void**)&real = dlsym(RTLD_NEXT, "mkdir");
  wait_for_disk("SLOW_DISK_FOLDERS");
  return real(path, mode);
}
