// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Registries of DAT 1.2 and 2.0 in one process: the provider registers the table of each registry's
// version, and calls of one version accept handles of the other. The registries are fakes that a
// test loads with dlopen().

#include "dapl/ia/ia.hpp"
#include "dat1.hpp"

#include <cerrno>
#include <dlfcn.h>

using namespace fake;
namespace dat1 = dat1_test::dat1;

namespace {

// A registry library that a process has loaded; "ofed1" is one that passes no ro_aware.
struct registry_library {
    explicit registry_library(const char *folder, const char *name)
        : handle(dlopen((std::string(COHERDMA_TEST_REGISTRIES) + "/" + folder + "/" + name).c_str(),
                        RTLD_NOW | RTLD_LOCAL)) {
        if (handle == nullptr)
            print_error("%s\n", dlerror());
        assert_non_null(handle);
    }
    ~registry_library() { dlclose(handle); }
    registry_library(const registry_library &) = delete;
    registry_library &operator=(const registry_library &) = delete;
    template <class table>
    const table *registered() const {
        return *static_cast<const table **>(dlsym(handle, "registered"));
    }

    void *const handle;
};

template <class table>
DAT_IA_HANDLE open_ia(const table &provider, const char *ia_name, DAT_EVD_HANDLE &async_evd) {
    std::string writable_name = ia_name;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    async_evd = DAT_HANDLE_NULL;
    if constexpr (std::is_same_v<table, dat1::provider>)
        assert_success(provider.ia_open_func(writable_name.data(), 8, &async_evd, &ia, DAT_TRUE));
    else
        assert_success(provider.ia_open_func(writable_name.data(), 8, &async_evd, &ia));
    return ia;
}

bool is_ro_aware(DAT_IA_HANDLE handle) {
    const auto ia = coherdma::dapl::lookup<coherdma::dapl::dapl_ia>(handle);
    assert_non_null(ia.get());
    return ia && ia->ro_aware;
}

// In a process with both registries the provider adds to each a table of its version, under one
// name.
void each_registry_gets_its_own_table(void **) {
    auto dat1_info = make_info("both", true, 1, 2), dat2_info = make_info("both", true, 2, 0);
    const registry_library dat1_registry("dat1", "libdat.so.1"),
        dat2_registry("dat2", "libdat2.so.2");
    dat_provider_init(&dat1_info, "roce0 0");
    dat_provider_init(&dat2_info, "roce0 0");
    const auto *const table_1 = dat1_registry.registered<dat1::provider>();
    const auto *const table_2 = dat2_registry.registered<DAT_PROVIDER>();
    assert_non_null(table_1);
    assert_non_null(table_2);
    assert_ptr_not_equal(table_1, table_2);
    assert_null(find_table("both")); // nothing was added to the fake registry of this program

    DAT_EVD_HANDLE async_1, async_2;
    DAT_IA_HANDLE const ia_1 = open_ia(*table_1, "both", async_1);
    DAT_IA_HANDLE const ia_2 = open_ia(*table_2, "both", async_2);
    assert_ptr_equal(*static_cast<const void **>(ia_1), table_1);
    assert_ptr_equal(*static_cast<const void **>(async_1), table_1);
    assert_ptr_equal(*static_cast<const void **>(ia_2), table_2);
    DAT_EVD_PARAM param = {};
    assert_success(table_1->evd_query_func(async_1, DAT_EVD_FIELD_ALL, &param));
    constexpr std::uintptr_t dat1_registry_ia = 101, dat2_registry_ia = 202; // REGISTRY_NUMBER
    assert_ptr_equal(param.ia_handle, DAT_UL_TO_IA_HANDLE(dat1_registry_ia));
    assert_success(table_2->evd_query_func(async_2, DAT_EVD_FIELD_ALL, &param));
    assert_ptr_equal(param.ia_handle, DAT_UL_TO_IA_HANDLE(dat2_registry_ia));
    assert_success(table_1->ia_close_func(ia_1, DAT_CLOSE_GRACEFUL_FLAG));
    assert_success(table_2->ia_close_func(ia_2, DAT_CLOSE_GRACEFUL_FLAG));

    // Removing one table keeps the other.
    dat_provider_fini(&dat1_info);
    assert_null(dat1_registry.registered<dat1::provider>());
    assert_ptr_equal(dat2_registry.registered<DAT_PROVIDER>(), table_2);
    std::string name = "both";
    DAT_IA_HANDLE failed_ia = DAT_HANDLE_NULL;
    async_1 = DAT_HANDLE_NULL;
    assert_int_equal(table_1->ia_open_func(name.data(), 8, &async_1, &failed_ia, DAT_FALSE),
                     dat_error(DAT_PROVIDER_NOT_FOUND, 98));
    assert_success(
        table_2->ia_close_func(open_ia(*table_2, "both", async_2), DAT_CLOSE_GRACEFUL_FLAG));
    dat_provider_fini(&dat2_info);
    assert_null(dat2_registry.registered<DAT_PROVIDER>());
}

// A registry gets no table of the other version, whose functions have other signatures.
void table_of_other_version_not_registered(void **) {
    auto dat1_info = make_info("strange", true, 1, 2), dat2_info = make_info("strange", true, 2, 0);
    {
        const registry_library dat2_registry("dat2", "libdat2.so.2");
        dat_provider_init(&dat1_info, "roce0 0");
        assert_null(dat2_registry.registered<DAT_PROVIDER>());
    }
    {
        const registry_library dat1_registry("dat1", "libdat.so.1");
        dat_provider_init(&dat2_info, "roce0 0");
        assert_null(dat1_registry.registered<DAT_PROVIDER>());
    }
    assert_null(find_table("strange"));
}

void ro_aware_only_from_registry_that_passes_it(void **) {
    auto info = make_info("relaxed", true, 1, 2);
    const struct {
        const char *folder;
        bool ro_aware;
    } cases[] = {{"dat1", true}, {"ofed1", false}};
    for (const auto &it : cases) {
        const registry_library dat1_registry(it.folder, "libdat.so.1");
        dat_provider_init(&info, "roce0 0");
        const auto *const table = dat1_registry.registered<dat1::provider>();
        DAT_EVD_HANDLE async_evd;
        DAT_IA_HANDLE const ia = open_ia(*table, "relaxed", async_evd);
        assert_int_equal(is_ro_aware(ia), it.ro_aware);
        assert_success(table->ia_close_func(ia, DAT_CLOSE_GRACEFUL_FLAG));
        dat_provider_fini(&info);
    }
    dat1_test::ia_fixture aware("roce", DAT_TRUE), unaware("roce", DAT_FALSE),
        garbage("roce", static_cast<DAT_BOOLEAN>(0x5a5a));
    assert_true(is_ro_aware(aware.handle));
    assert_false(is_ro_aware(unaware.handle));
    assert_false(is_ro_aware(garbage.handle));
    ia_fixture dat2_ia;
    assert_false(is_ro_aware(dat2_ia.handle));
    close(dat2_ia);
    for (dat1_test::ia_fixture *const ia : {&aware, &unaware, &garbage})
        ia->close();
}

void thread_safe_and_unsafe_tables_differ(void **) {
    auto safe_info = make_info("safety", true, 1, 2),
         unsafe_info = make_info("safety", false, 1, 2);
    const registry_library dat1_registry("dat1", "libdat.so.1");
    dat_provider_init(&safe_info, "roce0 0");
    const auto *const safe_table = dat1_registry.registered<dat1::provider>();
    dat_provider_init(&unsafe_info, "roce0 0");
    const auto *const unsafe_table = dat1_registry.registered<dat1::provider>();
    for (const auto *const it : {safe_table, unsafe_table}) {
        DAT_EVD_HANDLE async_evd;
        DAT_IA_HANDLE const ia = open_ia(*it, "safety", async_evd);
        dat1::provider_attr attr = {};
        assert_success(
            it->ia_query_func(ia, nullptr, 0, nullptr, dat1_test::provider_field_all, &attr));
        assert_int_equal(attr.is_thread_safe, it == safe_table ? DAT_TRUE : DAT_FALSE);
        assert_ptr_equal(*static_cast<const void **>(ia), it);
        assert_success(it->ia_close_func(ia, DAT_CLOSE_GRACEFUL_FLAG));
    }
    dat_provider_fini(&safe_info);
    dat_provider_fini(&unsafe_info);
}

// Both versions share the objects, so the handle that a call is made on may be of either version.
// Handles in the other arguments must be of the same IA.
void handles_of_other_dat_version_accepted(void **) {
    dat1_test::ia_fixture dat1_ia;
    ia_fixture dat2_ia;
    const dat1_test::ep_fixture dat1_ep(dat1_ia);
    const ep_fixture dat2_ep(dat2_ia);
    DAT_EP_STATE state = DAT_EP_STATE_CONNECTED;
    assert_success(dat1_test::dat().ep_get_status_func(dat2_ep.handle, &state, nullptr, nullptr));
    assert_int_equal(state, DAT_EP_STATE_UNCONNECTED);
    dat1::ep_param dat1_param;
    DAT_EP_PARAM dat2_param;
    assert_success(
        dat1_test::dat().ep_query_func(dat2_ep.handle, dat1_test::ep_field_all, &dat1_param));
    assert_ptr_equal(dat1_param.pz_handle, dat2_ia.pz);
    assert_success(fake::dat().ep_query_func(dat1_ep.handle, DAT_EP_FIELD_ALL, &dat2_param));
    assert_ptr_equal(dat2_param.pz_handle, dat1_ia.pz);

    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    assert_int_equal(dat1_test::dat().ep_create_func(dat1_ia.handle, dat2_ia.pz, dat1_ep.recv_evd,
                                                     dat1_ep.request_evd, dat1_ep.connect_evd,
                                                     nullptr, &ep),
                     invalid_handle(DAT_INVALID_HANDLE_PZ));
    assert_int_equal(dat1_test::dat().ep_create_func(dat1_ia.handle, dat1_ia.pz, dat2_ep.recv_evd,
                                                     dat1_ep.request_evd, dat1_ep.connect_evd,
                                                     nullptr, &ep),
                     invalid_handle(DAT_INVALID_HANDLE_EVD_RECV));
    DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
    char byte;
    DAT_REGION_DESCRIPTION region_desc = {};
    region_desc.for_va = &byte;
    assert_int_equal(dat1_test::dat().lmr_create_func(
                         dat1_ia.handle, DAT_MEM_TYPE_VIRTUAL, region_desc, 1, dat2_ia.pz,
                         DAT_MEM_PRIV_ALL_FLAG, &lmr, nullptr, nullptr, nullptr, nullptr),
                     invalid_handle(DAT_INVALID_HANDLE_PZ));
    assert_null(ep);
    assert_null(lmr);
    // The connect EVD may be of another IA.
    assert_success(dat1_test::dat().ep_create_func(dat1_ia.handle, dat1_ia.pz, dat1_ep.recv_evd,
                                                   dat1_ep.request_evd, dat2_ep.connect_evd,
                                                   nullptr, &ep));
    socket_address unreachable = parse_address("203.0.113.9");
    get_fabric().resolve_addr_results.push_back(-ENETUNREACH);
    assert_success(dat1_test::dat().ep_connect_func(ep, &unreachable.sa, 1, event_timeout_us, 0,
                                                    nullptr, DAT_QOS_BEST_EFFORT,
                                                    DAT_CONNECT_DEFAULT_FLAG));
    const DAT_EVENT event = wait_event(dat2_ep.connect_evd, DAT_CONNECTION_EVENT_UNREACHABLE);
    assert_ptr_equal(event.event_data.connect_event_data.ep_handle, ep);
    assert_success(dat1_test::dat().ep_free_func(ep));
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        TEST(each_registry_gets_its_own_table),
        TEST(table_of_other_version_not_registered),
        TEST(ro_aware_only_from_registry_that_passes_it),
        TEST(thread_safe_and_unsafe_tables_differ),
        TEST(handles_of_other_dat_version_accepted),
    };
    return dat1_test::run_cases(tests);
}
