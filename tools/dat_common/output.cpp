// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "dat_common/output.hpp"

#include <fcntl.h>
#include <unistd.h>

namespace tools::dat {
namespace {

std::FILE *redirect_stdout() {
    const int fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    std::FILE *const out = fd < 0 ? nullptr : fdopen(fd, "w");
    if (!out || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        return nullptr;
    std::setvbuf(out, nullptr, _IOLBF, BUFSIZ);
    return out;
}

} // namespace

std::FILE *reserve_stdout() {
    static std::FILE *const out = redirect_stdout();
    return out;
}

} // namespace tools::dat
