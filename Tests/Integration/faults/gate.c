// Holds up who reads a file, by LD_PRELOAD: so that a test can see what happens while it is read.
//
//   GATE_FILE    how the file's name ends
//   GATE_AFTER   so many reads of it go through; those after them ...
//   GATE_CLOSED  ... wait for as long as this file is there

#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static atomic_long reads;

static int is_meant(int descriptor) {
  const char *name = getenv("GATE_FILE");
  char link[64], path[4096];
  if (!name) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  ssize_t length = readlink(link, path, sizeof path), ending = (ssize_t)strlen(name);
  return length >= ending && !memcmp(path + length - ending, name, (size_t)ending);
}

ssize_t pread64(int descriptor, void *bytes, size_t count, off_t offset) {
  const char *closed = getenv("GATE_CLOSED"), *after = getenv("GATE_AFTER");
  if (closed && after && is_meant(descriptor) && ++reads > atol(after))
    while (access(closed, F_OK) == 0) nanosleep(&(struct timespec){0, 1000000}, NULL);
  return syscall(SYS_pread64, descriptor, bytes, count, offset);
}

ssize_t pread(int descriptor, void *bytes, size_t count, off_t offset) {
  return pread64(descriptor, bytes, count, offset);
}
