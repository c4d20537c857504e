// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "selection/replace.hpp"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace tools::selection {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path &on) {
    throw std::system_error(errno, std::generic_category(), on.string());
}

/// Beside the folder, with the folder's name: always the same, so that it is found again.
fs::path new_of(const fs::path &folder) {
    const fs::path whole = fs::absolute(folder).lexically_normal();
    return whole.parent_path() / ("." + whole.filename().string() + ".coherdma-new");
}

class descriptor {
    int number;
    const fs::path path;

  public:
    descriptor(fs::path of, int flags)
        : number(open(of.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0600))
        , path(std::move(of)) {
        if (number < 0)
            fail(path);
    }
    ~descriptor() { close(number); }
    descriptor(const descriptor &) = delete;
    descriptor &operator=(const descriptor &) = delete;

    void write(const std::string &text) const {
        for (std::size_t done = 0; done < text.size();) {
            const ssize_t part = ::write(number, text.data() + done, text.size() - done);
            if (part < 0 && errno != EINTR)
                fail(path);
            done += part > 0 ? static_cast<std::size_t>(part) : 0;
        }
    }
    void belong_as(const struct stat &other) const {
        struct stat mine {};
        if (fstat(number, &mine) != 0)
            fail(path);
        const bool same = mine.st_uid == other.st_uid && mine.st_gid == other.st_gid;
        if ((!same && fchown(number, other.st_uid, other.st_gid) != 0) ||
            fchmod(number, other.st_mode & 07777) != 0)
            fail(path);
    }
    void sync() const {
        if (fsync(number) != 0)
            fail(path);
    }
};

/// Removed again, unless it has got another name.
struct temporary {
    fs::path path;
    ~temporary() { unlink(path.c_str()); }
};

} // namespace

void replace(const fs::path &file, const std::string &text) {
    struct stat facts {};
    if (stat(file.c_str(), &facts) != 0)
        fail(file);
    remove_leftover(file.parent_path());
    const temporary fresh = {new_of(file.parent_path())};
    {
        const descriptor into(fresh.path, O_WRONLY | O_CREAT | O_EXCL);
        into.write(text);
        into.belong_as(facts);
        into.sync();
    }
    if (std::rename(fresh.path.c_str(), file.c_str()) != 0)
        fail(file);
    descriptor(file.parent_path(), O_RDONLY | O_DIRECTORY).sync();
}

void remove_leftover(const fs::path &folder) {
    unlink(new_of(folder).c_str());
}

} // namespace tools::selection
