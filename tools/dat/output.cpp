// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "dat/output.hpp"

#include <fcntl.h>
#include <unistd.h>

namespace tools::dat {
namespace {

std::FILE *separate() {
    const int ours = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    std::FILE *const answer = ours < 0 ? nullptr : fdopen(ours, "w");
    if (!answer || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        return nullptr;
    std::setvbuf(answer, nullptr, _IOLBF, BUFSIZ);
    return answer;
}

} // namespace

std::FILE *own_output() {
    static std::FILE *const answer = separate();
    return answer;
}

} // namespace tools::dat
