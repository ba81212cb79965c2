// malloc_trim, which Swift's Glibc module does not have.
#include <malloc.h>
