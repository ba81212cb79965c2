// Makes one call that reads a directory or its files fail, by LD_PRELOAD.
//
//   READS_DIRECTORY  the directory, as the process names it; must be without symbolic links
//   READS_FAIL       the number of the call that fails with EIO, from 1; all others succeed
//   READS_FAILED     a file that gets the name of the call when it fails
//
// Counted calls: open, opendir, readdir, stat, fstat, read, pread.

#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static atomic_long calls;

// Counts a call if `path` is meant, and returns whether it fails.
static int fails(const char *call, const char *path) {
  const char *directory = getenv("READS_DIRECTORY"), *which = getenv("READS_FAIL");
  const char *failed = getenv("READS_FAILED");
  size_t length = directory ? strlen(directory) : 0;
  if (!length || !which || !failed || strncmp(path, directory, length)) return 0;
  if (path[length] && path[length] != '/') return 0;
  if (++calls != atol(which)) return 0;
  int file = (int)syscall(SYS_openat, AT_FDCWD, failed, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  dprintf(file, "%s %s", call, path);
  close(file);
  errno = EIO;
  return 1;
}

static int descriptor_fails(const char *call, int descriptor) {
  char link[64], path[4096];
  int saved = errno;
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  ssize_t length = readlink(link, path, sizeof path - 1);
  errno = saved;
  if (length < 0) return 0;
  path[length] = 0;
  return fails(call, path);
}

#define OPEN(function)                                     \
  int function(const char *path, int flags, ...) {         \
    va_list rest;                                          \
    va_start(rest, flags);                                 \
    mode_t mode = flags & O_CREAT ? va_arg(rest, int) : 0; \
    va_end(rest);                                          \
    if (fails("open", path)) return -1;                    \
    return REAL(function)(path, flags, mode);              \
  }
OPEN(open)
OPEN(open64)

DIR *opendir(const char *path) { return fails("opendir", path) ? NULL : REAL(opendir)(path); }

#define READDIR(function, type)                                                                   \
  struct type *function(DIR *directory) {                                                         \
    return descriptor_fails("readdir", dirfd(directory)) ? NULL : REAL(function)(directory);      \
  }
READDIR(readdir, dirent)
READDIR(readdir64, dirent64)

#define STAT(function, type)                                                       \
  int function(const char *path, struct type *status) {                            \
    return fails("stat", path) ? -1 : REAL(function)(path, status);                \
  }
STAT(stat, stat)
STAT(stat64, stat64)

#define FSTAT(function, type)                                                               \
  int function(int descriptor, struct type *status) {                                       \
    return descriptor_fails("fstat", descriptor) ? -1 : REAL(function)(descriptor, status); \
  }
FSTAT(fstat, stat)
FSTAT(fstat64, stat64)

ssize_t read(int descriptor, void *bytes, size_t count) {
  return descriptor_fails("read", descriptor) ? -1 : syscall(SYS_read, descriptor, bytes, count);
}

ssize_t pread64(int descriptor, void *bytes, size_t count, off64_t offset) {
  if (descriptor_fails("pread", descriptor)) return -1;
  return syscall(SYS_pread64, descriptor, bytes, count, offset);
}

ssize_t pread(int descriptor, void *bytes, size_t count, off_t offset) {
  return pread64(descriptor, bytes, count, offset);
}
