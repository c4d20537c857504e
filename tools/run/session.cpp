// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "run/session.hpp"

#include "cli.hpp"

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <unistd.h>

namespace tools::run {

namespace fs = std::filesystem;

std::vector<std::string> build_arguments(const std::string &subcommand, const std::string &program,
                                         const std::vector<std::string> &remaining) {
    if (!remaining.empty() && remaining.front() != "--")
        throw cli::usage_error(subcommand + ": " + remaining.front() +
                               " is not an option; write -- before COMMAND");
    if (program.empty())
        throw cli::usage_error(subcommand + ": COMMAND is required");
    std::vector<std::string> args = {program};
    if (!remaining.empty())
        args.insert(args.end(), remaining.begin() + 1, remaining.end());
    return args;
}

std::string check_readable(const std::string &path) {
    std::ifstream file(path);
    std::error_code error;
    return file && fs::is_regular_file(path, error) ? "" : "cannot read the file " + path;
}

std::string find_program(const std::string &name) {
    const auto is_executable = [](const std::string &file) {
        std::error_code error;
        return fs::is_regular_file(file, error) && access(file.c_str(), X_OK) == 0;
    };
    if (name.find('/') != std::string::npos)
        return is_executable(name) ? name : "";
    const char *const folders = std::getenv("PATH");
    std::istringstream path(folders != nullptr ? folders : "");
    for (std::string folder; std::getline(path, folder, ':');)
        if (const std::string file = (folder.empty() ? "." : folder) + "/" + name;
            is_executable(file))
            return file;
    return "";
}

output_file::output_file(std::string path)
    : path_(std::move(path)) {
    if (!exists())
        return;
    stream_.open(path_, std::ios::trunc);
    if (!stream_)
        throw std::runtime_error("cannot write " + path_ + ": " + std::strerror(errno));
}

void output_file::write(const std::string &text) {
    if (exists())
        stream_ << text;
}

void output_file::flush() {
    if (exists() && !stream_.flush())
        throw std::runtime_error("cannot write " + path_);
}

temp_folder::temp_folder(const std::string &prefix)
    : path_((fs::temp_directory_path() / (prefix + ".XXXXXX")).string()) {
    if (mkdtemp(path_.data()) == nullptr)
        throw std::runtime_error("cannot create the folder " + path_ + ": " + std::strerror(errno) +
                                 "; set TMPDIR to a writable folder");
}

temp_folder::~temp_folder() {
    std::error_code error;
    fs::remove_all(path_, error);
}

std::map<long, std::string> list_process_logs(const std::string &folder) {
    std::map<long, std::string> files;
    std::error_code no_folder; // the command may have removed it
    for (const auto &entry : fs::directory_iterator(folder, no_folder)) {
        const std::string name = entry.path().filename();
        long pid = 0;
        const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
        if (error == std::errc{} && end == std::string_view(".json"))
            files[pid] = entry.path();
    }
    return files;
}

std::string read_file(const std::string &path) {
    std::ifstream stream(path, std::ios::binary);
    std::ostringstream text;
    if (stream.peek() != std::ifstream::traits_type::eof())
        text << stream.rdbuf();
    if (stream.bad() || text.fail())
        throw std::runtime_error("cannot read " + path);
    return text.str();
}

} // namespace tools::run
