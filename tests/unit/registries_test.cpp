// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Both registries in one process, with one dat.conf: each takes its own lines, loads its own
// providers and counts its own IAs. They are loaded as some MPIs do: at run time, for themselves.

#include "stub_provider.hpp"

#include <csetjmp>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

extern "C" {
#include <cmocka.h>
}

namespace {

constexpr DAT_RETURN BAD_IA = DAT_MAKE_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA);

/// What is called here has the same arguments in both versions.
struct registry {
    const char *file;
    DAT_UINT32 major, minor;
    const char *provider;
    decltype(&dat_ia_openv) openv = nullptr;
    decltype(&dat_ia_close) close = nullptr;
    decltype(&dat_ep_reset) reset = nullptr;
    decltype(&dats_get_ia_handle) translate = nullptr;
    decltype(&dat_registry_list_providers) list = nullptr;
    stub::state *(*state_of_stub)() = nullptr;

    template <typename Function>
    void look_up(void *library, const char *name, Function &into) {
        into = reinterpret_cast<Function>(dlsym(library, name));
        if (!into)
            fail_msg("%s: no %s", file, name);
    }
    void load() {
        void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
        if (!library)
            fail_msg("%s", dlerror());
        look_up(library, "dat_ia_openv", openv);
        look_up(library, "dat_ia_close", close);
        look_up(library, "dat_ep_reset", reset);
        look_up(library, "dats_get_ia_handle", translate);
        look_up(library, "dat_registry_list_providers", list);
        // Held, so that it remembers what it was told.
        void *held = dlopen(provider, RTLD_NOW);
        if (!held)
            fail_msg("%s", dlerror());
        look_up(held, stub::STATE, state_of_stub);
    }
    DAT_RETURN open(std::string name, DAT_IA_HANDLE &ia) const {
        DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
        return openv(name.data(), 8, &evd, &ia, major, minor, DAT_FALSE);
    }
    DAT_IA_HANDLE opened(const char *name) const {
        DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
        assert_int_equal(open(name, ia), DAT_SUCCESS);
        return ia;
    }
    void closed(DAT_IA_HANDLE ia) const {
        assert_int_equal(close(ia, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
    }
    DAT_IA_HANDLE address_of(DAT_IA_HANDLE ia) const {
        DAT_IA_HANDLE found = DAT_HANDLE_NULL;
        assert_int_equal(translate(ia, &found), DAT_SUCCESS);
        return found;
    }
    std::vector<std::string> names() const {
        std::vector<DAT_PROVIDER_INFO> infos(16);
        std::vector<DAT_PROVIDER_INFO *> pointers;
        for (auto &each : infos)
            pointers.push_back(&each);
        DAT_COUNT count = 0;
        assert_int_equal(list(16, &count, pointers.data()), DAT_SUCCESS);
        std::vector<std::string> all;
        for (DAT_COUNT place = 0; place < count; ++place)
            all.emplace_back(infos[static_cast<std::size_t>(place)].ia_name);
        return all;
    }
};

registry one{COHERDMA_TEST_DAT1, 1, 2, COHERDMA_TEST_STUB1};
registry two{COHERDMA_TEST_DAT2, 2, 0, COHERDMA_TEST_STUB2};

void each_lists_its_own(void **) {
    assert_true((one.names() == std::vector<std::string>{"both", "old"}));
    // And the other's, as OFED's does.
    assert_true((two.names() == std::vector<std::string>{"both", "both", "new", "old"}));
}

void each_opens_its_own(void **) {
    const DAT_RETURN before = DAT_MAKE_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_MAJOR_NOT_FOUND);
    // DAT_MAJOR_NOT_FOUND, in the numbers of 2.0.
    const DAT_RETURN of_two = DAT_MAKE_ERROR(DAT_PROVIDER_NOT_FOUND, 101);
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    assert_int_equal(one.open("new", ia), before);
    assert_int_equal(two.open("old", ia), of_two);
    for (const registry *each : {&one, &two}) {
        each->closed(each->opened(each == &one ? "old" : "new"));
        each->closed(each->opened("both"));
    }
    assert_string_equal(one.state_of_stub()->instance, "of 1.2");
    assert_string_equal(two.state_of_stub()->instance, "of 2.0");
    assert_int_equal(one.state_of_stub()->opens, 2);
    assert_int_equal(two.state_of_stub()->opens, 2);
}

/// They give the same integers to different IAs, and know each other's objects for none of theirs.
void handles_of_the_other(void **) {
    const DAT_IA_HANDLE first = one.opened("both"), second = two.opened("both");
    assert_ptr_equal(first, second);
    const DAT_IA_HANDLE in_one = one.address_of(first), in_two = two.address_of(second);
    assert_ptr_not_equal(in_one, in_two);
    DAT_IA_HANDLE found = DAT_HANDLE_NULL;
    assert_int_equal(one.translate(in_two, &found), BAD_IA);
    assert_int_equal(two.translate(in_one, &found), BAD_IA);
    const DAT_RETURN bad_ep = DAT_MAKE_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EP);
    for (int round = 0; round < 2; ++round) {
        assert_int_equal(one.reset(in_two), bad_ep);
        assert_int_equal(two.reset(in_one), bad_ep);
        assert_int_equal(one.reset(in_one), DAT_SUCCESS);
        assert_int_equal(two.reset(in_two), DAT_SUCCESS);
    }
    one.closed(first);
    assert_int_equal(one.close(first, DAT_CLOSE_ABRUPT_FLAG), BAD_IA);
    assert_int_equal(two.reset(in_two), DAT_SUCCESS);
    two.closed(second);
}

int set_up(void **) {
    char name[] = "/tmp/registries.XXXXXX";
    const int file = mkstemp(name);
    assert_true(file >= 0);
    ::close(file);
    const std::string old =
        " u1.2 nonthreadsafe default " COHERDMA_TEST_STUB1 " s.1.0 \"of 1.2\" x\n";
    const std::string recent =
        " u2.0 nonthreadsafe default " COHERDMA_TEST_STUB2 " s.1.0 \"of 2.0\" x\n";
    std::ofstream(name) << "both" + old + "both" + recent + "new" + recent + "old" + old;
    setenv("DAT_OVERRIDE", name, 1);
    for (registry *each : {&one, &two}) {
        each->load();
        DAT_COUNT count = 0;
        each->list(0, &count, nullptr); // the file is read once
    }
    std::remove(name);
    return 0;
}

} // namespace

int main() {
    setenv("COHERDMA_DAT_LIVE", "0", 1);
    const CMUnitTest tests[] = {
        cmocka_unit_test(each_lists_its_own),
        cmocka_unit_test(each_opens_its_own),
        cmocka_unit_test(handles_of_the_other),
    };
    return cmocka_run_group_tests(tests, set_up, nullptr);
}
