#pragma once

// The commit that the program was built from; empty for a release, and where nobody has named one.
const char *countdownd_commit(void);
