// Swift's module of the C library leaves these out.
#pragma once
#include <malloc.h>
#include <sys/epoll.h>

struct sockaddr;
extern int accept4(int descriptor, struct sockaddr *address, unsigned *length, int flags);
