/* The random numbers, clocks and workloads of the C programs. Each program defines the small
 * functions named under "The peer", and includes this file at its end.
 *
 * libuv and libev are linked dynamically and read the time with clock_gettime and gettimeofday.
 * The dynamic linker prefers the definitions below to the C library's, so the workload controls the
 * time that the libraries see, and they can do the same hour of timers as a structure without a
 * clock. Our epoll_wait reports no ready file without a system call, so that none is measured. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <malloc.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* ---- Clocks ---- */

static uint64_t made_up_ns = 1000000000ull * 1000000;

int clock_gettime(clockid_t clock, struct timespec *time) {
  (void)clock;
  time->tv_sec = made_up_ns / 1000000000;
  time->tv_nsec = made_up_ns % 1000000000;
  return 0;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
  (void)zone;
  time->tv_sec = made_up_ns / 1000000000;
  time->tv_usec = made_up_ns % 1000000000 / 1000;
  return 0;
}

int epoll_wait(int fd, struct epoll_event *events, int count, int timeout) {
  (void)fd, (void)events, (void)count, (void)timeout;
  return 0;
}

int epoll_pwait(int fd, struct epoll_event *events, int count, int timeout, const sigset_t *set) {
  (void)fd, (void)events, (void)count, (void)timeout, (void)set;
  return 0;
}

static void pass_ms(uint64_t ms) { made_up_ns += ms * 1000000; }

/* Returns the real time from the kernel in nanoseconds; called at each end of a phase. */
static uint64_t now(void) {
  struct timespec time;
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000ull + time.tv_nsec;
}

/* ---- Memory ---- */

/* Returns the resident memory in bytes, without memory that has been freed. */
static long resident_bytes(void) {
  malloc_trim(0);
  long total, resident = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (!file || fscanf(file, "%ld %ld", &total, &resident) != 2) exit(1);
  fclose(file);
  return resident * sysconf(_SC_PAGESIZE);
}

/* Returns the peak resident memory. getrusage would include the parent's peak. */
static long peak_kib(void) {
  char line[256];
  long kib = 0;
  FILE *file = fopen("/proc/self/status", "r");
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, "VmHWM: %ld", &kib) == 1) break;
  if (file) fclose(file);
  return kib;
}

/* ---- The random input of the workloads: see Mix.swift ---- */

#define HOUR 3600000ull

static uint64_t random_state, checksum;

static uint64_t splitmix64(void) {
  uint64_t z = random_state += 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

static uint32_t random_below(uint64_t bound) { return (splitmix64() >> 32) * bound >> 32; }

static uint32_t note(uint32_t value) {
  checksum = (checksum ^ value) * 0x100000001b3;
  return value;
}

static uint32_t n, *delays, *order, *picks;

static void make_mix(uint32_t count, uint64_t seed) {
  n = count;
  random_state = seed;
  checksum = 0xcbf29ce484222325;
  delays = malloc(n * sizeof *delays);
  order = malloc(n * sizeof *order);
  picks = malloc(2ull * n * sizeof *picks);
  for (uint32_t i = 0; i < n; i++) delays[i] = note(1 + random_below(HOUR));
  for (uint32_t i = 0; i < n; i++) order[i] = i;
  for (uint32_t i = n - 1; i > 0; i--) {
    uint32_t j = note(random_below((uint64_t)i + 1)), swapped = order[i];
    order[i] = order[j];
    order[j] = swapped;
  }
  for (uint64_t i = 0; i < 2ull * n; i++) picks[i] = note(random_below(n));
}

static void free_mix(void) {
  free(delays);
  free(order);
  free(picks);
}

/* ---- The peer: each file defines these before it includes this one ---- */

static const char peer_name[];
static const char *peer_version(void);
static const unsigned handle_size;
/* Creates a loop without timers, and `count` initialized handles in one array. */
static void peer_begin(uint32_t count);
static void peer_end(void);
/* Arms handle `i` for `ms` after the loop's cached time. */
static void arm(uint32_t i, uint32_t ms);
static void disarm(uint32_t i);
/* Moves handle `i` to a minute after the loop's cached time. */
static void rearm_minute(uint32_t i);
/* Runs one iteration of the loop without waiting: updates its time and fires all due timers. */
static void turn(void);

/* ---- Workloads: see WheelWorkloads.swift ---- */

static const char *workload;
static bool quiet;

static void report(const char *phase, int64_t ns, uint64_t operations, double bytes) {
  if (quiet) return;
  printf("%s\t%s\t%s\t%u\t%s\t%.1f\t%ld\t", peer_name, peer_version(), workload, n, phase,
         (double)ns / operations, peak_kib());
  if (bytes > 0) printf("%.1f", bytes);
  else printf("-");
  printf("\t%llx\n", (unsigned long long)checksum);
}

static void check(bool holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "%s: %s\n", peer_name, what);
  exit(1);
}

static uint64_t steps_for(uint64_t operations) {
  uint64_t steps = operations / 100;
  return steps < 1 ? 1 : steps > 1000 ? 1000 : steps;
}

static void run_cancel(void) {
  long before = resident_bytes();
  uint64_t start = now();
  for (uint32_t i = 0; i < n; i++) arm(i, delays[i]);
  uint64_t armed = now();
  double bytes = handle_size + (double)(resident_bytes() - before) / n;
  uint64_t middle = now();
  for (uint32_t i = 0; i < n; i++) disarm(order[i]);
  uint64_t end = now();
  for (uint32_t i = 0; i < n; i++) arm(i, delays[i]);
  uint64_t armed_again = now();
  report("schedule", armed - start, n, bytes);
  report("cancel", end - middle, n, 0);
  report("again", armed_again - end, n, 0);
}

/* Advances the time in steps, then in extra milliseconds for timers that rounding has delayed. */
static void run_expire(uint64_t steps, uint64_t span) {
  uint64_t start = now(), at = 0;
  for (uint32_t i = 0; i < n; i++) arm(i, span == HOUR ? delays[i] : span);
  uint64_t armed = now();
  for (uint64_t step = 1; step <= steps; step++) {
    uint64_t next = span * step / steps;
    pass_ms(next - at);
    at = next;
    turn();
  }
  for (int extra = 0; fired < n && extra < 100; extra++) {
    pass_ms(1);
    turn();
  }
  uint64_t end = now();
  check(fired == n, "not all timers fired");
  report("schedule", armed - start, n, 0);
  report("expire", end - armed, n, 0);
}

static void run_reschedule(void) {
  const uint64_t half = 29000;
  uint64_t steps = steps_for(n), at = 0, done = 0;
  for (uint64_t step = 1; step <= steps; step++) {
    for (uint64_t goal = n * step / steps; done < goal; done++) rearm_minute(done);
    uint64_t next = half * step / steps;
    pass_ms(next - at);
    at = next;
    turn();
  }
  steps = steps_for(2ull * n);
  at = done = 0;
  uint64_t start = now();
  for (uint64_t step = 1; step <= steps; step++) {
    for (uint64_t goal = 2ull * n * step / steps; done < goal; done++) rearm_minute(picks[done]);
    uint64_t next = half * step / steps;
    pass_ms(next - at);
    at = next;
    turn();
  }
  uint64_t end = now();
  check(fired == 0, "connections timed out");
  report("reschedule", end - start, 2ull * n, 0);
}

#ifdef HAS_NEXT
static int64_t changes(bool asking) {
  uint64_t start = now();
  volatile int64_t last;
  for (uint32_t i = 0; i < n; i++) {
    arm(i, delays[i]);
    if (asking) last = next_ms();
  }
  for (uint32_t i = 0; i < n; i++) {
    disarm(order[i]);
    if (asking) last = next_ms();
  }
  (void)last;
  return now() - start;
}

static void run_next(void) {
  int64_t without = changes(false);
  peer_end();
  peer_begin(n);
  int64_t with = changes(true);
  report("next", with - without, 2ull * n, 0);
}
#else
static void run_next(void) {}
#endif

static void run(uint32_t count, uint64_t seed, bool is_warm_up) {
  quiet = is_warm_up;
  make_mix(count, seed);
  peer_begin(count);
  turn();
  fired = 0;
  if (!strcmp(workload, "cancel")) {
    run_cancel();
  } else if (!strcmp(workload, "expire")) {
    run_expire(1, HOUR);
  } else if (!strcmp(workload, "hour")) {
    run_expire(steps_for(n), HOUR);
  } else if (!strcmp(workload, "same")) {
    run_expire(1, 60000);
  } else if (!strcmp(workload, "reschedule")) {
    run_reschedule();
  } else if (!strcmp(workload, "next")) {
    run_next();
  } else {
    check(false, "no such workload");
  }
  peer_end();
  free_mix();
  malloc_trim(0);
}

int main(int argc, char **argv) {
  if (argc != 5) {
    fprintf(stderr, "usage: %s WORKLOAD N SEED ROUND\n", argv[0]);
    return 2;
  }
  workload = argv[1];
  uint32_t count = strtoul(argv[2], NULL, 10);
  uint64_t seed = strtoull(argv[3], NULL, 10) + strtoull(argv[4], NULL, 10);
  run(count < 10000 ? count : 10000, seed, true);
  run(count, seed, false);
  return 0;
}
