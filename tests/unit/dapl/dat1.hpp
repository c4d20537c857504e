// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A program of DAT 1.2, as tests need it: an IA, memory and an endpoint of it, by 1.2's table. What
// it does can be with what a program of 2.0 does: names, devices and handles are the same.
#pragma once

#include "faces/dat1_table.hpp"
#include "two.hpp"

#include <cstdint>

namespace played::by1 {

namespace dat1 = coherdma::dapl::dat1;

/// The table that the provider has added for 1.2 under this name, or nullptr.
inline const dat1::provider *table_of(const std::string &name) {
    for (const entry &each : known_providers().added)
        if (name == each.info.ia_name && each.info.dapl_version_major == 1)
            return reinterpret_cast<const dat1::provider *>(each.table);
    return nullptr;
}

inline const dat1::provider &dat() {
    return *table_of("ib");
}

/// After register_names(): the same names for a registry of 1.2.
inline void register_names() {
    played::register_names();
    auto info = info_of("ib", true, 1, 2);
    dat_provider_init(&info, "roce0 0");
    info = info_of("iw", true, 1, 2);
    dat_provider_init(&info, "iwarp0 0");
}

// What 1.2 counts otherwise.
constexpr DAT_RETURN wrong_argument(DAT_UINT32 nth) {
    return error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1 - 1 + nth - 1);
}
constexpr DAT_RETURN wrong_state(DAT_UINT32 which) {
    return error(DAT_INVALID_STATE, which - 1);
}

struct adapter {
    explicit adapter(const char *name = "ib", DAT_BOOLEAN ro_aware = DAT_FALSE)
        : address(std::strcmp(name, "iw") == 0 ? "192.0.2.2" : "192.0.2.1") {
        std::string copy = name;
        done(table_of(name)->ia_open_func(copy.data(), 8, &async, &ia, ro_aware));
        done(dat().pz_create_func(ia, &pz));
    }
    adapter(const adapter &) = delete;
    adapter &operator=(const adapter &) = delete;
    void close() {
        done(dat().pz_free_func(pz));
        done(dat().ia_close_func(ia, DAT_CLOSE_GRACEFUL_FLAG));
    }
    DAT_EVD_HANDLE evd(DAT_EVD_FLAGS flags) const {
        DAT_EVD_HANDLE made = DAT_HANDLE_NULL;
        done(dat().evd_create_func(ia, 64, DAT_HANDLE_NULL, flags, &made));
        return made;
    }

    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
    DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
    const char *address;
};

struct memory {
    explicit memory(const adapter &of, std::size_t size = 4096)
        : bytes(size) {
        DAT_REGION_DESCRIPTION where = {};
        where.for_va = bytes.data();
        done(dat().lmr_create_func(of.ia, DAT_MEM_TYPE_VIRTUAL, where, size, of.pz,
                                   DAT_MEM_PRIV_ALL_FLAG, &lmr, &lmr_context, &rmr_context, nullptr,
                                   &begin));
    }
    void free() { done(dat().lmr_free_func(lmr)); }
    dat1::lmr_triplet part(std::size_t offset, DAT_VLEN length) const {
        return {lmr_context, 0xdeadbeef, begin + offset, length};
    }
    dat1::rmr_triplet remote(std::size_t offset, DAT_VLEN length) const {
        return {rmr_context, 0xdeadbeef, begin + offset, length};
    }
    void fill(unsigned seed) {
        for (std::size_t place = 0; place != bytes.size(); ++place)
            bytes[place] = static_cast<unsigned char>(seed + place * 7 + place / 256);
    }

    std::vector<unsigned char> bytes;
    DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
    DAT_LMR_CONTEXT lmr_context = 0;
    DAT_RMR_CONTEXT rmr_context = 0;
    DAT_VADDR begin = 0;
};

struct end {
    explicit end(const adapter &of, const dat1::ep_attr *attr = nullptr)
        : receives(of.evd(DAT_EVD_DTO_FLAG))
        , requests(of.evd(DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG))
        , connections(of.evd(DAT_EVD_CONNECTION_FLAG)) {
        done(dat().ep_create_func(of.ia, of.pz, receives, requests, connections, attr, &ep));
    }
    void free() {
        done(dat().ep_free_func(ep));
        for (DAT_EVD_HANDLE each : {receives, requests, connections})
            done(dat().evd_free_func(each));
    }

    DAT_EVD_HANDLE receives, requests, connections;
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
};

/// The next event, in memory that shows what was not written.
inline dat1::event next(DAT_EVD_HANDLE evd, DAT_UINT32 number) {
    dat1::event event;
    std::memset(&event, 0xa5, sizeof event);
    DAT_COUNT more = -1;
    done(dat().evd_wait_func(evd, soon, 1, &event, &more));
    assert_int_equal(event.event_number, number);
    assert_ptr_equal(event.evd_handle, evd);
    assert_int_equal(more, 0);
    return event;
}

/// The same at once.
inline dat1::event taken(DAT_EVD_HANDLE evd, DAT_UINT32 number) {
    dat1::event event;
    std::memset(&event, 0xa5, sizeof event);
    done(dat().evd_dequeue_func(evd, &event));
    assert_int_equal(event.event_number, number);
    assert_ptr_equal(event.evd_handle, evd);
    return event;
}

inline void completed(const dat1::event &event, DAT_EP_HANDLE ep, std::uint64_t word,
                      DAT_VLEN length, DAT_DTO_COMPLETION_STATUS status = DAT_DTO_SUCCESS) {
    const auto &data = event.event_data.dto_completion_event_data;
    assert_ptr_equal(data.ep_handle, ep);
    assert_int_equal(data.user_cookie.as_64, word);
    assert_int_equal(data.status, status);
    assert_int_equal(data.transfered_length, length);
}

} // namespace played::by1
