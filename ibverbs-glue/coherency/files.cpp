// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "files.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>

namespace coherdma::coherency {

/// Returns up to limit bytes of a file; on failure nullopt, with errno set.
std::optional<std::string> read_file(const std::string &path, std::size_t limit) {
    // O_NONBLOCK: does not wait for a writer if the file is a FIFO.
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return {};
    std::string bytes;
    char buffer[4096];
    ssize_t count = 0;
    while (bytes.size() < limit) {
        count = read(fd, buffer, std::min(sizeof buffer, limit - bytes.size()));
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            break;
        bytes.append(buffer, static_cast<std::size_t>(count));
    }
    const int error = errno;
    close(fd);
    errno = error;
    return count < 0 ? std::nullopt : std::optional(bytes);
}

/// The first line of a file, or its first bytes up to limit; unprintable characters become '?'.
std::optional<std::string> read_line(const std::string &path, std::size_t limit) {
    std::optional<std::string> text = read_file(path, limit);
    if (text) {
        text->resize(std::min(text->size(), text->find('\n')));
        std::replace_if(
            text->begin(), text->end(), [](char c) { return c < ' ' || c > '~'; }, '?');
    }
    return text;
}

/// Resolves all links of root + path. On failure returns "" and sets errno: ENOENT if the file does
/// not exist or is outside root.
std::string real_path(const std::string &root, const std::string &path) {
    int error = 0;
    const auto resolve = [&error](const std::string &link) {
        const std::unique_ptr<char, void (*)(void *)> resolved(realpath(link.c_str(), nullptr),
                                                               std::free);
        error = resolved ? 0 : errno;
        return std::string(resolved ? resolved.get() : "");
    };
    const std::string prefix = root.empty() ? "" : resolve(root) + "/";
    std::string resolved_path = resolve(root + path);
    if (error == 0 && resolved_path.compare(0, prefix.size(), prefix) == 0)
        return resolved_path;
    errno = error != 0 ? error : ENOENT;
    return {};
}

std::string parent_folder(const std::string &path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string::npos ? "" : path.substr(0, slash);
}

bool path_exists(const std::string &path) {
    struct stat status = {};
    return stat(path.c_str(), &status) == 0;
}

bool link_exists(const std::string &path) {
    struct stat status = {};
    return lstat(path.c_str(), &status) == 0;
}

bool is_unreadable(int error) noexcept {
    return error != ENOENT && error != ENOTDIR;
}

namespace {

// Returns the names of the entries that is_listed selects by folder and entry; errno says why it
// does not select one: it is kept if is_unreadable().
template <typename Predicate>
std::optional<std::vector<std::string>> list(const std::string &folder, Predicate is_listed) {
    std::vector<std::string> names;
    DIR *const dir = opendir(folder.c_str());
    if (!dir)
        return {};
    errno = 0; // readdir() sets it only if it fails
    while (const dirent *entry = readdir(dir)) {
        const std::string name = entry->d_name;
        errno = 0;
        if (name != "." && name != ".." && is_listed(*entry))
            names.push_back(name);
        if (errno != 0 && is_unreadable(errno))
            break;
        errno = 0;
    }
    const int error = errno;
    closedir(dir);
    errno = error;
    if (error != 0)
        return {};
    std::sort(names.begin(), names.end());
    return names;
}

} // namespace

std::optional<std::vector<std::string>> try_list_folder(const std::string &folder) {
    return list(folder, [](const dirent &) { return true; });
}

std::optional<std::vector<std::string>> try_list_subfolders(const std::string &folder) {
    return list(folder, [&folder](const dirent &entry) {
        if (entry.d_type != DT_UNKNOWN && entry.d_type != DT_LNK)
            return entry.d_type == DT_DIR;
        return path_exists(folder + "/" + entry.d_name + "/.");
    });
}

std::vector<std::string> list_folder(const std::string &folder) {
    return try_list_folder(folder).value_or(std::vector<std::string>());
}

} // namespace coherdma::coherency
