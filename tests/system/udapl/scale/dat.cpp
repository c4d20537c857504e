// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "dat.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace scale {

void end_with(const char *what, const char *why) {
    std::fprintf(stderr, "%s: %s\n", what, why);
    std::exit(1);
}

void must(DAT_RETURN result, const char *what) {
    if (result == DAT_SUCCESS)
        return;
    const char *major = "", *minor = "";
    dat_strerror(result, &major, &minor);
    end_with(what, (std::string(major) + " " + minor).c_str());
}

void need(bool holds, const char *what) {
    if (!holds)
        end_with("not so", what);
}

adapter::adapter(const char *name) {
    must(dat_ia_open(const_cast<char *>(name), 8, &errors_, &handle), "dat_ia_open");
    must(dat_pz_create(handle, &zone), "dat_pz_create");
    DAT_IA_ATTR is;
    must(dat_ia_query(handle, nullptr, DAT_IA_FIELD_IA_ADDRESS_PTR, &is, 0, nullptr),
         "dat_ia_query");
    address = is.ia_address_ptr;
}

adapter::~adapter() {
    must(dat_pz_free(zone), "dat_pz_free");
    must(dat_ia_close(handle, DAT_CLOSE_GRACEFUL_FLAG), "dat_ia_close");
}

DAT_EVD_HANDLE adapter::events(DAT_COUNT length, DAT_EVD_FLAGS flags) const {
    DAT_EVD_HANDLE made = DAT_HANDLE_NULL;
    must(dat_evd_create(handle, length, DAT_HANDLE_NULL, flags, &made), "dat_evd_create");
    return made;
}

region::region(const adapter &ia, std::span<std::byte> memory) {
    DAT_REGION_DESCRIPTION what;
    what.for_va = memory.data();
    DAT_RMR_CONTEXT remote;
    DAT_VLEN size;
    DAT_VADDR address;
    must(dat_lmr_create(ia.handle, DAT_MEM_TYPE_VIRTUAL, what, memory.size(), ia.zone,
                        DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, &handle, &all.lmr_context, &remote,
                        &size, &address),
         "dat_lmr_create");
    all.virtual_address = reinterpret_cast<std::uintptr_t>(memory.data());
    all.segment_length = static_cast<DAT_SEG_LENGTH>(memory.size());
}

DAT_LMR_TRIPLET region::part(std::size_t offset, std::size_t size) const {
    DAT_LMR_TRIPLET is = all;
    is.virtual_address += offset;
    is.segment_length = static_cast<DAT_SEG_LENGTH>(size);
    return is;
}

DAT_EVENT next(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number) {
    constexpr DAT_TIMEOUT minute = 60000000;
    DAT_EVENT event;
    DAT_COUNT more;
    must(dat_evd_wait(evd, minute, 1, &event, &more), "dat_evd_wait");
    if (event.event_number != number)
        end_with("an event that was not expected", std::to_string(event.event_number).c_str());
    return event;
}

DAT_UINT64 completed(DAT_EVD_HANDLE evd, std::size_t length) {
    const DAT_EVENT event = next(evd, DAT_DTO_COMPLETION_EVENT);
    const auto &is = event.event_data.dto_completion_event_data;
    need(is.status == DAT_DTO_SUCCESS, "a request succeeds");
    need(is.transfered_length == length, "all of it was transferred");
    return is.user_cookie.as_64;
}

DAT_DTO_COOKIE cookie(DAT_UINT64 value) {
    DAT_DTO_COOKIE is;
    is.as_64 = value;
    return is;
}

} // namespace scale
