// What the event loop needs that Swift's module of the C library leaves out.
#pragma once
#include <sys/epoll.h>
#include <sys/eventfd.h>

struct sockaddr;

// A GNU extension. The peer of a Unix socket has no address worth having.
static inline int countdownd_accept(int descriptor, int flags) {
  extern int accept4(int, struct sockaddr *, unsigned *, int);
  return accept4(descriptor, 0, 0, flags);
}
