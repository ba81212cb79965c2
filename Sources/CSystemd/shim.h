#pragma once
// The daemon's log says where a message comes from, if it does at all.
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <dlfcn.h>
#include <stddef.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-journal.h>

// A GNU extension, which Swift's module of the C library leaves out.
extern int close_range(unsigned first, unsigned last, int flags);

// Gives the calling thread a descriptor table of its own, without the descriptors from `first` on.
static inline int countdownd_unshare_descriptors(unsigned first) {
  return close_range(first, ~0u, 1 << 1 /* CLOSE_RANGE_UNSHARE of linux/close_range.h */);
}

// libsystemd is loaded only if systemd has started the process. It brings six more libraries, which
// most commands, and hosts without systemd, do without.
// These are the functions in use, with the types of its headers.
#define COUNTDOWND_SYSTEMD(f)                                                            \
  f(sd_is_socket_unix) f(sd_journal_sendv) f(sd_listen_fds_with_names) f(sd_notify)      \
  f(sd_watchdog_enabled)

struct countdownd_systemd {
#define COUNTDOWND_MEMBER(name) __typeof__(name) *name;
  COUNTDOWND_SYSTEMD(COUNTDOWND_MEMBER)
#undef COUNTDOWND_MEMBER
};

// Loads libsystemd; NULL if it is not installed.
static inline const struct countdownd_systemd *countdownd_systemd_load(void) {
  static struct countdownd_systemd functions;
  void *library = dlopen("libsystemd.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return NULL;
#define COUNTDOWND_FIND(name)                                                      \
  functions.name = (__typeof__(functions.name))dlsym(library, #name);              \
  if (functions.name == NULL) return NULL;
  COUNTDOWND_SYSTEMD(COUNTDOWND_FIND)
#undef COUNTDOWND_FIND
  return &functions;
}
