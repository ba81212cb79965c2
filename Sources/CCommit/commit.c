#include "CCommit.h"

// scripts/commit.sh writes it, for `make build`. In C, so that another commit compiles this alone.
#if __has_include("commit.h")
#include "commit.h"
#endif
#ifndef COUNTDOWND_COMMIT
#define COUNTDOWND_COMMIT ""
#endif

const char *countdownd_commit(void) { return COUNTDOWND_COMMIT; }
