// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "writes.hpp"

#include <atomic>
#include <cstdint>
#include <cstring>
#include <rdma/ib_user_verbs.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {
std::atomic<unsigned> rung{0};
}

std::function<void()> carry::amid_doorbell;

unsigned carry::doorbells() noexcept {
    return rung;
}

extern "C" ssize_t write(int fd, const void *bytes, size_t count) {
    std::uint32_t command = 0;
    if (count == 32)
        std::memcpy(&command, bytes, sizeof command);
    if (command == IB_USER_VERBS_CMD_POST_SEND) {
        ++rung;
        if (carry::amid_doorbell)
            carry::amid_doorbell();
    }
    return syscall(SYS_write, fd, bytes, count);
}
