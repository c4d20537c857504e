// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "provider_config/exposure.hpp"

#include <cerrno>
#include <deque>
#include <filesystem>
#include <fmt/core.h>
#include <pwd.h>
#include <stdexcept>
#include <sys/stat.h>
#include <system_error>

namespace tools::provider_config {
namespace {

namespace fs = std::filesystem;

/// Names of users are those of this system, whatever the root.
std::string user_text(uid_t uid) {
    const passwd *const user = getpwuid(uid);
    return user ? std::string(user->pw_name) : std::to_string(uid);
}

/// A path as a word of a shell command.
std::string shell_word(const std::string &path) {
    constexpr char PLAIN[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._+:@-";
    if (path.find_first_not_of(PLAIN) == path.npos)
        return path;
    std::string word = "'";
    for (const char ch : path)
        word += ch == '\'' ? std::string("'\\''") : std::string(1, ch);
    return word + "'";
}

[[noreturn]] void throw_unknown_owner(const std::string &path, int error) {
    throw std::runtime_error("cannot read the owner of " + path + ": " +
                             std::generic_category().message(error));
}

/// Whether others can change the file, or replace what is in the folder. path: with the root.
std::optional<exposed_path> check_entry(const std::string &path, const struct stat &attr) {
    if (attr.st_uid != 0)
        return exposed_path{path, "belongs to user " + user_text(attr.st_uid),
                            "chown -h root " + shell_word(path)};
    // The entries of a sticky folder belong to root, which is checked for each.
    const bool is_sticky_folder = S_ISDIR(attr.st_mode) && (attr.st_mode & S_ISVTX) != 0;
    if (S_ISLNK(attr.st_mode) || is_sticky_folder || (attr.st_mode & (S_IWGRP | S_IWOTH)) == 0)
        return {};
    return exposed_path{path,
                        fmt::format("is writable by {} (mode {:04o})",
                                    (attr.st_mode & S_IWOTH) != 0 ? "all users" : "its group",
                                    attr.st_mode & 07777U),
                        "chmod go-w " + shell_word(path)};
}

/// Puts the components of a path in front of those that remain.
void prepend_components(std::deque<std::string> &remaining, const fs::path &path) {
    std::deque<std::string> components;
    for (const fs::path &component : path.relative_path())
        if (!component.empty() && component != ".")
            components.push_back(component.string());
    remaining.insert(remaining.begin(), components.begin(), components.end());
}

} // namespace

std::optional<exposed_path> find_exposed_path(const host &machine, const std::string &file) {
    constexpr int MAX_LINKS = 40; // as the kernel
    const std::string root = machine.root.empty() ? "/" : machine.root;
    std::deque<std::string> remaining; // components of the path
    prepend_components(remaining, file);
    fs::path folder = "/"; // below the root
    int num_links = 0;
    for (fs::path path = folder;;) {
        const std::string full_path = path == "/" ? root : machine.root + path.string();
        struct stat attr {};
        if (lstat(full_path.c_str(), &attr) != 0)
            throw_unknown_owner(full_path, errno);
        if (const auto exposed = check_entry(full_path, attr))
            return exposed;
        if (S_ISLNK(attr.st_mode)) {
            if (++num_links > MAX_LINKS)
                throw_unknown_owner(full_path, ELOOP);
            const fs::path target = fs::read_symlink(full_path);
            if (target.is_absolute())
                folder = "/";
            prepend_components(remaining, target);
        } else {
            folder = path;
        }
        while (!remaining.empty() && remaining.front() == "..") {
            folder = folder.parent_path(); // that of the root is the root
            remaining.pop_front();
        }
        if (remaining.empty())
            return {};
        path = folder / remaining.front();
        remaining.pop_front();
    }
}

std::optional<exposed_path> find_exposed_plugin(const host &machine, const std::string &plugin) {
    const fs::path folder = fs::path(plugin).parent_path();
    if (auto exposed = find_exposed_path(machine, plugin))
        return exposed;
    for (const std::string &name : machine.list_folder(folder.string())) {
        if (!name.starts_with("libcoherdma-") || !name.ends_with(".so"))
            continue;
        if (auto exposed = find_exposed_path(machine, (folder / name).string()))
            return exposed;
    }
    return {};
}

bool is_owned_by_root(const host &machine, const std::string &path) {
    struct stat attr {};
    return stat((machine.root + path).c_str(), &attr) == 0 && attr.st_uid == 0;
}

} // namespace tools::provider_config
