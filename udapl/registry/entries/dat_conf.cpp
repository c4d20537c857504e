// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Finds and reads dat.conf.

#include "dat_entries.hpp"
#include "debug.hpp"
#include "version.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <initializer_list>
#include <new>
#include <unistd.h>

namespace coherdma::registry {
namespace {

constexpr std::size_t MAX_PRINTED_ERRORS = 10; ///< of one file
constexpr std::size_t MAX_FILE_SIZE = std::size_t{1} << 20;

struct file_text {
    char *bytes = nullptr; ///< size + 1 bytes; NULL on failure, with errno set
    std::size_t size = 0;
};

ssize_t read_retry(int fd, char *buffer, std::size_t size) noexcept {
    ssize_t num_read = -1;
    do
        num_read = read(fd, buffer, size);
    while (num_read < 0 && errno == EINTR);
    return num_read;
}

/// Fails with EFBIG for more than MAX_FILE_SIZE bytes.
file_text read_fd(int fd) noexcept {
    auto *bytes = static_cast<char *>(std::malloc(MAX_FILE_SIZE + 1));
    if (!bytes)
        return {};
    std::size_t size = 0;
    ssize_t num_read = 1;
    while (size <= MAX_FILE_SIZE &&
           (num_read = read_retry(fd, bytes + size, MAX_FILE_SIZE + 1 - size)) > 0)
        size += static_cast<std::size_t>(num_read);
    if (num_read >= 0 && size <= MAX_FILE_SIZE) {
        void *shrunk = std::realloc(bytes, size + 1);
        return {shrunk ? static_cast<char *>(shrunk) : bytes, size};
    }
    const int error = num_read < 0 ? errno : EFBIG;
    std::free(bytes);
    errno = error;
    return {};
}

/// The file's content; without bytes if it cannot be read, with errno set.
file_text read_file(const char *path) noexcept {
    // O_NONBLOCK: a FIFO must not block until it has a writer.
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return {};
    const file_text text = read_fd(fd);
    const int error = errno;
    close(fd);
    errno = error;
    return text;
}

/// Prints why a line of dat.conf is ignored.
void print_error(const char *path, const parse_error &error) noexcept {
    if (error.solaris_driver)
        dbg_print(
            dbg_type::entries,
            "%s:%u: describes the driver '%.80s' for Solaris' datadm, not an IA; line ignored",
            path, error.line, error.solaris_driver);
    else if (error.field)
        dbg_print(dbg_type::problem, "%s:%u: expected %s, found '%.80s'; line ignored", path,
                  error.line, error.expected, error.field);
    else
        dbg_print(dbg_type::problem, "%s:%u: expected %s, found %s; line ignored", path, error.line,
                  error.expected,
                  error.unterminated_quote ? "an unterminated quote" : "the end of the line");
}

/// Adds the entries of a dat.conf. Prints its first errors, and all lines of Solaris' driver lists.
void parse_and_report(const char *path, file_text text, dat_entries &entries) noexcept {
    vector<parse_error> errors;
    if (!entries.take_text(text.bytes) ||
        !parse_dat_conf(text.bytes, text.size, entries.entries, errors))
        dbg_print(dbg_type::problem, "%s: not read completely: out of memory", path);
    std::size_t num_printed = 0, num_more = 0;
    for (const parse_error &error : errors) {
        if (error.solaris_driver || num_printed++ < MAX_PRINTED_ERRORS)
            print_error(path, error);
        else
            ++num_more;
    }
    if (num_more != 0)
        dbg_print(dbg_type::problem, "%s: %zu more lines ignored", path, num_more);
    dbg_print(dbg_type::entries, "%s: %zu entries", path, entries.entries.size());
}

/// Returns false if the file does not exist. One that cannot be read ends the search too.
bool read_conf(const char *path, dat_entries &entries) noexcept {
    const file_text text = read_file(path);
    if (text.bytes) {
        parse_and_report(path, text, entries);
    } else if (errno != ENOENT && errno != ENOTDIR) {
        dbg_print(dbg_type::problem, "%s: cannot be read: %s", path, std::strerror(errno));
    } else {
        return false;
    }
    return true;
}

void read_dat_conf(dat_entries &entries) noexcept {
    const char *path = secure_getenv("DAT_OVERRIDE");
    if (!path || !*path)
        read_first_conf(DAT_CONF_PATHS, entries);
    else if (!read_first_conf({path}, entries))
        dbg_print(dbg_type::problem, "%s (DAT_OVERRIDE): no such file", path);
}

} // namespace

bool read_first_conf(std::initializer_list<const char *> paths, dat_entries &entries) noexcept {
    for (const char *path : paths) {
        if (read_conf(path, entries))
            return true;
    }
    return false;
}

/// Requires registry_lock.
const dat_entries &get_dat_conf() noexcept {
    // Never destroyed, so that no destructor runs at exit.
    alignas(dat_entries) static char storage[sizeof(dat_entries)];
    static dat_entries *conf = nullptr;
    if (!conf) {
        conf = new (storage) dat_entries;
        read_dat_conf(*conf);
    }
    return *conf;
}

bool matches_version(const dat_entry &entry) noexcept {
    return entry.major == DAT_VERSION_MAJOR;
}

bool matches_info(const dat_entry &entry, const DAT_PROVIDER_INFO &info) noexcept {
    return std::strcmp(entry.name, info.ia_name) == 0 && entry.major == info.dapl_version_major &&
           entry.minor == info.dapl_version_minor &&
           entry.thread_safe == (info.is_thread_safe != DAT_FALSE);
}

} // namespace coherdma::registry
