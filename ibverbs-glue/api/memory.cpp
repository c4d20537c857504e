// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Checks whether memory is readable by writing one byte of each page to a pipe: that requires no
// privileges, detects PROT_NONE, and involves no signal handler. No byte outside a range is read:
// memory checkers would report it.

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

// The bytes of one writev() fit into the smallest pipe, so it never blocks.
constexpr std::size_t MAX_PAGES = 256;

// Collects pages, and checks up to MAX_PAGES of them with one system call.
class page_checker {
  public:
    page_checker() noexcept {
        if (pipe2(pipe_.data(), O_CLOEXEC) != 0)
            error_ = errno;
    }
    ~page_checker() {
        for (const int fd : pipe_) {
            if (fd >= 0)
                close(fd);
        }
    }
    page_checker(const page_checker &) = delete;
    page_checker &operator=(const page_checker &) = delete;

    // Adds the page with this address, the first one in the range. Returns 0, or an errno value if
    // the pages were checked and one is not readable.
    int add(std::uintptr_t addr) noexcept {
        pages_[count_++] = {reinterpret_cast<void *>(addr), 1};
        return count_ == MAX_PAGES ? check_added() : 0;
    }

    // Checks the added pages together; on EFAULT each by itself, to find the unreadable one.
    int check_added() noexcept {
        if (error_ == 0 && count_ != 0)
            error_ = write_bytes(pages_.data(), count_);
        for (std::size_t i = 0; i < count_ && error_ == EFAULT; ++i) {
            if (write_bytes(&pages_[i], 1) == EFAULT)
                return fail(EFAULT, "one of the ranges has no readable memory at %p",
                            pages_[i].iov_base);
        }
        count_ = 0;
        if (error_ != 0 && error_ != EFAULT) // EFAULT: the page has been mapped meanwhile
            return fail(error_, "cannot check whether the memory is readable: %s",
                        std::strerror(error_));
        return error_ = 0;
    }

  private:
    // Writes a byte of each page to the pipe, and drains it. Returns 0 or an errno value: EFAULT if
    // the kernel cannot read a page.
    int write_bytes(const iovec *pages, std::size_t count) noexcept {
        ssize_t unread = writev(pipe_[1], pages, static_cast<int>(count));
        const int error = unread < 0 ? errno : 0;
        while (unread > 0) {
            std::array<char, MAX_PAGES> buffer;
            const ssize_t bytes = read(pipe_[0], buffer.data(), buffer.size());
            if (bytes < 0 && errno != EINTR)
                return errno;
            unread -= bytes > 0 ? bytes : 0;
        }
        return error;
    }

    std::array<int, 2> pipe_ = {-1, -1};
    std::array<iovec, MAX_PAGES> pages_ = {};
    std::size_t count_ = 0;
    int error_ = 0;
};

} // namespace

/// Checks that every page of the ranges is readable at this moment. Returns 0 or an errno: EFAULT
/// if a page is not.
int check_mapped(const cache::range *ranges, std::size_t count) noexcept {
    const auto last_byte_of_page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE)) - 1;
    page_checker checker;
    for (std::size_t i = 0; i < count; ++i) {
        if (ranges[i].length == 0)
            continue;
        const std::uintptr_t last = ranges[i].addr + (ranges[i].length - 1);
        for (std::uintptr_t addr = ranges[i].addr;; addr = (addr | last_byte_of_page) + 1) {
            if (const int error = checker.add(addr))
                return error;
            if ((addr | last_byte_of_page) >= last)
                break;
        }
    }
    return checker.check_added();
}

} // namespace coherdma::api
