// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "run/debug_info.hpp"

#include "text.hpp"

#include <array>
#include <cstdio>
#include <memory>
#include <set>
#include <string_view>

namespace tools::run {
namespace {

constexpr std::string_view USR = "/usr";

/// "/usr/bin/rping" of "main (/usr/bin/rping+0x1234)"; "" if the frame has a source line.
std::string file_of_frame(const std::string &frame) {
    const std::size_t path = frame.find(" (/"), plus = frame.rfind("+0x");
    return path != std::string::npos && plus != std::string::npos && plus > path
               ? frame.substr(path + 2, plus - path - 2)
               : "";
}

std::string quote_for_shell(const std::string &text) {
    std::string quoted = "'";
    for (const char ch : text)
        quoted += ch == '\'' ? std::string("'\\''") : std::string(1, ch);
    return quoted + "'";
}

/// The first line that a command prints; "" if it prints none.
std::string first_line_of(const std::string &command) {
    const std::unique_ptr<FILE, int (*)(FILE *)> output(popen(command.c_str(), "r"), pclose);
    std::array<char, 4096> line{};
    if (!output || std::fgets(line.data(), line.size(), output.get()) == nullptr)
        return {};
    const std::string text = line.data();
    return text.substr(0, text.find('\n'));
}

/// "rdmacm-utils: /usr/bin/rping", "libc6:amd64: /lib/x86_64-linux-gnu/libc.so.6"
std::string debian_package_of(const std::string &path) {
    const std::string answer =
        first_line_of("dpkg-query -S " + quote_for_shell(path) + " 2>/dev/null");
    return answer.substr(0, answer.find_first_of(":,"));
}

/// What to do so that frames of this file get source lines.
file_without_lines find_debug_info_fix(const std::string &path) {
    std::string package = debian_package_of(path);
    if (package.empty() && path.starts_with(USR)) // a file of a package from before merged /usr
        package = debian_package_of(path.substr(USR.size()));
    if (!package.empty())
        return {path, package, "install " + package + (package == "libc6" ? "-dbg" : "-dbgsym")};
    package = first_line_of("rpm -qf --queryformat '%{NAME}\\n' " + quote_for_shell(path) +
                            " 2>/dev/null | grep -v ' '");
    if (!package.empty())
        return {path, package, "dnf debuginfo-install " + package};
    return {path, "", "compile it with -g"};
}

} // namespace

std::vector<file_without_lines> files_without_lines(const std::vector<std::string> &frames) {
    std::set<std::string> paths;
    for (const std::string &frame : frames)
        if (std::string path = file_of_frame(frame); !path.empty())
            paths.insert(std::move(path));
    std::vector<file_without_lines> files;
    for (const std::string &path : paths)
        files.push_back(find_debug_info_fix(path));
    return files;
}

std::string list_files_without_lines(const std::vector<std::string> &frames) {
    std::string text;
    for (const file_without_lines &file : files_without_lines(frames))
        text += format_entry(file.path.substr(file.path.rfind('/') + 1), {file.fix});
    return text.empty() ? "" : "\nsource lines are missing for\n" + text;
}

} // namespace tools::run
