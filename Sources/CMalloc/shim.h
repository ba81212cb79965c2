// What Swift's module of the C library leaves out of looking after memory.
#pragma once
#include <malloc.h>
#include <sys/prctl.h>

// Has the process receive memory in small pages, also where huge ones are asked for.
static inline int countdownd_avoid_huge_pages(void) {
  return prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
}
