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

std::optional<std::string> read_file(const std::string &path, std::size_t limit) {
    // Not to wait for a writer, if somebody made it a pipe.
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file < 0)
        return {};
    std::string bytes;
    char some[4096];
    ssize_t got = 0;
    while (bytes.size() < limit) {
        got = read(file, some, std::min(sizeof some, limit - bytes.size()));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        bytes.append(some, static_cast<std::size_t>(got));
    }
    const int error = errno;
    close(file);
    errno = error;
    return got < 0 ? std::nullopt : std::optional(bytes);
}

std::optional<std::string> read_line(const std::string &path) {
    std::optional<std::string> text = read_file(path, 256);
    if (text) {
        text->resize(std::min(text->size(), text->find('\n')));
        std::replace_if(
            text->begin(), text->end(), [](char each) { return each < ' ' || each > '~'; }, '?');
    }
    return text;
}

std::string real_path(const std::string &root, const std::string &path) {
    const auto real = [](const std::string &of) {
        const std::unique_ptr<char, void (*)(void *)> found(realpath(of.c_str(), nullptr),
                                                            std::free);
        return std::string(found ? found.get() : "");
    };
    const std::string found = real(root + path);
    const std::string top = root.empty() ? "" : real(root) + "/";
    return found.compare(0, top.size(), top) == 0 ? found : "";
}

std::string parent(const std::string &path) {
    const std::size_t cut = path.rfind('/');
    return cut == std::string::npos ? "" : path.substr(0, cut);
}

bool exists(const std::string &path) {
    struct stat about = {};
    return stat(path.c_str(), &about) == 0;
}

std::vector<std::string> names_in(const std::string &folder) {
    std::vector<std::string> names;
    const std::unique_ptr<DIR, int (*)(DIR *)> open(opendir(folder.c_str()), closedir);
    if (!open)
        return names;
    while (const dirent *each = readdir(open.get())) {
        const std::string name = each->d_name;
        if (name != "." && name != "..")
            names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
}

} // namespace coherdma::coherency
