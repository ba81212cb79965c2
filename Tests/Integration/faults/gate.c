// Holds up who reads a file, or syncs it, by LD_PRELOAD: so that a test can see what happens meanwhile. Or has
// reads fail, or syncs take long.
//
//   GATE_FILE     how the file's name ends
//   GATE_AFTER    so many reads of it go through, for each descriptor; those after them ...
//   GATE_CLOSED   ... wait for as long as this file is there
//   GATE_ERROR    ... or fail with this number for so long
//   GATE_WAITING  without GATE_AFTER: syncs of it wait, and make this file before they do
//   GATE_SYNC     each sync of it takes at least so many microseconds

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { descriptors = 1024 };

static atomic_long reads[descriptors];

static void wait_for(const char *closed) {
  while (access(closed, F_OK) == 0) nanosleep(&(struct timespec){0, 1000000}, NULL);
}

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
  const char *error = getenv("GATE_ERROR");
  if (closed && after && descriptor < descriptors && is_meant(descriptor) &&
      ++reads[descriptor] > atol(after)) {
    if (!error) wait_for(closed);
    if (error && access(closed, F_OK) == 0) {
      errno = atoi(error);
      return -1;
    }
  }
  return syscall(SYS_pread64, descriptor, bytes, count, offset);
}

ssize_t pread(int descriptor, void *bytes, size_t count, off_t offset) {
  return pread64(descriptor, bytes, count, offset);
}

int fdatasync(int descriptor) {
  const char *closed = getenv("GATE_CLOSED"), *waiting = getenv("GATE_WAITING");
  if (closed && waiting && is_meant(descriptor) && access(closed, F_OK) == 0) {
    close(open(waiting, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    wait_for(closed);
  }
  const char *sync = getenv("GATE_SYNC");
  if (sync && is_meant(descriptor)) nanosleep(&(struct timespec){0, atol(sync) * 1000}, NULL);
  return ((__typeof__(&fdatasync))dlsym(RTLD_NEXT, "fdatasync"))(descriptor);
}
