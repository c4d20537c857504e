// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Whether memory can be read is best asked by having the kernel read it: a byte of each page, into
// a pipe. That needs no permission, sees PROT_NONE, and disturbs no handler of signals.

#include "memory.hpp"
#include "error.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

namespace coherdma::api {
namespace {

// The bytes of one call fit into the smallest pipe, so that none of them waits for a reader.
constexpr std::size_t AT_ONCE = 256;

class reader {
  public:
    reader() noexcept {
        if (pipe2(ends.data(), O_CLOEXEC) != 0)
            problem = errno;
    }
    ~reader() {
        for (const int each : ends) {
            if (each >= 0)
                close(each);
        }
    }
    reader(const reader &) = delete;
    reader &operator=(const reader &) = delete;

    int add(std::uintptr_t page) noexcept {
        bytes[count++] = {reinterpret_cast<void *>(page), 1};
        return count == AT_ONCE ? finish() : 0;
    }

    // All at once; who is missing is asked one by one, for the kernel does not say.
    int finish() noexcept {
        if (problem == 0 && count != 0)
            problem = copy(bytes.data(), count);
        for (std::size_t place = 0; place < count && problem == EFAULT; ++place) {
            if (copy(&bytes[place], 1) == EFAULT)
                return fail(EFAULT, "one of the ranges has no memory that can be read at %p",
                            bytes[place].iov_base);
        }
        count = 0;
        if (problem != 0 && problem != EFAULT) // EFAULT: it has come back meanwhile
            return fail(problem, "cannot look whether the memory is there: %s",
                        std::strerror(problem));
        return problem = 0;
    }

  private:
    int copy(const iovec *which, std::size_t many) noexcept {
        ssize_t left = writev(ends[1], which, static_cast<int>(many));
        const int error = left < 0 ? errno : 0;
        while (left > 0) {
            std::array<char, AT_ONCE> some;
            const ssize_t got = read(ends[0], some.data(), some.size());
            if (got < 0 && errno != EINTR)
                return errno;
            left -= got > 0 ? got : 0;
        }
        return error;
    }

    std::array<int, 2> ends = {-1, -1};
    std::array<iovec, AT_ONCE> bytes = {};
    std::size_t count = 0;
    int problem = 0;
};

} // namespace

int check_mapped(const cache::range *ranges, std::size_t count) noexcept {
    const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    reader all;
    int error = 0;
    for (std::size_t place = 0; place < count && error == 0; ++place) {
        cache::each_line(ranges + place, 1, size, [&](std::uintptr_t page) {
            if (error == 0)
                error = all.add(page);
        });
    }
    return error == 0 ? all.finish() : error;
}

} // namespace coherdma::api
