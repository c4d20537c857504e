// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Places for tracers (perf, bpftrace, gdb): "coherdma" and the name here. Each is an instruction
// that does nothing until somebody traces it. Needs sys/sdt.h to compile, nothing to run.
#pragma once

#include <cstdint>

#ifdef COHERDMA_PROBES
#    include <sys/sdt.h>
#else
#    define DTRACE_PROBE2(provider, name, first, second)                                           \
        (static_cast<void>(first), static_cast<void>(second))
#endif

namespace coherdma::provider::probe {

/// A list of requests or a batch was posted on a pair; 0 or an errno.
inline void post_send(std::uint32_t pair, int error) noexcept {
    DTRACE_PROBE2(coherdma, post_send, pair, error);
}
/// The same of receives.
inline void post_receive(std::uint32_t pair, int error) noexcept {
    DTRACE_PROBE2(coherdma, post_receive, pair, error);
}
/// The kernel was called for a pair.
inline void doorbell(std::uint32_t pair, int error) noexcept {
    DTRACE_PROBE2(coherdma, doorbell, pair, error);
}
/// So many completions came out of a queue.
inline void poll(std::uint32_t queue, int count) noexcept {
    DTRACE_PROBE2(coherdma, poll, queue, count);
}

} // namespace coherdma::provider::probe
