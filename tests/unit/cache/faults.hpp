// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Functions that fault, for runs_without_fault(), and a signal handler that counts.
#pragma once

#include <atomic>
#include <csignal>

inline void execute_illegal(void *) {
#if defined(__x86_64__)
    asm volatile("ud2");
#elif defined(__aarch64__)
    asm volatile("udf #0");
#elif defined(__riscv)
    asm volatile("unimp");
#elif defined(__powerpc64__)
    asm volatile(".long 0");
#elif defined(__s390x__)
    asm volatile(".short 0");
#else
    raise(SIGILL);
#endif
}

inline void read_byte(void *addr) {
    static_cast<void>(*static_cast<const volatile char *>(addr));
}

inline std::atomic<int> handled_signals{0};
inline void count_signal(int) noexcept {
    ++handled_signals;
}
