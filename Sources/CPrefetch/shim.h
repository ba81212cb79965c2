// Asks the processor to fetch memory before it is needed. Swift has no function for this.
#pragma once

static inline void countdownd_prefetch(const void *address) { __builtin_prefetch(address); }
