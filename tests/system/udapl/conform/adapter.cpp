// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "adapter.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <sys/mman.h>
#include <thread>

namespace conform {

namespace {

char *name_of_ia() {
    return const_cast<char *>(settings().ia);
}

kernel_counts count_now() {
    if (settings().device.empty())
        return {};
    const kernel_counts all = count_kernel_objects(settings().device);
    require(!all.empty(), "the kernel has no device " + settings().device);
    return all;
}

/// What there is more of.
kernel_counts left_now(const kernel_counts &before) {
    kernel_counts left;
    for (const auto &[kind, count] : count_now())
        if (const auto was = before.find(kind); was != before.end() && count > was->second)
            left[kind] = count - was->second;
    return left;
}

// A connection may outlive its endpoint, for eight seconds at most: until the peer knows of its
// end.
constexpr std::chrono::seconds farewell{9};

void nothing_left(const kernel_counts &before, source_location loc) {
    kernel_counts left = left_now(before);
    const auto end = std::chrono::steady_clock::now() + farewell;
    while (left.contains("cm_id") && std::chrono::steady_clock::now() < end) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        left = left_now(before);
    }
    for (const auto &[kind, count] : left)
        expect_true(
            false, concat("the kernel has ", count, " more objects of kind ", kind, " than before"),
            loc);
}

} // namespace

DAT_HANDLE stray_handle() {
    alignas(64) static unsigned char bytes[1024] = {};
    return bytes;
}

adapter::adapter(source_location loc) {
    require_success(dat_ia_open(name_of_ia(), 8, &async_, &handle_), loc);
    before_ = count_now();
}

adapter::~adapter() {
    if (!handle_)
        return;
    const bool quietly = std::uncaught_exceptions() != 0 || !failures().empty();
    if (!quietly) {
        nothing_left(before_, current_location());
        const DAT_RETURN closed = dat_ia_close(handle_, DAT_CLOSE_GRACEFUL_FLAG);
        if (closed == DAT_SUCCESS)
            return;
        add_failure("the IA, everything freed, is not closed: " + return_name(closed));
    }
    dat_ia_close(handle_, DAT_CLOSE_ABRUPT_FLAG);
}

void adapter::recount() {
    before_ = count_now();
}

const DAT_IA_ATTR &adapter::attributes() const {
    if (!attributes_) {
        attributes_.emplace();
        require_success(
            dat_ia_query(handle_, nullptr, DAT_IA_FIELD_ALL, attributes_->out(), 0, nullptr));
    }
    return attributes_->in();
}
const DAT_PROVIDER_ATTR &adapter::provider() const {
    if (!provider_) {
        provider_.emplace();
        require_success(
            dat_ia_query(handle_, nullptr, 0, nullptr, DAT_PROVIDER_FIELD_ALL, provider_->out()));
    }
    return provider_->in();
}

sockaddr_in adapter::address() const {
    sockaddr_in is{};
    require(attributes().ia_address_ptr && attributes().ia_address_ptr->sa_family == AF_INET,
            "the IA's address is not one of IPv4");
    std::memcpy(&is, attributes().ia_address_ptr, sizeof is);
    return is;
}

unique_pz adapter::zone(source_location loc) const {
    DAT_PZ_HANDLE made = nullptr;
    require_success(dat_pz_create(handle_, &made), loc);
    return unique_pz(made, loc);
}
unique_evd adapter::events(DAT_EVD_FLAGS flags, DAT_COUNT qlen, DAT_CNO_HANDLE to,
                           source_location loc) const {
    DAT_EVD_HANDLE made = nullptr;
    require_success(dat_evd_create(handle_, qlen, to, flags, &made), loc);
    return unique_evd(made, loc);
}
unique_cno adapter::notifier(source_location loc) const {
    DAT_CNO_HANDLE made = nullptr;
    require_success(dat_cno_create(handle_, DAT_OS_WAIT_PROXY_AGENT{nullptr, nullptr}, &made), loc);
    return unique_cno(made, loc);
}

pages::pages(std::size_t bytes, int flags, void *address)
    : bytes_(bytes) {
    flags |= MAP_ANONYMOUS | MAP_POPULATE | (address != nullptr ? MAP_FIXED_NOREPLACE : 0);
    void *start = mmap(address, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (start == MAP_FAILED)
        throw std::runtime_error("mmap");
    start_ = static_cast<std::byte *>(start);
}
pages::~pages() {
    munmap(start_, bytes_);
}

region::region(const adapter &ia, DAT_PZ_HANDLE zone, std::size_t bytes,
               DAT_MEM_PRIV_FLAGS privileges, source_location loc)
    : memory_(bytes) {
    DAT_REGION_DESCRIPTION where{};
    where.for_va = memory_.data();
    DAT_LMR_HANDLE made = nullptr;
    DAT_VLEN size = 0;
    DAT_VADDR start = 0;
    require_success(dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, where, bytes, zone, privileges,
                                   DAT_VA_TYPE_VA, &made, &lmr_context_, &rmr_context_, &size,
                                   &start),
                    loc);
    handle_ = unique_lmr(made, loc);
}
DAT_LMR_TRIPLET region::piece(std::size_t at, std::size_t length) const {
    return {address(at), static_cast<DAT_SEG_LENGTH>(length), lmr_context_};
}
DAT_RMR_TRIPLET region::target(std::size_t at, std::size_t length) const {
    return {address(at), static_cast<DAT_SEG_LENGTH>(length), rmr_context_};
}

DAT_EVENT next_event(DAT_EVD_HANDLE from, source_location loc) {
    DAT_EVENT event{};
    DAT_COUNT more = 0;
    require_success(dat_evd_wait(from, dat_timeout(soon), 1, &event, &more), loc);
    return event;
}
DAT_EVENT next_event(DAT_EVD_HANDLE from, DAT_EVENT_NUMBER number, source_location loc) {
    const DAT_EVENT event = next_event(from, loc);
    if (!expect_eq(event.event_number, number, "the event", loc))
        throw case_aborted();
    expect_eq(event.evd_handle, from, "the event's EVD", loc);
    return event;
}
bool no_event(DAT_EVD_HANDLE from, milliseconds within, source_location loc) {
    DAT_EVENT event{};
    DAT_COUNT more = 0;
    const milliseconds time = std::min(within, milliseconds(settings().quiet_ms));
    const DAT_RETURN got = dat_evd_wait(from, dat_timeout(time), 1, &event, &more);
    return expect_true(DAT_GET_TYPE(got) == DAT_TIMEOUT_EXPIRED,
                       got == DAT_SUCCESS ? "there is an event: " + to_string(event.event_number)
                                          : "waiting for no event: " + return_name(got),
                       loc);
}

DAT_EVENT software_event(DAT_UINT64 pointer) {
    DAT_EVENT event{};
    event.event_number = DAT_SOFTWARE_EVENT;
    event.event_data.software_event_data.pointer = make_context(pointer).as_ptr;
    return event;
}
DAT_UINT64 pointer_of(const DAT_EVENT &event) {
    return reinterpret_cast<DAT_UINT64>(event.event_data.software_event_data.pointer);
}

} // namespace conform
