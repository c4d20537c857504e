// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Both registries in one process with one dat.conf: each uses its own entries, providers and IA
// handles. They are loaded by dlopen() with RTLD_LOCAL, as some MPI libraries do.

#include "../cmocka.hpp"
#include "stub_provider.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

constexpr DAT_RETURN INVALID_IA = DAT_MAKE_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA);

/// A registry and its stub provider. The calls have the same arguments in both versions.
struct registry {
    const char *file;
    DAT_UINT32 major, minor;
    const char *stub_file;
    decltype(&dat_ia_openv) openv = nullptr;
    decltype(&dat_ia_close) close = nullptr;
    decltype(&dat_ep_reset) reset = nullptr;
    decltype(&dats_get_ia_handle) get_ia_handle = nullptr;
    decltype(&dat_registry_list_providers) list = nullptr;
    stub::state *(*get_stub_state)() = nullptr;

    template <typename Function>
    void load_symbol(void *library, const char *name, Function &function) {
        function = reinterpret_cast<Function>(dlsym(library, name));
        if (!function)
            fail_msg("%s: no %s", file, name);
    }
    void load() {
        void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
        if (!library)
            fail_msg("%s", dlerror());
        load_symbol(library, "dat_ia_openv", openv);
        load_symbol(library, "dat_ia_close", close);
        load_symbol(library, "dat_ep_reset", reset);
        load_symbol(library, "dats_get_ia_handle", get_ia_handle);
        load_symbol(library, "dat_registry_list_providers", list);
        // Loaded for the rest of the test, so that its state survives.
        void *stub_library = dlopen(stub_file, RTLD_NOW);
        if (!stub_library)
            fail_msg("%s", dlerror());
        load_symbol(stub_library, stub::GET_STATE, get_stub_state);
    }
    DAT_RETURN open(std::string name, DAT_IA_HANDLE &ia) const {
        DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
        return openv(name.data(), 8, &evd, &ia, major, minor, DAT_FALSE);
    }
    DAT_IA_HANDLE open_ok(const char *name) const {
        DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
        assert_int_equal(open(name, ia), DAT_SUCCESS);
        return ia;
    }
    void close_ok(DAT_IA_HANDLE ia) const {
        assert_int_equal(close(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
    }
    DAT_IA_HANDLE convert_handle(DAT_IA_HANDLE ia) const {
        DAT_IA_HANDLE converted = DAT_HANDLE_NULL;
        assert_int_equal(get_ia_handle(ia, &converted), DAT_SUCCESS);
        return converted;
    }
    std::vector<std::string> list_names() const {
        std::vector<DAT_PROVIDER_INFO> infos(16);
        std::vector<DAT_PROVIDER_INFO *> pointers;
        for (auto &info : infos)
            pointers.push_back(&info);
        DAT_COUNT count = 0;
        assert_int_equal(list(16, &count, pointers.data()), DAT_SUCCESS);
        std::vector<std::string> names;
        for (DAT_COUNT i = 0; i < count; ++i)
            names.emplace_back(infos[static_cast<std::size_t>(i)].ia_name);
        return names;
    }
};

registry dat1{COHERDMA_TEST_DAT1, 1, 2, COHERDMA_TEST_STUB1};
registry dat2{COHERDMA_TEST_DAT2, 2, 0, COHERDMA_TEST_STUB2};

void registry_lists_own_entries(void **) {
    assert_true((dat1.list_names() == std::vector<std::string>{"both", "old"}));
    // libdat2 also lists the entries of 1.2, as OFED's registry does.
    assert_true((dat2.list_names() == std::vector<std::string>{"both", "both", "new", "old"}));
}

/// Both registries are loaded, and read one dat.conf with a line for each version of "both", and
/// with "old" for 1.2 and "new" for 2.0.
void registry_opens_own_providers(void **) {
    const DAT_RETURN dat1_major_not_found =
        DAT_MAKE_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_MAJOR_NOT_FOUND);
    constexpr DAT_RETURN DAT2_SUBTYPE = 101; // DAT_MAJOR_NOT_FOUND of 2.0
    const DAT_RETURN dat2_major_not_found = DAT_MAKE_ERROR(DAT_PROVIDER_NOT_FOUND, DAT2_SUBTYPE);
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    assert_int_equal(dat1.open("new", ia), dat1_major_not_found);
    assert_int_equal(dat2.open("old", ia), dat2_major_not_found);
    for (const registry *dat : {&dat1, &dat2}) {
        dat->close_ok(dat->open_ok(dat == &dat1 ? "old" : "new"));
        dat->close_ok(dat->open_ok("both"));
    }
    assert_string_equal(dat1.get_stub_state()->instance, "of 1.2");
    assert_string_equal(dat2.get_stub_state()->instance, "of 2.0");
    assert_int_equal(dat1.get_stub_state()->opens, 2);
    assert_int_equal(dat2.get_stub_state()->opens, 2);
}

/// Both return the same IA handle for different IAs, and reject objects of the other provider.
void handles_of_other_registry_rejected(void **) {
    const DAT_IA_HANDLE ia1 = dat1.open_ok("both"), ia2 = dat2.open_ok("both");
    assert_ptr_equal(ia1, ia2);
    const DAT_IA_HANDLE provider_ia1 = dat1.convert_handle(ia1),
                        provider_ia2 = dat2.convert_handle(ia2);
    assert_ptr_not_equal(provider_ia1, provider_ia2);
    DAT_IA_HANDLE converted = DAT_HANDLE_NULL;
    assert_int_equal(dat1.get_ia_handle(provider_ia2, &converted), INVALID_IA);
    assert_int_equal(dat2.get_ia_handle(provider_ia1, &converted), INVALID_IA);
    const DAT_RETURN invalid_ep = DAT_MAKE_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EP);
    for (int i = 0; i < 2; ++i) {
        assert_int_equal(dat1.reset(provider_ia2), invalid_ep);
        assert_int_equal(dat2.reset(provider_ia1), invalid_ep);
        assert_int_equal(dat1.reset(provider_ia1), DAT_SUCCESS);
        assert_int_equal(dat2.reset(provider_ia2), DAT_SUCCESS);
    }
    dat1.close_ok(ia1);
    assert_int_equal(dat1.close(ia1, DAT_CLOSE_ABRUPT_FLAG), INVALID_IA);
    assert_int_equal(dat2.reset(provider_ia2), DAT_SUCCESS);
    dat2.close_ok(ia2);
}

/// The instance data shows which line was used.
int setup(void **) {
    char name[] = "/tmp/registries.XXXXXX";
    const int fd = mkstemp(name);
    assert_true(fd >= 0);
    ::close(fd);
    const std::string dat1_fields =
        " u1.2 nonthreadsafe default " COHERDMA_TEST_STUB1 " s.1.0 \"of 1.2\" x\n";
    const std::string dat2_fields =
        " u2.0 nonthreadsafe default " COHERDMA_TEST_STUB2 " s.1.0 \"of 2.0\" x\n";
    std::ofstream(name) << "both" + dat1_fields + "both" + dat2_fields + "new" + dat2_fields +
                               "old" + dat1_fields;
    setenv("DAT_OVERRIDE", name, 1);
    for (registry *dat : {&dat1, &dat2}) {
        dat->load();
        DAT_COUNT count = 0;
        dat->list(0, &count, nullptr); // the file is read once
    }
    std::remove(name);
    return 0;
}

} // namespace

int main() {
    setenv("COHERDMA_DAT_LIVE", "0", 1);
    const CMUnitTest tests[] = {
        cmocka_unit_test(registry_lists_own_entries),
        cmocka_unit_test(registry_opens_own_providers),
        cmocka_unit_test(handles_of_other_registry_rejected),
    };
    return cmocka_run_group_tests(tests, setup, nullptr);
}
