// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Fixtures of a DAT 1.2 consumer: an IA, memory and an EP that are created through the DAT 1.2
// table. They use the same names, devices and fake fabric as the fixtures for DAT 2.0.
#pragma once

#include "../dapl/fake/two_eps.hpp"
#include "dispatch/dat1_table.hpp"

#include <cstdint>
#include <utility>

namespace fake::dat1_test {

namespace dat1 = coherdma::dapl::dat1;

/// Return the DAT 1.2 table that the provider registered under this name, or nullptr.
inline const dat1::provider *find_table(const std::string &name) {
    for (const provider_entry &it : fake_registry().providers)
        if (name == it.info.ia_name && it.info.dapl_version_major == 1)
            return reinterpret_cast<const dat1::provider *>(it.table);
    return nullptr;
}

inline const dat1::provider &dat() {
    return *find_table("roce");
}

/// Register the names of fake::register_names() with a DAT 1.2 registry too.
inline void register_names() {
    fake::register_names();
    auto info = make_info("roce", true, 1, 2);
    dat_provider_init(&info, "roce0 0");
    info = make_info("iwarp", true, 1, 2);
    dat_provider_init(&info, "iwarp0 0");
}

template <std::size_t count>
int run_cases(const CMUnitTest (&tests)[count]) {
    register_names();
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

// The masks of all fields in DAT 1.2.
constexpr auto ia_field_all = 0x7ffffffff;
constexpr auto provider_field_all = 0x3ffffff;
constexpr auto ep_field_all = 0x7ffff7ff;
constexpr auto lmr_field_all = static_cast<DAT_LMR_PARAM_MASK>(0x3ff);
constexpr auto rmr_field_all = static_cast<DAT_RMR_PARAM_MASK>(0x1f);
constexpr auto cno_field_all = static_cast<DAT_CNO_PARAM_MASK>(3);

// DAT 1.2 numbers arguments and invalid states one lower than 2.0.
constexpr DAT_RETURN invalid_parameter(DAT_UINT32 nth) {
    return dat_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1 - 1 + nth - 1);
}
constexpr DAT_RETURN invalid_state(DAT_UINT32 subtype) {
    return dat_error(DAT_INVALID_STATE, subtype - 1);
}

struct ia_fixture {
    explicit ia_fixture(const char *name = "roce", DAT_BOOLEAN ro_aware = DAT_FALSE)
        : address(std::strcmp(name, "iwarp") == 0 ? "192.0.2.2" : "192.0.2.1") {
        std::string copy = name;
        assert_success(
            find_table(name)->ia_open_func(copy.data(), 8, &async_evd, &handle, ro_aware));
        assert_success(dat().pz_create_func(handle, &pz));
    }
    ia_fixture(const ia_fixture &) = delete;
    ia_fixture &operator=(const ia_fixture &) = delete;
    /// Close the IA gracefully: the test freed all its objects except pz.
    ~ia_fixture() {
        if (handle != DAT_HANDLE_NULL)
            close();
    }
    void close() {
        assert_success(dat().pz_free_func(pz));
        assert_success(dat().ia_close_func(handle, DAT_CLOSE_GRACEFUL_FLAG));
        handle = DAT_HANDLE_NULL;
    }
    DAT_EVD_HANDLE create_evd(DAT_EVD_FLAGS flags) const {
        DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
        assert_success(dat().evd_create_func(handle, 64, DAT_HANDLE_NULL, flags, &evd));
        return evd;
    }

    DAT_IA_HANDLE handle = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
    DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
    const char *address;
};

struct memory {
    explicit memory(const ia_fixture &ia, std::size_t size = 4096)
        : bytes(size) {
        DAT_REGION_DESCRIPTION region_desc = {};
        region_desc.for_va = bytes.data();
        assert_success(dat().lmr_create_func(ia.handle, DAT_MEM_TYPE_VIRTUAL, region_desc, size,
                                             ia.pz, DAT_MEM_PRIV_ALL_FLAG, &lmr, &lmr_context,
                                             &rmr_context, nullptr, &registered_address));
    }
    ~memory() {
        if (lmr != DAT_HANDLE_NULL)
            free();
    }
    memory(const memory &) = delete;
    memory &operator=(const memory &) = delete;
    void free() { assert_success(dat().lmr_free_func(std::exchange(lmr, DAT_HANDLE_NULL))); }
    dat1::lmr_triplet lmr_triplet(std::size_t offset, DAT_VLEN length) const {
        return {lmr_context, 0xdeadbeef, registered_address + offset, length};
    }
    dat1::rmr_triplet rmr_triplet(std::size_t offset, DAT_VLEN length) const {
        return {rmr_context, 0xdeadbeef, registered_address + offset, length};
    }
    void fill(unsigned seed) {
        for (std::size_t i = 0; i != bytes.size(); ++i)
            bytes[i] = static_cast<unsigned char>(seed + i * 7 + i / 256);
    }

    std::vector<unsigned char> bytes;
    DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
    DAT_LMR_CONTEXT lmr_context = 0;
    DAT_RMR_CONTEXT rmr_context = 0;
    DAT_VADDR registered_address = 0;
};

struct ep_fixture {
    explicit ep_fixture(const ia_fixture &ia, const dat1::ep_attr *attr = nullptr)
        : recv_evd(ia.create_evd(DAT_EVD_DTO_FLAG))
        , request_evd(ia.create_evd(DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG))
        , connect_evd(ia.create_evd(DAT_EVD_CONNECTION_FLAG)) {
        assert_success(dat().ep_create_func(ia.handle, ia.pz, recv_evd, request_evd, connect_evd,
                                            attr, &handle));
    }
    ~ep_fixture() {
        if (handle != DAT_HANDLE_NULL)
            free();
    }
    ep_fixture(const ep_fixture &) = delete;
    ep_fixture &operator=(const ep_fixture &) = delete;
    void free() {
        assert_success(dat().ep_free_func(std::exchange(handle, DAT_HANDLE_NULL)));
        for (DAT_EVD_HANDLE it : {recv_evd, request_evd, connect_evd})
            assert_success(dat().evd_free_func(it));
    }

    DAT_EVD_HANDLE recv_evd, request_evd, connect_evd;
    DAT_EP_HANDLE handle = DAT_HANDLE_NULL;
};

/// Wait for an event, which is filled with a pattern first to show fields that were not written.
inline dat1::event wait_event(DAT_EVD_HANDLE evd, DAT_UINT32 number) {
    dat1::event event;
    std::memset(&event, 0xa5, sizeof event);
    DAT_COUNT nmore = -1;
    assert_success(dat().evd_wait_func(evd, event_timeout_us, 1, &event, &nmore));
    assert_int_equal(event.event_number, number);
    assert_ptr_equal(event.evd_handle, evd);
    assert_int_equal(nmore, 0);
    return event;
}

/// Dequeue an event that must be there already.
inline dat1::event dequeue_event(DAT_EVD_HANDLE evd, DAT_UINT32 number) {
    dat1::event event;
    std::memset(&event, 0xa5, sizeof event);
    assert_success(dat().evd_dequeue_func(evd, &event));
    assert_int_equal(event.event_number, number);
    assert_ptr_equal(event.evd_handle, evd);
    return event;
}

inline void assert_completion(const dat1::event &event, DAT_EP_HANDLE ep, std::uint64_t user_cookie,
                              DAT_VLEN length, DAT_DTO_COMPLETION_STATUS status = DAT_DTO_SUCCESS) {
    const auto &data = event.event_data.dto_completion_event_data;
    assert_ptr_equal(data.ep_handle, ep);
    assert_int_equal(data.user_cookie.as_64, user_cookie);
    assert_int_equal(data.status, status);
    assert_int_equal(data.transfered_length, length);
}

} // namespace fake::dat1_test
