// Functions that the event loop needs and Swift's module of the C library leaves out.
#pragma once
#include <sys/epoll.h>
#include <sys/eventfd.h>

struct sockaddr;

// accept4 is a GNU extension. It is asked for no address: clients of Unix sockets rarely have one.
static inline int countdownd_accept(int descriptor, int flags) {
  extern int accept4(int, struct sockaddr *, unsigned *, int);
  return accept4(descriptor, 0, 0, flags);
}
