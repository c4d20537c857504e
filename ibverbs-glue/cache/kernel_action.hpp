// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

namespace coherdma::cache {

/// What the kernel's rt_sigaction takes; the C library's struct has another order. The kernels of
/// some CPUs know no restorer, and so have no place for it. tests/unit/layout.cpp compares.
struct kernel_action {
    void (*handler)(int);
    unsigned long flags;
#if !defined(__riscv) && !defined(__loongarch__)
    void (*restorer)(int);
#endif
    unsigned long mask;
};

} // namespace coherdma::cache
