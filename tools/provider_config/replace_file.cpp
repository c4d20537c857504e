// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "provider_config/replace_file.hpp"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace tools::provider_config {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void throw_errno(const fs::path &path) {
    throw std::system_error(errno, std::generic_category(), path.string());
}

/// The temporary file for a file in this folder: beside the folder, and always the same, so that it
/// is found again after a crash.
fs::path temp_path_for(const fs::path &folder) {
    const fs::path absolute = fs::absolute(folder).lexically_normal();
    return absolute.parent_path() / ("." + absolute.filename().string() + ".coherdma-new");
}

class open_file {
    int fd_;
    const fs::path path_;

  public:
    open_file(fs::path path, int flags)
        : fd_(open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0600))
        , path_(std::move(path)) {
        if (fd_ < 0)
            throw_errno(path_);
    }
    ~open_file() { close(fd_); }
    open_file(const open_file &) = delete;
    open_file &operator=(const open_file &) = delete;

    void write(const std::string &text) const {
        for (std::size_t written = 0; written < text.size();) {
            const ssize_t count = ::write(fd_, text.data() + written, text.size() - written);
            if (count < 0 && errno != EINTR)
                throw_errno(path_);
            written += count > 0 ? static_cast<std::size_t>(count) : 0;
        }
    }
    void copy_owner_and_mode(const struct stat &original) const {
        struct stat current {};
        if (fstat(fd_, &current) != 0)
            throw_errno(path_);
        const bool same_owner =
            current.st_uid == original.st_uid && current.st_gid == original.st_gid;
        if ((!same_owner && fchown(fd_, original.st_uid, original.st_gid) != 0) ||
            fchmod(fd_, original.st_mode & 07777) != 0)
            throw_errno(path_);
    }
    void sync() const {
        if (fsync(fd_) != 0)
            throw_errno(path_);
    }
};

/// Removes the file at its end, unless it has been renamed.
struct temp_file {
    fs::path path;
    ~temp_file() { unlink(path.c_str()); }
};

} // namespace

/// Readers, and the file system after a crash, have the old or the new file.
void replace_file(const fs::path &file, const std::string &text) {
    struct stat original {};
    if (stat(file.c_str(), &original) != 0)
        throw_errno(file);
    remove_temp_file(file.parent_path());
    const temp_file temp = {temp_path_for(file.parent_path())};
    {
        const open_file out(temp.path, O_WRONLY | O_CREAT | O_EXCL);
        out.write(text);
        out.copy_owner_and_mode(original);
        out.sync();
    }
    if (std::rename(temp.path.c_str(), file.c_str()) != 0)
        throw_errno(file);
    open_file(file.parent_path(), O_RDONLY | O_DIRECTORY).sync();
}

void remove_temp_file(const fs::path &folder) {
    unlink(temp_path_for(folder).c_str());
}

} // namespace tools::provider_config
