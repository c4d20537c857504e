// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A program may load a registry by itself, from anywhere, and for itself alone, as some MPIs do.
// What the registry needs is found beside it then, and providers find the registry.

#include <csetjmp>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <string>

#include "registry_version.hpp"

extern "C" {
#include <cmocka.h>
}

namespace {

namespace fs = std::filesystem;
using registry_test::MAJOR, registry_test::MINOR;

struct folder {
    folder() {
        char name[] = "/tmp/beside.XXXXXX";
        assert_non_null(mkdtemp(name));
        path = name;
    }
    ~folder() { fs::remove_all(path); }
    folder(const folder &) = delete;
    folder &operator=(const folder &) = delete;

    std::string with(const char *file, const char *name) const {
        fs::copy_file(file, fs::path(path) / name, fs::copy_options::overwrite_existing);
        return path + "/" + name;
    }
    std::string path;
};

template <typename Function>
Function *symbol(void *library, const char *name) {
    auto *found = reinterpret_cast<Function *>(dlsym(library, name));
    assert_non_null(found);
    return found;
}

void found_beside(void **) {
    for (const char *each : {"libcoherdma.so.1", "libdaplcoherdma.so.2"}) {
        if (dlopen(each, RTLD_LAZY)) {
            print_message("skipped: %s is installed, and would be found first\n", each);
            skip();
        }
    }
    const folder all;
    const std::string file = all.with(COHERDMA_TEST_REGISTRY, "registry.so");
    void *library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library)
        fail_msg("%s", dlerror());
    auto *openv = symbol<decltype(dat_ia_openv)>(library, "dat_ia_openv");
    auto *close = symbol<decltype(dat_ia_close)>(library, "dat_ia_close");
    char name[] = "rxe0";
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    const DAT_RETURN no_name = DAT_MAKE_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED);
    // Each of the two in its turn, while the process lives.
    assert_int_equal(openv(name, 8, &evd, &ia, MAJOR, MINOR, DAT_FALSE), no_name);
    all.with(COHERDMA_TEST_DEVICES, "libcoherdma.so.1");
    assert_int_equal(openv(name, 8, &evd, &ia, MAJOR, MINOR, DAT_FALSE), no_name);
    all.with(COHERDMA_TEST_OURS, "libdaplcoherdma.so.2");
    assert_int_equal(openv(name, 8, &evd, &ia, MAJOR, MINOR, DAT_FALSE), DAT_SUCCESS);
    assert_int_equal(close(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
}

} // namespace

int main() {
    setenv("DAT_OVERRIDE", "/dev/null", 1);
    setenv("PLAYED_PORTS", "rxe0:1:eth0:4", 1);
    unsetenv("LD_LIBRARY_PATH");
    const CMUnitTest tests[] = {cmocka_unit_test(found_beside)};
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
