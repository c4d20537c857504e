// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "dat.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace scale {

void fail(const char *operation, const char *reason) {
    std::fprintf(stderr, "%s: %s\n", operation, reason);
    std::exit(1);
}

void check_dat(DAT_RETURN result, const char *operation) {
    if (result == DAT_SUCCESS)
        return;
    const char *major = "", *minor = "";
    dat_strerror(result, &major, &minor);
    fail(operation, (std::string(major) + " " + minor).c_str());
}

void require(bool condition, const char *requirement) {
    if (!condition)
        fail("not so", requirement);
}

scale_ia::scale_ia(const char *name) {
    check_dat(dat_ia_open(const_cast<char *>(name), 8, &async_evd_, &handle), "dat_ia_open");
    check_dat(dat_pz_create(handle, &pz), "dat_pz_create");
    DAT_IA_ATTR ia_attr;
    check_dat(dat_ia_query(handle, nullptr, DAT_IA_FIELD_IA_ADDRESS_PTR, &ia_attr, 0, nullptr),
              "dat_ia_query");
    address = ia_attr.ia_address_ptr;
}

scale_ia::~scale_ia() {
    check_dat(dat_pz_free(pz), "dat_pz_free");
    check_dat(dat_ia_close(handle, DAT_CLOSE_GRACEFUL_FLAG), "dat_ia_close");
}

DAT_EVD_HANDLE scale_ia::create_evd(DAT_COUNT min_qlen, DAT_EVD_FLAGS flags) const {
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    check_dat(dat_evd_create(handle, min_qlen, DAT_HANDLE_NULL, flags, &evd), "dat_evd_create");
    return evd;
}

registered_lmr::registered_lmr(const scale_ia &ia, std::span<std::byte> memory) {
    DAT_REGION_DESCRIPTION region_desc;
    region_desc.for_va = memory.data();
    DAT_RMR_CONTEXT rmr_context;
    DAT_VLEN size;
    DAT_VADDR address;
    check_dat(dat_lmr_create(ia.handle, DAT_MEM_TYPE_VIRTUAL, region_desc, memory.size(), ia.pz,
                             DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, &handle, &triplet.lmr_context,
                             &rmr_context, &size, &address),
              "dat_lmr_create");
    triplet.virtual_address = reinterpret_cast<std::uintptr_t>(memory.data());
    triplet.segment_length = static_cast<DAT_SEG_LENGTH>(memory.size());
}

DAT_LMR_TRIPLET registered_lmr::make_triplet(std::size_t offset, std::size_t size) const {
    DAT_LMR_TRIPLET part = triplet;
    part.virtual_address += offset;
    part.segment_length = static_cast<DAT_SEG_LENGTH>(size);
    return part;
}

DAT_EVENT wait_event(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER expected) {
    constexpr DAT_TIMEOUT minute = 60000000;
    DAT_EVENT event;
    DAT_COUNT nmore;
    check_dat(dat_evd_wait(evd, minute, 1, &event, &nmore), "dat_evd_wait");
    if (event.event_number != expected)
        fail("an event that was not expected", std::to_string(event.event_number).c_str());
    return event;
}

DAT_UINT64 expect_dto(DAT_EVD_HANDLE evd, std::size_t length) {
    const DAT_EVENT event = wait_event(evd, DAT_DTO_COMPLETION_EVENT);
    const auto &dto = event.event_data.dto_completion_event_data;
    require(dto.status == DAT_DTO_SUCCESS, "a request succeeds");
    require(dto.transfered_length == length, "all of it was transferred");
    return dto.user_cookie.as_64;
}

DAT_DTO_COOKIE make_cookie(DAT_UINT64 value) {
    DAT_DTO_COOKIE cookie;
    cookie.as_64 = value;
    return cookie;
}

} // namespace scale
