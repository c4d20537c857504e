// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#define DAT_THREADSAFE DAT_TRUE
#define dat2_calls dat2_calls_in_cxx
#include "calls.c"
