// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

namespace coherdma::cache {

/// The kernel's struct sigaction, as rt_sigaction takes it; the C library's has another order. Some
/// architectures have no restorer. tests/unit/cache/kernel_action_layout.cpp compares.
struct kernel_action {
    void (*handler)(int);
    unsigned long flags;
#if !defined(__riscv) && !defined(__loongarch__)
    void (*restorer)(int);
#endif
    unsigned long mask;
};

} // namespace coherdma::cache
