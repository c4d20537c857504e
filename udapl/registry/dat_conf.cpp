// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Where dat.conf is, and the reading of it.

#include "debug.hpp"
#include "records.hpp"
#include "version.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <initializer_list>
#include <new>
#include <unistd.h>

namespace coherdma::registry {
namespace {

constexpr std::size_t LIMIT = std::size_t{1} << 20;

struct text {
    char *bytes = nullptr; ///< with room for one more; NULL: errno says why
    std::size_t size = 0;
};

ssize_t read_some(int file, char *into, std::size_t room) noexcept {
    ssize_t got = -1;
    do
        got = read(file, into, room);
    while (got < 0 && errno == EINTR);
    return got;
}

text text_of(int file) noexcept {
    auto *bytes = static_cast<char *>(std::malloc(LIMIT + 1));
    if (!bytes)
        return {};
    std::size_t size = 0;
    ssize_t got = 1;
    while (size <= LIMIT && (got = read_some(file, bytes + size, LIMIT + 1 - size)) > 0)
        size += static_cast<std::size_t>(got);
    if (got >= 0 && size <= LIMIT) {
        // What is not used goes back.
        void *fitting = std::realloc(bytes, size + 1);
        return {fitting ? static_cast<char *>(fitting) : bytes, size};
    }
    const int error = got < 0 ? errno : EFBIG;
    std::free(bytes);
    errno = error;
    return {};
}

text read_file(const char *path) noexcept {
    // Not to wait for a writer, if somebody made it a pipe.
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file < 0)
        return {};
    const text found = text_of(file);
    const int error = errno;
    close(file);
    errno = error;
    return found;
}

void add(const char *path, text found, records &into) noexcept {
    list<mistake> mistakes;
    if (!into.keep(found.bytes) || !parse(found.bytes, found.size, into.all, mistakes))
        say(kind::problem, "%s: not read to its end: no memory left", path);
    for (const mistake &each : mistakes) {
        if (each.driver) {
            say(kind::records,
                "%s:%u: is for datadm of Solaris, of the driver '%.80s' and no IA; the line is "
                "left out",
                path, each.line, each.driver);
            continue;
        }
        const char *quote = each.found ? "'" : "";
        const char *nothing = each.torn ? "half a quote" : "nothing";
        say(kind::problem, "%s:%u: %s%.80s%s where %s should be; the line is left out", path,
            each.line, quote, each.found ? each.found : nothing, quote, each.expected);
    }
    say(kind::records, "%s: %zu records", path, into.all.size());
}

/// Whether the search is over.
bool try_file(const char *path, records &into) noexcept {
    const text found = read_file(path);
    if (found.bytes) {
        add(path, found, into);
    } else if (errno != ENOENT && errno != ENOTDIR) {
        say(kind::problem, "%s: cannot be read: %s", path, std::strerror(errno));
    } else {
        return false;
    }
    return true;
}

void read_all(records &into) noexcept {
    const char *named = secure_getenv("DAT_OVERRIDE");
    if (!named || !*named)
        read_first(CONF_FILES, into);
    else if (!read_first({named}, into))
        say(kind::problem, "%s, named by DAT_OVERRIDE: there is no such file", named);
}

} // namespace

bool read_first(std::initializer_list<const char *> paths, records &into) noexcept {
    for (const char *each : paths) {
        if (try_file(each, into))
            return true;
    }
    return false;
}

const records &of_dat_conf() noexcept {
    // Lives as long as the process; nothing is to be run at its end.
    alignas(records) static char place[sizeof(records)];
    static records *read = nullptr;
    if (!read) {
        read = new (place) records;
        read_all(*read);
    }
    return *read;
}

bool is_of_this_version(const record &which) noexcept {
    return which.major == DAT_VERSION_MAJOR;
}

bool is_for(const record &which, const DAT_PROVIDER_INFO &wanted) noexcept {
    return std::strcmp(which.name, wanted.ia_name) == 0 &&
           which.major == wanted.dapl_version_major && which.minor == wanted.dapl_version_minor &&
           which.thread_safe == (wanted.is_thread_safe != DAT_FALSE);
}

} // namespace coherdma::registry
