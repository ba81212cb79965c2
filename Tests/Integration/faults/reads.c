// Makes one read of a file fail, by LD_PRELOAD.
//
//   READS_FILE    the end of the file's path
//   READS_FAIL    the number of the read that fails with EIO, from 1; all others succeed
//   READS_FAILED  a file that is created when the read fails

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_long reads;

static int is_meant(int descriptor) {
  const char *name = getenv("READS_FILE");
  char link[64], path[4096];
  if (!name) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  ssize_t length = readlink(link, path, sizeof path), ending = (ssize_t)strlen(name);
  return length >= ending && !memcmp(path + length - ending, name, (size_t)ending);
}

ssize_t pread64(int descriptor, void *bytes, size_t count, off_t offset) {
  const char *which = getenv("READS_FAIL"), *failed = getenv("READS_FAILED");
  if (which && failed && is_meant(descriptor) && ++reads == atol(which)) {
    close(open(failed, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    errno = EIO;
    return -1;
  }
  return syscall(SYS_pread64, descriptor, bytes, count, offset);
}

ssize_t pread(int descriptor, void *bytes, size_t count, off_t offset) {
  return pread64(descriptor, bytes, count, offset);
}
