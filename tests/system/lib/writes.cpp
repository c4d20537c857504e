// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "writes.hpp"

#include <atomic>
#include <cstdarg>
#include <cstdint>
#include <cstring>
#include <dlfcn.h>
#include <rdma/ib_user_verbs.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

std::atomic<unsigned> num_rung{0};

/// A write() to a uverbs file is a doorbell if it has the length and command of POST_SEND without a
/// WR.
void count_if_doorbell(const void *bytes, std::size_t count) {
    constexpr std::size_t doorbell_size = sizeof(ib_uverbs_cmd_hdr) + sizeof(ib_uverbs_post_send);
    std::uint32_t command = 0;
    if (count == doorbell_size)
        std::memcpy(&command, bytes, sizeof command);
    if (command != IB_USER_VERBS_CMD_POST_SEND)
        return;
    ++num_rung;
    if (verbs_test::during_doorbell)
        verbs_test::during_doorbell();
}

} // namespace

std::function<void()> verbs_test::during_doorbell;

unsigned verbs_test::num_doorbells() noexcept {
    return num_rung;
}

/// Replaces the C library's function in this program. It passes on as many arguments as a system
/// call can have; the kernel does not read those that the caller has not passed.
extern "C" long syscall(long number, ...) noexcept {
    static const auto real = reinterpret_cast<long (*)(long, ...)>(dlsym(RTLD_NEXT, "syscall"));
    long arguments[6];
    std::va_list list;
    va_start(list, number);
    for (long &each : arguments)
        each = va_arg(list, long);
    va_end(list);
    if (number == SYS_write)
        count_if_doorbell(reinterpret_cast<const void *>(arguments[1]),
                          static_cast<std::size_t>(arguments[2]));
    return real(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
                arguments[5]);
}

extern "C" ssize_t write(int fd, const void *bytes, size_t count) {
    return syscall(SYS_write, fd, bytes, count);
}
