// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Registries of 1.2 and of 2.0 in one process: which instance is whose, and what happens to a
// handle that comes to the other one's calls. The libraries are played; each is loaded here for as
// long as it is needed.

#include "dapl/ia.hpp"
#include "dat1.hpp"

#include <cerrno>
#include <dlfcn.h>

using namespace played;
namespace dat1 = by1::dat1;

namespace {

struct library {
    explicit library(const char *folder, const char *name)
        : handle(dlopen((std::string(COHERDMA_TEST_REGISTRIES) + "/" + folder + "/" + name).c_str(),
                        RTLD_NOW | RTLD_LOCAL)) {
        if (handle == nullptr)
            print_error("%s\n", dlerror());
        assert_non_null(handle);
    }
    ~library() { dlclose(handle); }
    library(const library &) = delete;
    library &operator=(const library &) = delete;
    template <class table>
    const table *registered() const {
        return *static_cast<const table **>(dlsym(handle, "registered"));
    }

    void *const handle;
};

template <class table>
DAT_IA_HANDLE open(const table &by, const char *name, DAT_EVD_HANDLE &async) {
    std::string copy = name;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    async = DAT_HANDLE_NULL;
    if constexpr (std::is_same_v<table, dat1::provider>)
        done(by.ia_open_func(copy.data(), 8, &async, &ia, DAT_TRUE));
    else
        done(by.ia_open_func(copy.data(), 8, &async, &ia));
    return ia;
}

bool ro_aware(DAT_IA_HANDLE ia) {
    const auto *const one = coherdma::dapl::as<coherdma::dapl::ia>(ia);
    assert_non_null(one);
    return one != nullptr && one->ro_aware;
}

void each_has_its_own(void **) {
    auto of_1 = info_of("both", true, 1, 2), of_2 = info_of("both", true, 2, 0);
    const library one("dat1", "libdat.so.1"), two("dat2", "libdat2.so.2");
    dat_provider_init(&of_1, "roce0 0");
    dat_provider_init(&of_2, "roce0 0");
    const auto *const table_1 = one.registered<dat1::provider>();
    const auto *const table_2 = two.registered<DAT_PROVIDER>();
    assert_non_null(table_1);
    assert_non_null(table_2);
    assert_ptr_not_equal(table_1, table_2);
    assert_null(table_of("both")); // nothing has come to the one that is neither

    DAT_EVD_HANDLE async_1, async_2;
    DAT_IA_HANDLE const ia_1 = open(*table_1, "both", async_1);
    DAT_IA_HANDLE const ia_2 = open(*table_2, "both", async_2);
    assert_ptr_equal(*static_cast<const void **>(ia_1), table_1);
    assert_ptr_equal(*static_cast<const void **>(async_1), table_1);
    assert_ptr_equal(*static_cast<const void **>(ia_2), table_2);
    DAT_EVD_PARAM param = {};
    done(table_1->evd_query_func(async_1, DAT_EVD_FIELD_ALL, &param));
    assert_ptr_equal(param.ia_handle, DAT_UL_TO_IA_HANDLE(101));
    done(table_2->evd_query_func(async_2, DAT_EVD_FIELD_ALL, &param));
    assert_ptr_equal(param.ia_handle, DAT_UL_TO_IA_HANDLE(202));
    done(table_1->ia_close_func(ia_1, DAT_CLOSE_GRACEFUL_FLAG));
    done(table_2->ia_close_func(ia_2, DAT_CLOSE_GRACEFUL_FLAG));

    // One goes, and the other stays.
    dat_provider_fini(&of_1);
    assert_null(one.registered<dat1::provider>());
    assert_ptr_equal(two.registered<DAT_PROVIDER>(), table_2);
    std::string name = "both";
    DAT_IA_HANDLE none = DAT_HANDLE_NULL;
    async_1 = DAT_HANDLE_NULL;
    assert_int_equal(table_1->ia_open_func(name.data(), 8, &async_1, &none, DAT_FALSE),
                     error(DAT_PROVIDER_NOT_FOUND, 98));
    done(table_2->ia_close_func(open(*table_2, "both", async_2), DAT_CLOSE_GRACEFUL_FLAG));
    dat_provider_fini(&of_2);
    assert_null(two.registered<DAT_PROVIDER>());
}

// A registry of one version that has loaded this library for the other gets nothing: its calls
// would be others than it means.
void a_stranger_gets_nothing(void **) {
    auto of_1 = info_of("strange", true, 1, 2), of_2 = info_of("strange", true, 2, 0);
    {
        const library two("dat2", "libdat2.so.2");
        dat_provider_init(&of_1, "roce0 0");
        assert_null(two.registered<DAT_PROVIDER>());
    }
    {
        const library one("dat1", "libdat.so.1");
        dat_provider_init(&of_2, "roce0 0");
        assert_null(one.registered<DAT_PROVIDER>());
    }
    assert_null(table_of("strange"));
}

void whoever_tells_of_relaxed_ordering_is_believed(void **) {
    auto info = info_of("relaxed", true, 1, 2);
    const struct {
        const char *folder;
        bool believed;
    } kinds[] = {{"dat1", true}, {"ofed1", false}};
    for (const auto &each : kinds) {
        const library one(each.folder, "libdat.so.1");
        dat_provider_init(&info, "roce0 0");
        const auto *const table = one.registered<dat1::provider>();
        DAT_EVD_HANDLE async;
        DAT_IA_HANDLE const ia = open(*table, "relaxed", async);
        assert_int_equal(ro_aware(ia), each.believed);
        done(table->ia_close_func(ia, DAT_CLOSE_GRACEFUL_FLAG));
        dat_provider_fini(&info);
    }
    by1::adapter aware("ib", DAT_TRUE), unaware("ib", DAT_FALSE),
        noise("ib", static_cast<DAT_BOOLEAN>(0x5a5a));
    assert_true(ro_aware(aware.ia));
    assert_false(ro_aware(unaware.ia));
    assert_false(ro_aware(noise.ia));
    adapter of_2;
    assert_false(ro_aware(of_2.ia));
    close(of_2);
    for (by1::adapter *const each : {&aware, &unaware, &noise})
        each->close();
}

void thread_safety_has_its_table(void **) {
    auto safe = info_of("safety", true, 1, 2), unsafe = info_of("safety", false, 1, 2);
    const library one("dat1", "libdat.so.1");
    dat_provider_init(&safe, "roce0 0");
    const auto *const of_safe = one.registered<dat1::provider>();
    dat_provider_init(&unsafe, "roce0 0");
    const auto *const of_unsafe = one.registered<dat1::provider>();
    for (const auto *const each : {of_safe, of_unsafe}) {
        DAT_EVD_HANDLE async;
        DAT_IA_HANDLE const ia = open(*each, "safety", async);
        dat1::provider_attr attr = {};
        done(each->ia_query_func(ia, nullptr, 0, nullptr, 0x3ffffff, &attr));
        assert_int_equal(attr.is_thread_safe, each == of_safe ? DAT_TRUE : DAT_FALSE);
        assert_ptr_equal(*static_cast<const void **>(ia), each);
        done(each->ia_close_func(ia, DAT_CLOSE_GRACEFUL_FLAG));
    }
    dat_provider_fini(&safe);
    dat_provider_fini(&unsafe);
}

// Objects are the same below both, so a call of the other version works with the handle that it was
// called with. As an argument it is of another IA, and what such is.
void handles_of_the_other_version(void **) {
    by1::adapter old;
    adapter young;
    by1::end old_end(old);
    const end young_end(young);
    DAT_EP_STATE state = DAT_EP_STATE_CONNECTED;
    done(by1::dat().ep_get_status_func(young_end.ep, &state, nullptr, nullptr));
    assert_int_equal(state, DAT_EP_STATE_UNCONNECTED);
    dat1::ep_param in_1;
    DAT_EP_PARAM in_2;
    done(by1::dat().ep_query_func(young_end.ep, 0x7ffff7ff, &in_1));
    assert_ptr_equal(in_1.pz_handle, young.pz);
    done(played::dat().ep_query_func(old_end.ep, DAT_EP_FIELD_ALL, &in_2));
    assert_ptr_equal(in_2.pz_handle, old.pz);

    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    assert_int_equal(by1::dat().ep_create_func(old.ia, young.pz, old_end.receives, old_end.requests,
                                               old_end.connections, nullptr, &ep),
                     no_handle(DAT_INVALID_HANDLE_PZ));
    assert_int_equal(by1::dat().ep_create_func(old.ia, old.pz, young_end.receives, old_end.requests,
                                               old_end.connections, nullptr, &ep),
                     no_handle(DAT_INVALID_HANDLE_EVD_RECV));
    DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
    char byte;
    DAT_REGION_DESCRIPTION where = {};
    where.for_va = &byte;
    assert_int_equal(by1::dat().lmr_create_func(old.ia, DAT_MEM_TYPE_VIRTUAL, where, 1, young.pz,
                                                DAT_MEM_PRIV_ALL_FLAG, &lmr, nullptr, nullptr,
                                                nullptr, nullptr),
                     no_handle(DAT_INVALID_HANDLE_PZ));
    assert_null(ep);
    assert_null(lmr);
    // An EVD of connections may be any IA's.
    done(by1::dat().ep_create_func(old.ia, old.pz, old_end.receives, old_end.requests,
                                   young_end.connections, nullptr, &ep));
    place nowhere = at("203.0.113.9");
    net().addresses.push_back(-ENETUNREACH);
    done(by1::dat().ep_connect_func(ep, &nowhere.any, 1, soon, 0, nullptr, DAT_QOS_BEST_EFFORT,
                                    DAT_CONNECT_DEFAULT_FLAG));
    const DAT_EVENT event = next(young_end.connections, DAT_CONNECTION_EVENT_UNREACHABLE);
    assert_ptr_equal(event.event_data.connect_event_data.ep_handle, ep);
    done(by1::dat().ep_free_func(ep));
    old_end.free();
    end(young_end).free();
    old.close();
    close(young);
}

} // namespace

#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh, gone)

int main() {
    by1::register_names();
    const CMUnitTest tests[] = {
        TEST(each_has_its_own),
        TEST(a_stranger_gets_nothing),
        TEST(whoever_tells_of_relaxed_ordering_is_believed),
        TEST(thread_safety_has_its_table),
        TEST(handles_of_the_other_version),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
