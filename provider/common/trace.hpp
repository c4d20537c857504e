// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// USDT probes of the USDT provider "coherdma" for perf, bpftrace and gdb. A probe that is not
// traced is a nop. sys/sdt.h is needed at compile time only.
#pragma once

#include <cstdint>

#ifdef COHERDMA_PROBES
#    include <sys/sdt.h>
#else
#    define DTRACE_PROBE2(provider, name, arg0, arg1)                                              \
        (static_cast<void>(arg0), static_cast<void>(arg1))
#endif

namespace coherdma::provider::trace {

/// A list or batch of send WRs was posted. error is 0 or an errno.
inline void post_send(std::uint32_t qp_num, int error) noexcept {
    DTRACE_PROBE2(coherdma, post_send, qp_num, error);
}
/// A list of receive WRs was posted to a QP.
inline void post_receive(std::uint32_t qp_num, int error) noexcept {
    DTRACE_PROBE2(coherdma, post_receive, qp_num, error);
}
/// The system call of a doorbell returned.
inline void doorbell(std::uint32_t qp_num, int error) noexcept {
    DTRACE_PROBE2(coherdma, doorbell, qp_num, error);
}
/// A CQ was polled; count is the number of WCs.
inline void poll(std::uint32_t cq_handle, int count) noexcept {
    DTRACE_PROBE2(coherdma, poll, cq_handle, count);
}

} // namespace coherdma::provider::trace
