// Memory management functions that Swift's module of the C library leaves out.
#pragma once
#include <malloc.h>
#include <sys/prctl.h>

// Gives the process small pages only, even where it asks for huge ones.
static inline int countdownd_avoid_huge_pages(void) {
  return prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
}
