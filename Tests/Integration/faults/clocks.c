// Simulates the machine's clocks, by LD_PRELOAD: tests must not set, suspend or stop the real ones.
//
//   CLOCKS_FILE     a mapped file with the numbers below, which a test changes at run time
//   CLOCKS_BOOT_ID  a file that is opened in place of /proc/sys/kernel/random/boot_id
//
// Moves CLOCK_BOOTTIME and CLOCK_REALTIME, and their timers as the kernel does: a timerfd that is
// set to an absolute time fires at once when its clock moves past that time.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

struct numbers {
  int64_t boot;    // added to CLOCK_BOOTTIME, in nanoseconds
  int64_t wall;    // added to CLOCK_REALTIME
  int64_t stands;  // if not 0, CLOCK_BOOTTIME is frozen at this time, and so are its timers
  int64_t stalled; // if not 0, reading CLOCK_BOOTTIME hangs
};

enum { TIMERS = 1024 };

static volatile struct numbers *numbers;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct timer {
  int is_set, is_absolute, hears_of_steps;
  clockid_t clock;
  struct itimerspec value;
} timers[TIMERS];

static int64_t nanoseconds(struct timespec time) { return time.tv_sec * 1000000000LL + time.tv_nsec; }

static struct timespec timespec(int64_t nanoseconds) {
  return (struct timespec){nanoseconds / 1000000000, nanoseconds % 1000000000};
}

static void doze(void) { syscall(SYS_nanosleep, &(struct timespec){0, 1000000}, NULL); }

int clock_gettime(clockid_t clock, struct timespec *time) {
  int result = (int)syscall(SYS_clock_gettime, clock, time);
  if (result != 0 || !numbers) return result;
  if (clock == CLOCK_REALTIME) *time = timespec(nanoseconds(*time) + numbers->wall);
  if (clock == CLOCK_BOOTTIME) {
    while (numbers->stalled) doze();
    int64_t stands = numbers->stands;
    *time = timespec(stands ? stands : nanoseconds(*time) + numbers->boot);
  }
  return 0;
}

// redis-server calls this.
int gettimeofday(struct timeval *restrict time, void *restrict zone) {
  struct timespec now;
  if (zone) memset(zone, 0, sizeof(struct timezone));
  clock_gettime(CLOCK_REALTIME, &now);
  *time = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
  return 0;
}

// Sets the real timer so that it fires when the simulated clock reaches the timer's time.
static int program(int descriptor, int flags, struct itimerspec *old) {
  struct itimerspec value = timers[descriptor].value;
  int64_t at = nanoseconds(value.it_value);
  clockid_t clock = timers[descriptor].clock;
  if (timers[descriptor].is_absolute && at > 0) {
    at -= clock == CLOCK_BOOTTIME ? numbers->boot : clock == CLOCK_REALTIME ? numbers->wall : 0;
    value.it_value = timespec(at > 0 ? at : 1);
    if (clock == CLOCK_BOOTTIME && numbers->stands) value.it_value = timespec(0);
  }
  return (int)syscall(SYS_timerfd_settime, descriptor, flags, &value, old);
}

int timerfd_create(clockid_t clock, int flags) {
  int descriptor = (int)syscall(SYS_timerfd_create, clock, flags);
  if (descriptor >= 0 && descriptor < TIMERS) {
    pthread_mutex_lock(&mutex);
    timers[descriptor] = (struct timer){.clock = clock};
    pthread_mutex_unlock(&mutex);
  }
  return descriptor;
}

int timerfd_settime(int descriptor, int flags, const struct itimerspec *new, struct itimerspec *old) {
  if (!numbers || descriptor < 0 || descriptor >= TIMERS)
    return (int)syscall(SYS_timerfd_settime, descriptor, flags, new, old);
  pthread_mutex_lock(&mutex);
  timers[descriptor].value = *new;
  timers[descriptor].is_absolute = (flags & TFD_TIMER_ABSTIME) != 0;
  timers[descriptor].hears_of_steps = (flags & TFD_TIMER_CANCEL_ON_SET) != 0;
  timers[descriptor].is_set = 1;
  int result = program(descriptor, flags, old);
  pthread_mutex_unlock(&mutex);
  return result;
}

static void *watch(void *unused) {
  struct numbers known = *numbers;
  for (;; doze()) {
    struct numbers now = *numbers;
    if (!memcmp(&now, &known, sizeof now)) continue;
    int is_step = now.wall != known.wall;
    known = now;
    pthread_mutex_lock(&mutex);
    for (int descriptor = 0; descriptor < TIMERS; descriptor++) {
      if (!timers[descriptor].is_set || !timers[descriptor].is_absolute) continue;
      if (is_step && timers[descriptor].hears_of_steps) timers[descriptor].value = (struct itimerspec){.it_value = {0, 1}};
      program(descriptor, TFD_TIMER_ABSTIME, NULL);
    }
    pthread_mutex_unlock(&mutex);
  }
  return unused;
}

#define OPEN(function)                                                          \
  int function(const char *path, int flags, ...) {                              \
    va_list rest;                                                               \
    va_start(rest, flags);                                                      \
    mode_t mode = flags & O_CREAT ? va_arg(rest, int) : 0;                      \
    va_end(rest);                                                               \
    const char *other = getenv("CLOCKS_BOOT_ID");                               \
    if (other && !strcmp(path, "/proc/sys/kernel/random/boot_id")) path = other; \
    return ((__typeof__(&function))dlsym(RTLD_NEXT, #function))(path, flags, mode); \
  }
OPEN(open)
OPEN(open64)

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("CLOCKS_FILE");
  if (!path) return;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  void *mapped = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *numbers, PROT_READ, MAP_SHARED, file, 0);
  if (mapped == MAP_FAILED) {
    perror(path);
    _exit(125);
  }
  close(file);
  numbers = mapped;
  // The thread handles no signal: one that `main` blocks later must wait for its handler.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  if (pthread_create(&thread, NULL, watch, NULL) != 0) _exit(125);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}
