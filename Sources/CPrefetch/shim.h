// Asks the processor for memory before it is needed, which Swift has no name for.
#pragma once

static inline void countdownd_prefetch(const void *address) { __builtin_prefetch(address); }
