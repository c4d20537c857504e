// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// gettimeofday() for perftest, which calls it only to calibrate the cycle counter: see
// retry_perftest in known_faults.bash. This clock is the cycle counter itself, so other work of the
// machine does not make the calibration fail. It runs faster than real time, so that the
// calibration is short; nothing depends on the times that perftest prints.

#include <sys/time.h>

int gettimeofday(struct timeval *restrict tv, void *restrict tz) {
    const unsigned long long cycles_per_us = 100, us_per_s = 1000000;
    const unsigned long long now = __builtin_ia32_rdtsc() / cycles_per_us;
    (void)tz;
    tv->tv_sec = (time_t)(now / us_per_s);
    tv->tv_usec = (suseconds_t)(now % us_per_s);
    return 0;
}
