// Blocks reads or syncs of a file, by LD_PRELOAD, so that a test can look at the state meanwhile.
// Also makes reads fail, or slows down syncs.
//
//   GATE_FILE     the end of the file's path
//   GATE_AFTER    the number of reads per descriptor that succeed; later reads ...
//   GATE_CLOSED   ... wait while this file exists
//   GATE_ERROR    ... or fail with this errno while it exists
//   GATE_WAITING  syncs create this file, then wait while GATE_CLOSED exists
//   GATE_SYNC     the minimum duration of each sync, in microseconds

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
