// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "check/sanitizers.hpp"

#include "run/location.hpp"
#include "run/session.hpp"

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <stdexcept>
#include <unistd.h>

namespace tools::check {
namespace {

namespace fs = std::filesystem;

/// Of an executable file. clang links the memory sanitizer's runtime into the program.
bool has_memory_sanitizer(const std::string &file) {
    std::error_code error;
    if (!fs::is_regular_file(file, error) || access(file.c_str(), X_OK | R_OK) != 0)
        return false;
    try {
        return run::read_file(file).find("__msan_init") != std::string::npos;
    } catch (const std::runtime_error &) { // it has been removed
        return false;
    }
}

/// word: a path, or a name to be searched for in PATH.
bool names_memory_sanitizer(const std::string &word) {
    if (word.find('/') != std::string::npos)
        return has_memory_sanitizer(word);
    const char *const folders = std::getenv("PATH");
    std::istringstream path(folders != nullptr ? folders : "");
    for (std::string folder; std::getline(path, folder, ':');)
        if (has_memory_sanitizer(folder + "/" + word))
            return true;
    return false;
}

bool runs_memory_sanitizer(const std::vector<std::string> &command) {
    for (const std::string &argument : command) {
        std::istringstream words(argument);
        for (std::string word; words >> word;)
            if (names_memory_sanitizer(word))
                return true;
    }
    return false;
}

} // namespace

std::map<std::string, std::string> sanitizer_environment(const std::vector<std::string> &command) {
    std::map<std::string, std::string> env;
    // Drivers that copy data into the program's buffers when it polls would be reported by the
    // address sanitizer; those that have a variable for it leave that to the device.
    if (std::getenv("MLX5_SCATTER_TO_CQE") == nullptr)
        env["MLX5_SCATTER_TO_CQE"] = "0";
    if (runs_memory_sanitizer(command)) {
        env["LD_PRELOAD"] = run::make_preload_variable("libcoherdma-msan.so");
        env["LD_BIND_NOW"] = "1"; // that library changes what functions are bound to
    }
    return env;
}

} // namespace tools::check
