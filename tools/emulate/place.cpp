// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "emulate/place.hpp"

#include "api/plugin.hpp"
#include "show/device.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <sstream>
#include <unistd.h>

namespace tools::emulate {
namespace {

namespace fs = std::filesystem;

std::string variable(const char *name) {
    const char *const value = std::getenv(name);
    return value != nullptr ? value : "";
}

bool is_program(const std::string &file) {
    std::error_code none;
    return fs::is_regular_file(file, none) && access(file.c_str(), X_OK) == 0;
}

/// By name alone: to open it by verbs would have it played in this process, too.
std::string driver_of(const std::string &name) {
    coherdma_open_attr wanted = {};
    wanted.flags = COHERDMA_OPEN_QUERY_ONLY;
    wanted.name = name.c_str();
    const std::unique_ptr<coherdma_device, void (*)(coherdma_device *)> opened(
        coherdma_open(&wanted, sizeof wanted), coherdma_close);
    coherdma_device_attr about = {};
    if (!opened || coherdma_query_device(opened.get(), &about, sizeof about) != 0)
        throw std::runtime_error(coherdma_error());
    return about.driver;
}

} // namespace

std::string soft_device() {
    for (const std::string &each : device_names())
        if (const std::string driver = driver_of(each); driver == "rxe" || driver == "siw")
            return each;
    return "";
}

std::string softrdma() {
    if (const std::string named = variable("COHERDMA_SOFTRDMA"); !named.empty()) {
        if (!is_program(named))
            throw cannot_here("COHERDMA_SOFTRDMA=" + named +
                              " is no program that can be run; "
                              "next: unset COHERDMA_SOFTRDMA");
        return fs::absolute(named);
    }
    std::error_code none;
    std::istringstream path(fs::read_symlink("/proc/self/exe", none).parent_path().string() + ":" +
                            variable("PATH"));
    for (std::string each; std::getline(path, each, ':');)
        if (const std::string file = each + "/softrdma"; !each.empty() && is_program(file))
            return fs::absolute(file);
    throw cannot_here("there is no soft device (rxe, siw) here, and no softrdma to make one: it is "
                      "neither beside coherdma nor in PATH; next: "
                      "COHERDMA_SOFTRDMA=/path/to/softrdma coherdma emulate ...");
}

std::string drivers() {
    const std::string file = coherdma::api::plugin_file();
    const std::size_t end = file.rfind("-rdmav");
    if (file.front() != '/' || end == std::string::npos ||
        file.find_first_of(":;") != std::string::npos)
        throw cannot_here(fmt::format(
            "the provider {} cannot be named to libibverbs: it wants a whole path to "
            "libcoherdma-rdmav*.so, without : and ;; next: COHERDMA_PROVIDER=/path/to/it",
            file));
    if (access(file.c_str(), R_OK) != 0)
        throw cannot_here(fmt::format("cannot read the provider {}: {}; next: install it, or "
                                      "COHERDMA_PROVIDER=/path/to/libcoherdma-rdmav34.so",
                                      file, std::strerror(errno)));
    const char *others = std::getenv("RDMAV_DRIVERS");
    if (others == nullptr)
        others = std::getenv("IBV_DRIVERS");
    return file.substr(0, end) + (others != nullptr && *others ? std::string(":") + others : "");
}

folder::folder()
    : path_((fs::temp_directory_path() / "coherdma-emulate.XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr)
        throw std::runtime_error("cannot make a folder like " + path_ + ": " +
                                 std::strerror(errno) + "; set TMPDIR to a folder of yours");
}

folder::~folder() {
    std::error_code none;
    fs::remove_all(path_, none);
}

} // namespace tools::emulate
