// Swift's module of the C library leaves out timerfd.
#pragma once
#include <sys/timerfd.h>
