// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "private_shm.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace coherdma::emulation {
namespace {

/// Why other users may have the file open, or it may have another use; "" if neither.
std::string describe_exposure(const struct stat &status) {
    if (S_ISLNK(status.st_mode))
        return "is a symbolic link";
    if (S_ISDIR(status.st_mode))
        return "is a folder";
    if (!S_ISREG(status.st_mode))
        return "is not a regular file";
    if (status.st_uid != geteuid())
        return "belongs to user " + std::to_string(status.st_uid) + ", not to user " +
               std::to_string(geteuid());
    if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        char mode[8];
        std::snprintf(mode, sizeof mode, "%04o", status.st_mode & 07777);
        return std::string("can be opened by other users (mode ") + mode + ")";
    }
    return status.st_nlink > 1 ? "has another name, a hard link" : "";
}

/// The end of a message: what to type. Others than the owner and root cannot remove a file there.
std::string format_fix(const struct stat &status, const std::string &path) {
    const bool needs_root = geteuid() != 0 && status.st_uid != geteuid();
    return std::string("; ") + (needs_root ? "as root" : "type") +
           (S_ISDIR(status.st_mode) ? ": rm -r " : ": rm ") + path;
}

} // namespace

int open_private_shm(const std::string &name, std::string &reason) {
    constexpr int MAX_TRIES = 1000; // another process may remove the file as often
    const std::string path = "/dev/shm/" + name;
    for (int i = 0; i < MAX_TRIES; ++i) {
        const int fd =
            shm_open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
                     S_IRUSR | S_IWUSR);
        const int error = fd < 0 ? errno : 0;
        struct stat status = {};
        const bool has_status = (fd < 0 ? lstat(path.c_str(), &status) : fstat(fd, &status)) == 0;
        const std::string exposure = has_status ? describe_exposure(status) : "";
        if (fd >= 0 && has_status && exposure.empty() && status.st_nlink == 1)
            return fd;
        reason = path + (exposure.empty() ? ": " + std::string(std::strerror(error))
                                          : " " + exposure + format_fix(status, path));
        if (fd < 0)
            return -1;
        close(fd);
        if (!exposure.empty())
            return -1;
    }
    reason = path + " is removed again and again";
    return -1;
}

int allocate_shm(int fd, std::uint64_t offset, std::uint64_t length) noexcept {
    for (;;) {
        const int error =
            posix_fallocate(fd, static_cast<off_t>(offset), static_cast<off_t>(length));
        if (error != EINTR) // a signal of the program
            return error;
    }
}

bool is_file_size_limited(std::uint64_t max_length) noexcept {
    rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur < max_length;
}

} // namespace coherdma::emulation
