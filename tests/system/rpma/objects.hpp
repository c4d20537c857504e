// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What the test programs of librpma share: checked calls, memory, and how a peer learns of it.
#pragma once

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <fcntl.h>
#include <librpma.h>
#include <mutex>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

/// Ends the process at once: other threads may use what an exit would destroy.
[[noreturn]] inline void fail(const std::string &text) {
    std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, text.c_str());
    _exit(1);
}
/// ret: what a function of librpma has returned.
inline void check(int ret, const char *operation) {
    if (ret != 0)
        fail(std::string(operation) + ": " + rpma_err_2str(ret));
}

/// Calls a function that only one thread at a time may call, see librpma(7).
template <class function, class... argument>
int call_alone(const function &operation, argument... arguments) {
    static std::mutex lock;
    const std::lock_guard guard(lock);
    return operation(arguments...);
}

/// Registered memory, in pages that have nothing else: after ibv_fork_init() a child lacks them.
struct region {
    std::size_t size;
    char *memory;
    rpma_mr_local *mr = nullptr;

    region(rpma_peer *peer, std::size_t length)
        : size(length)
        , memory(static_cast<char *>(
              mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
        constexpr int ALL_BUT_PERSISTENT = RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_READ_DST |
                                           RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_WRITE_DST |
                                           RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY |
                                           RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV;
        if (memory == MAP_FAILED)
            fail("mmap");
        check(call_alone(rpma_mr_reg, peer, memory, size, ALL_BUT_PERSISTENT, &mr), "rpma_mr_reg");
    }
    region(const region &) = delete;
    ~region() {
        check(call_alone(rpma_mr_dereg, &mr), "rpma_mr_dereg");
        munmap(memory, size);
    }
};

/// The descriptor of a region, as private data for its peer.
struct description {
    std::array<char, 64> bytes = {};
    std::size_t size = 0;

    explicit description(const region &described) {
        check(rpma_mr_get_descriptor_size(described.mr, &size), "rpma_mr_get_descriptor_size");
        if (size > bytes.size())
            fail("a descriptor is longer than that of librpma 1.3");
        check(rpma_mr_get_descriptor(described.mr, bytes.data()), "rpma_mr_get_descriptor");
    }
    rpma_conn_private_data private_data() {
        return {.ptr = bytes.data(), .len = static_cast<std::uint8_t>(size)};
    }
};

inline rpma_peer *open_peer(const char *address, rpma_util_ibv_context_type type) {
    ibv_context *context = nullptr;
    rpma_peer *peer = nullptr;
    check(rpma_utils_get_ibv_context(address, type, &context), "rpma_utils_get_ibv_context");
    check(rpma_peer_new(context, &peer), "rpma_peer_new");
    return peer;
}

inline void make_nonblocking(int fd) {
    if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0)
        fail("fcntl");
}

/// The next completion of the connection, which must be a success.
inline ibv_wc wait_completion(rpma_cq *cq) {
    ibv_wc wc = {};
    int ret = 0;
    while ((ret = rpma_cq_get_wc(cq, 1, &wc, nullptr)) == RPMA_E_NO_COMPLETION)
        check(rpma_cq_wait(cq), "rpma_cq_wait");
    check(ret, "rpma_cq_get_wc");
    if (wc.status != IBV_WC_SUCCESS)
        fail(ibv_wc_status_str(wc.status));
    return wc;
}
