// Swift's module of the C library leaves it out.
#pragma once
#include <malloc.h>
