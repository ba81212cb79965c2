// Swift's module of the C library leaves it out.
#pragma once
#include <sys/epoll.h>

// A GNU extension, which it leaves out as well.
struct sockaddr;
extern int accept4(int descriptor, struct sockaddr *address, unsigned *length, int flags);
