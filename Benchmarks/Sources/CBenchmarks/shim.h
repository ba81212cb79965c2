// Declarations that Swift's Glibc module lacks.
#pragma once
#include <malloc.h>
#include <sys/epoll.h>

struct sockaddr;
extern int accept4(int descriptor, struct sockaddr *address, unsigned *length, int flags);
