// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A registry loaded by dlopen() with RTLD_LOCAL, as some MPI libraries do: it finds libraries in
// its own folder, and providers find its functions.

#include <cstdint>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <string>

#include "../cmocka.hpp"
#include "version.hpp"

namespace {

namespace fs = std::filesystem;
using registry_test::MAJOR, registry_test::MINOR;

struct temporary_folder {
    temporary_folder() {
        char name[] = "/tmp/dlopen.XXXXXX";
        assert_non_null(mkdtemp(name));
        path = name;
    }
    ~temporary_folder() { fs::remove_all(path); }
    temporary_folder(const temporary_folder &) = delete;
    temporary_folder &operator=(const temporary_folder &) = delete;

    std::string copy_file(const char *file, const char *name) const {
        fs::copy_file(file, fs::path(path) / name, fs::copy_options::overwrite_existing);
        return path + "/" + name;
    }
    std::string path;
};

template <typename Function>
Function *find_symbol(void *library, const char *name) {
    auto *function = reinterpret_cast<Function *>(dlsym(library, name));
    assert_non_null(function);
    return function;
}

/// The registry loads libcoherdma and the provider from its own folder if they are not installed,
/// as after a build without installation.
void libraries_in_registry_folder_found(void **) {
    for (const char *name : {"libcoherdma.so.1", "libdaplcoherdma.so.2"}) {
        if (dlopen(name, RTLD_LAZY)) {
            print_message("# skipped: %s is installed and would be found first\n", name);
            skip();
        }
    }
    const temporary_folder folder;
    const std::string path = folder.copy_file(COHERDMA_TEST_REGISTRY, "registry.so");
    void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library)
        fail_msg("%s", dlerror());
    auto *openv = find_symbol<decltype(dat_ia_openv)>(library, "dat_ia_openv");
    auto *close = find_symbol<decltype(dat_ia_close)>(library, "dat_ia_close");
    char name[] = "rxe0";
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    const DAT_RETURN not_registered =
        DAT_MAKE_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED);
    // Both libraries are needed; each is found as soon as it exists.
    assert_int_equal(openv(name, 8, &evd, &ia, MAJOR, MINOR, DAT_FALSE), not_registered);
    folder.copy_file(COHERDMA_TEST_DEVICES, "libcoherdma.so.1");
    assert_int_equal(openv(name, 8, &evd, &ia, MAJOR, MINOR, DAT_FALSE), not_registered);
    folder.copy_file(COHERDMA_TEST_COHERDMA_PROVIDER, "libdaplcoherdma.so.2");
    assert_int_equal(openv(name, 8, &evd, &ia, MAJOR, MINOR, DAT_FALSE), DAT_SUCCESS);
    assert_int_equal(close(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
}

} // namespace

int main() {
    setenv("DAT_OVERRIDE", "/dev/null", 1);
    setenv("FAKE_PORTS", "rxe0:1:eth0:4", 1);
    unsetenv("LD_LIBRARY_PATH");
    const CMUnitTest tests[] = {cmocka_unit_test(libraries_in_registry_folder_found)};
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
