// Injects faults, by LD_PRELOAD: counts the calls that change files below a directory, and at the
// nth kills the process or makes the call fail. Also keeps the files as after a power failure.
//
//   FAULTS_DIRECTORY  the watched directory; must be absolute and without symbolic links
//   FAULTS_AT         the number of the call that the action is for, from 1 (0, the default: none)
//   FAULTS_ACTION     kill-before, kill-after: SIGKILL before or after the call
//                     tear: half of a write, then SIGKILL; like kill-before for other calls
//                     short: half of a write, which returns the shorter length
//                     ENOSPC, EIO, EROFS: the call fails without effect; later calls succeed.
//                     With ENOSPC only calls that need room fail: no syncs, no unlink, and no
//                     writes within a file
//                     stall: with FAULTS_WHILE, calls wait while that file exists
//   FAULTS_WHILE      with these errors: all calls from FAULTS_AT on fail while this file exists
//   FAULTS_FILE       with FAULTS_WHILE: only calls for these file names fail: state-1.db*,numbers
//   FAULTS_LOG        a file that gets a line for each call: its number, function and path
//   FAULTS_SHADOW     a directory elsewhere for the shadow; see below
//
// The shadow has the files as a power failure leaves them. It begins with the files that exist when
// the first process begins. A sync of a file copies its content to the shadow; a sync of the
// directory copies its names. So reserved room is lost unless the file is synced after that. A file
// is identified by inode and time of birth, as its name may go to another file. Its content is in
// SHADOW/INODE-BIRTH; each line of SHADOW/names has such a name and the file's own name.
//
// Counted calls: write, pwrite, writev, pwritev, ftruncate, truncate, fallocate, fsync, fdatasync,
// rename, unlink. Writes through stdio or mmap are not seen.
//
// The log also gets `0 close-again DESCRIPTOR` when the process closes a descriptor that is not open.

#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum action { NOTHING, KILL_BEFORE, KILL_AFTER, TEAR, SHORT, FAIL, STALL };

static struct {
  char directory[PATH_MAX];
  size_t length;
  long at;
  enum action action;
  int error;
  const char *until;
  const char *file;
  const char *shadow;
  int log;
} settings = {.log = -1};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long calls;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static void begin_shadow(void);

__attribute__((constructor)) static void begin(void) {
  const char *directory = getenv("FAULTS_DIRECTORY");
  if (!directory) return;
  snprintf(settings.directory, sizeof settings.directory, "%s/", directory);
  settings.length = strlen(settings.directory);
  const char *at = getenv("FAULTS_AT"), *action = getenv("FAULTS_ACTION");
  settings.at = at ? atol(at) : 0;
  if (!action) action = "";
  if (!strcmp(action, "kill-before")) settings.action = KILL_BEFORE;
  else if (!strcmp(action, "kill-after")) settings.action = KILL_AFTER;
  else if (!strcmp(action, "tear")) settings.action = TEAR;
  else if (!strcmp(action, "short")) settings.action = SHORT;
  else if (!strcmp(action, "stall")) settings.action = STALL;
  else if (!strcmp(action, "ENOSPC")) settings.action = FAIL, settings.error = ENOSPC;
  else if (!strcmp(action, "EIO")) settings.action = FAIL, settings.error = EIO;
  else if (!strcmp(action, "EROFS")) settings.action = FAIL, settings.error = EROFS;
  else if (*action) {
    fprintf(stderr, "faults: there is no action %s\n", action);
    _exit(125);
  }
  settings.until = getenv("FAULTS_WHILE");
  settings.file = getenv("FAULTS_FILE");
  settings.shadow = getenv("FAULTS_SHADOW");
  const char *log = getenv("FAULTS_LOG");
  if (log) settings.log = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (settings.shadow) begin_shadow();
}

static void die(void) {
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

// Returns whether a path is the watched directory or below it.
static int is_watched(const char *path) {
  return settings.length && (!strncmp(path, settings.directory, settings.length) ||
      (strlen(path) == settings.length - 1 && !strncmp(path, settings.directory, settings.length - 1)));
}

static int path_of(int descriptor, char *path) {
  char link[64];
  if (!settings.length) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  ssize_t count = readlink(link, path, PATH_MAX - 1);
  if (count < 0) return 0;
  path[count] = 0;
  return is_watched(path);
}

// Makes a path absolute, and returns whether it is watched. Only its last part may be missing.
static int resolve(const char *name, char *path) {
  char copy[PATH_MAX], parent[PATH_MAX];
  if (!settings.length) return 0;
  snprintf(copy, sizeof copy, "%s", name);
  char *slash = strrchr(copy, '/');
  const char *last = slash ? slash + 1 : copy;
  if (slash) *slash = 0;
  if (!realpath(slash ? (*copy ? copy : "/") : ".", parent)) return 0;
  if ((size_t)snprintf(path, PATH_MAX, "%s/%s", parent, last) >= PATH_MAX) return 0;
  return is_watched(path);
}

// Returns whether lasting errors are for this file.
static int is_meant(const char *path) {
  const char *name = strrchr(path, '/') + 1;
  if (!settings.file) return 1;
  for (const char *meant = settings.file; *meant; meant += *meant == ',') {
    size_t length = strcspn(meant, ",");
    if (meant[length - 1] == '*' ? !strncmp(name, meant, length - 1)
                                 : !strncmp(name, meant, length) && !name[length]) return 1;
    meant += length;
  }
  return 0;
}

// Returns whether a file must grow to end at `end`.
static int grows(int descriptor, off64_t end) {
  struct stat file;
  return fstat(descriptor, &file) || end > file.st_size;
}

// Counts a call and returns the action for it. Holds the mutex until `leave`, so calls are ordered.
static enum action enter(const char *call, const char *path, int needs_room) {
  int saved = errno;
  if (settings.action == STALL && settings.until && is_meant(path))
    while (!access(settings.until, F_OK)) usleep(10000);
  pthread_mutex_lock(&mutex);
  calls++;
  if (settings.log >= 0) dprintf(settings.log, "%ld %s %s\n", calls, call, path);
  enum action action = calls == settings.at && settings.action != STALL ? settings.action : NOTHING;
  if (settings.until && settings.action == FAIL)
    action = calls >= settings.at && !access(settings.until, F_OK) ? FAIL : NOTHING;
  if (action == FAIL && settings.error == ENOSPC && !needs_room) action = NOTHING;
  if (action == FAIL && settings.until && !is_meant(path)) action = NOTHING;
  if (action == KILL_BEFORE) die();
  errno = saved;
  return action;
}

static void leave(enum action action) {
  if (action == KILL_AFTER) die();
  pthread_mutex_unlock(&mutex);
}

// The shadow.

static int shadow_name(const struct statx *file, char *name) {
  return snprintf(name, PATH_MAX, "%s/%llu-%lld.%09u", settings.shadow,
      (unsigned long long)file->stx_ino, (long long)file->stx_btime.tv_sec, file->stx_btime.tv_nsec);
}

static void complain(const char *what) {
  dprintf(2, "faults: %s: %s\n", what, strerror(errno));
  _exit(125);
}

// Copies the whole file, or nothing if the process is killed meanwhile.
static void copy_file(int from, const char *name) {
  char buffer[1 << 16], path[64], to[PATH_MAX];
  snprintf(to, sizeof to, "%s/copy", settings.shadow);
  // The descriptor may be open for writing only.
  snprintf(path, sizeof path, "/proc/self/fd/%d", from);
  int in = open(path, O_RDONLY | O_CLOEXEC), out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (in < 0 || out < 0) complain("cannot copy to the shadow");
  ssize_t count;
  while ((count = read(in, buffer, sizeof buffer)) > 0)
    if (REAL(write)(out, buffer, count) != count) complain("cannot write the shadow");
  if (count < 0) complain("cannot read for the shadow");
  close(in);
  close(out);
  if (REAL(rename)(to, name)) complain("cannot write the shadow");
}

// Lists the regular files in the directory, without those in subdirectories.
static void list_names(FILE *names, const char *path) {
  DIR *directory = opendir(path);
  if (!directory) complain("cannot list for the shadow");
  for (struct dirent *entry; (entry = readdir(directory));) {
    struct statx file;
    char name[PATH_MAX];
    if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
    if (statx(dirfd(directory), entry->d_name, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS | STATX_BTIME, &file)) continue;
    if (!S_ISREG(file.stx_mode)) continue;
    shadow_name(&file, name);
    fprintf(names, "%s %s\n", strrchr(name, '/') + 1, entry->d_name);
  }
  closedir(directory);
}

static void copy_names(const char *path) {
  char name[PATH_MAX], new[PATH_MAX];
  snprintf(name, sizeof name, "%s/names", settings.shadow);
  snprintf(new, sizeof new, "%s/names.new", settings.shadow);
  FILE *names = fopen(new, "w");
  if (!names) complain("cannot write the shadow");
  list_names(names, path);
  if (fclose(names) || REAL(rename)(new, name)) complain("cannot write the shadow");
}

static void synced(int descriptor, const char *path) {
  int saved = errno;
  struct statx file;
  char name[PATH_MAX];
  if (!settings.shadow) return;
  if (statx(descriptor, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, &file)) complain("statx");
  if (S_ISREG(file.stx_mode)) {
    shadow_name(&file, name);
    copy_file(descriptor, name);
  } else if (S_ISDIR(file.stx_mode) && strlen(path) == settings.length - 1) {
    copy_names(path);
  }
  errno = saved;
}

// Copies the files that exist when the first process begins.
static void begin_shadow(void) {
  char name[PATH_MAX];
  struct statx file;
  snprintf(name, sizeof name, "%s/names", settings.shadow);
  DIR *directory = access(name, F_OK) ? opendir(settings.directory) : NULL;
  if (!directory) return;
  for (struct dirent *entry; (entry = readdir(directory));) {
    int descriptor = openat(dirfd(directory), entry->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (descriptor < 0 || statx(descriptor, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, &file))
      complain("cannot copy to the shadow");
    if (S_ISREG(file.stx_mode)) {
      shadow_name(&file, name);
      copy_file(descriptor, name);
    }
    close(descriptor);
  }
  closedir(directory);
  copy_names(settings.directory);
}

// The intercepted calls. A torn or short write writes half of its bytes.

#define WATCHED_BY_DESCRIPTOR(call, descriptor, needs_room, fallback) \
  char path[PATH_MAX];                                                \
  if (!path_of(descriptor, path)) return fallback;                    \
  enum action action = enter(call, path, needs_room);                 \
  if (action == FAIL) {                                               \
    leave(action);                                                    \
    errno = settings.error;                                           \
    return -1;                                                        \
  }

static ssize_t do_write(const char *call, int descriptor, const void *bytes, size_t count, off64_t offset) {
  WATCHED_BY_DESCRIPTOR(call, descriptor, offset < 0 || grows(descriptor, offset + (off64_t)count),
      offset < 0 ? REAL(write)(descriptor, bytes, count) : REAL(pwrite64)(descriptor, bytes, count, offset))
  if (action == TEAR || action == SHORT) count = (count + 1) / 2;
  ssize_t done = offset < 0 ? REAL(write)(descriptor, bytes, count) : REAL(pwrite64)(descriptor, bytes, count, offset);
  if (action == TEAR) die();
  leave(action);
  return done;
}

ssize_t write(int descriptor, const void *bytes, size_t count) {
  return do_write("write", descriptor, bytes, count, -1);
}
ssize_t pwrite64(int descriptor, const void *bytes, size_t count, off64_t offset) {
  return do_write("pwrite", descriptor, bytes, count, offset);
}
ssize_t pwrite(int descriptor, const void *bytes, size_t count, off_t offset) {
  return do_write("pwrite", descriptor, bytes, count, offset);
}

#define TORN_IS_KILLED() if (action == TEAR) die()

ssize_t writev(int descriptor, const struct iovec *parts, int count) {
  WATCHED_BY_DESCRIPTOR("writev", descriptor, 1, REAL(writev)(descriptor, parts, count))
  TORN_IS_KILLED();
  ssize_t done = REAL(writev)(descriptor, parts, count);
  leave(action);
  return done;
}
ssize_t pwritev(int descriptor, const struct iovec *parts, int count, off_t offset) {
  WATCHED_BY_DESCRIPTOR("pwritev", descriptor, 1, REAL(pwritev)(descriptor, parts, count, offset))
  TORN_IS_KILLED();
  ssize_t done = REAL(pwritev)(descriptor, parts, count, offset);
  leave(action);
  return done;
}

#define CALL_WITH_DESCRIPTOR(function, name, needs_room, parameters, arguments, after) \
  int function parameters {                                                            \
    WATCHED_BY_DESCRIPTOR(name, descriptor, needs_room, REAL(function) arguments)      \
    TORN_IS_KILLED();                                                                  \
    int result = REAL(function) arguments;                                             \
    after;                                                                             \
    leave(action);                                                                     \
    return result;                                                                     \
  }
#define TRUNCATE(function, type)                                         \
  CALL_WITH_DESCRIPTOR(function, "ftruncate", grows(descriptor, length), \
      (int descriptor, type length), (descriptor, length), )
#define ALLOCATE(function, type)                                                \
  CALL_WITH_DESCRIPTOR(function, "fallocate", grows(descriptor, from + length), \
      (int descriptor, int mode, type from, type length), (descriptor, mode, from, length), )
#define SYNC(function) \
  CALL_WITH_DESCRIPTOR(function, #function, 0, (int descriptor), (descriptor), if (!result) synced(descriptor, path))

TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)
ALLOCATE(fallocate, off_t)
ALLOCATE(fallocate64, off64_t)
SYNC(fsync)
SYNC(fdatasync)

int close(int descriptor) {
  int result = REAL(close)(descriptor), saved = errno;
  if (result && errno == EBADF && descriptor >= 0 && settings.log >= 0)
    dprintf(settings.log, "0 close-again %d\n", descriptor);
  errno = saved;
  return result;
}

#define WATCHED_BY_NAME(call, name, needs_room, fallback) \
  char path[PATH_MAX];                                    \
  if (!resolve(name, path)) return fallback;              \
  enum action action = enter(call, path, needs_room);     \
  if (action == FAIL) {                                   \
    leave(action);                                        \
    errno = settings.error;                               \
    return -1;                                            \
  }                                                       \
  TORN_IS_KILLED();

int rename(const char *from, const char *to) {
  WATCHED_BY_NAME("rename", to, 1, REAL(rename)(from, to))
  int result = REAL(rename)(from, to);
  leave(action);
  return result;
}
int unlink(const char *name) {
  WATCHED_BY_NAME("unlink", name, 0, REAL(unlink)(name))
  int result = REAL(unlink)(name);
  leave(action);
  return result;
}
int truncate(const char *name, off_t length) {
  WATCHED_BY_NAME("truncate", name, 1, REAL(truncate)(name, length))
  int result = REAL(truncate)(name, length);
  leave(action);
  return result;
}
