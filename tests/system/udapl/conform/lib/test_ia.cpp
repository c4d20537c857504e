// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "test_ia.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <sys/mman.h>
#include <thread>

namespace conform {

namespace {

char *ia_name() {
    return const_cast<char *>(settings().ia);
}

kernel_counts count_device_objects() {
    if (settings().device.empty())
        return {};
    const kernel_counts counts = count_kernel_objects(settings().device);
    require(!counts.empty(), "the kernel has no device " + settings().device);
    return counts;
}

/// What there is more of.
kernel_counts leaked_objects(const kernel_counts &baseline) {
    kernel_counts leaked;
    for (const auto &[kind, count] : count_device_objects())
        if (const auto it = baseline.find(kind); it != baseline.end() && count > it->second)
            leaked[kind] = count - it->second;
    return leaked;
}

// A connection may outlive its endpoint, for eight seconds at most: until the peer knows of its
// end. On iWARP an attempt that was ended may, with its QP, CQs and PD: until the peer answers,
// which the kernel waits for ten seconds.
constexpr std::chrono::seconds disconnect_linger{15};

void expect_no_leak(const kernel_counts &baseline, source_location loc) {
    kernel_counts leaked = leaked_objects(baseline);
    const auto deadline = std::chrono::steady_clock::now() + disconnect_linger;
    while (!leaked.empty() && std::chrono::steady_clock::now() < deadline) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        leaked = leaked_objects(baseline);
    }
    for (const auto &[kind, count] : leaked)
        expect_true(
            false, concat("the kernel has ", count, " more objects of kind ", kind, " than before"),
            loc);
}

} // namespace

DAT_HANDLE stray_handle() {
    alignas(64) static unsigned char bytes[1024] = {};
    return bytes;
}

test_ia::test_ia(source_location loc) {
    require_success(dat_ia_open(ia_name(), 8, &async_evd_, &handle_), loc);
    baseline_ = count_device_objects();
}

test_ia::~test_ia() {
    if (!handle_)
        return;
    const bool skip_checks = std::uncaught_exceptions() != 0 || !failures().empty();
    if (!skip_checks) {
        expect_no_leak(baseline_, current_location());
        const DAT_RETURN ret = dat_ia_close(handle_, DAT_CLOSE_GRACEFUL_FLAG);
        if (ret == DAT_SUCCESS)
            return;
        add_failure("the IA, everything freed, is not closed: " + return_name(ret));
    }
    dat_ia_close(handle_, DAT_CLOSE_ABRUPT_FLAG);
}

void test_ia::update_baseline() {
    baseline_ = count_device_objects();
}

const DAT_IA_ATTR &test_ia::ia_attr() const {
    if (!ia_attr_) {
        ia_attr_.emplace();
        require_success(
            dat_ia_query(handle_, nullptr, DAT_IA_FIELD_ALL, ia_attr_->ptr(), 0, nullptr));
    }
    return ia_attr_->value();
}
const DAT_PROVIDER_ATTR &test_ia::provider_attr() const {
    if (!provider_attr_) {
        provider_attr_.emplace();
        require_success(dat_ia_query(handle_, nullptr, 0, nullptr, DAT_PROVIDER_FIELD_ALL,
                                     provider_attr_->ptr()));
    }
    return provider_attr_->value();
}

sockaddr_in test_ia::ipv4_address() const {
    sockaddr_in address{};
    require(ia_attr().ia_address_ptr && ia_attr().ia_address_ptr->sa_family == AF_INET,
            "the IA's address is not one of IPv4");
    std::memcpy(&address, ia_attr().ia_address_ptr, sizeof address);
    return address;
}

unique_pz test_ia::create_pz(source_location loc) const {
    DAT_PZ_HANDLE handle = nullptr;
    require_success(dat_pz_create(handle_, &handle), loc);
    return unique_pz(handle, loc);
}
unique_evd test_ia::create_evd(DAT_EVD_FLAGS flags, DAT_COUNT qlen, DAT_CNO_HANDLE cno,
                               source_location loc) const {
    DAT_EVD_HANDLE handle = nullptr;
    require_success(dat_evd_create(handle_, qlen, cno, flags, &handle), loc);
    return unique_evd(handle, loc);
}
unique_cno test_ia::create_cno(source_location loc) const {
    DAT_CNO_HANDLE handle = nullptr;
    require_success(dat_cno_create(handle_, DAT_OS_WAIT_PROXY_AGENT{nullptr, nullptr}, &handle),
                    loc);
    return unique_cno(handle, loc);
}

mapping::mapping(std::size_t bytes, int flags, void *address)
    : bytes_(bytes) {
    flags |= MAP_ANONYMOUS | MAP_POPULATE | (address != nullptr ? MAP_FIXED_NOREPLACE : 0);
    void *start = mmap(address, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (start == MAP_FAILED)
        throw std::runtime_error("mmap");
    start_ = static_cast<std::byte *>(start);
}
mapping::~mapping() {
    munmap(start_, bytes_);
}

test_lmr::test_lmr(const test_ia &ia, DAT_PZ_HANDLE pz, std::size_t bytes,
                   DAT_MEM_PRIV_FLAGS privileges, source_location loc)
    : ia_(ia)
    , memory_(bytes) {
    DAT_REGION_DESCRIPTION desc{};
    desc.for_va = memory_.data();
    DAT_LMR_HANDLE handle = nullptr;
    DAT_VLEN registered_size = 0;
    DAT_VADDR registered_address = 0;
    require_success(dat_lmr_create(ia, DAT_MEM_TYPE_VIRTUAL, desc, bytes, pz, privileges,
                                   DAT_VA_TYPE_VA, &handle, &lmr_context_, &rmr_context_,
                                   &registered_size, &registered_address),
                    loc);
    handle_ = unique_lmr(handle, loc);
}
DAT_LMR_TRIPLET test_lmr::make_lmr_triplet(std::size_t offset, std::size_t length) const {
    return {address(offset), static_cast<DAT_SEG_LENGTH>(length), lmr_context_};
}
DAT_RMR_TRIPLET test_lmr::make_rmr_triplet(std::size_t offset, std::size_t length) const {
    return {address(offset), static_cast<DAT_SEG_LENGTH>(length), rmr_context_};
}

void test_lmr::sync_rdma_read(std::size_t offset, std::size_t length, source_location loc) const {
    const DAT_LMR_TRIPLET segment = make_lmr_triplet(offset, length);
    require_success(dat_lmr_sync_rdma_read(ia_, &segment, 1), loc);
}
void test_lmr::sync_rdma_write(std::size_t offset, std::size_t length, source_location loc) const {
    const DAT_LMR_TRIPLET segment = make_lmr_triplet(offset, length);
    require_success(dat_lmr_sync_rdma_write(ia_, &segment, 1), loc);
}

DAT_EVENT next_event(DAT_EVD_HANDLE evd, source_location loc) {
    DAT_EVENT event{};
    DAT_COUNT nmore = 0;
    require_success(dat_evd_wait(evd, dat_timeout(event_timeout), 1, &event, &nmore), loc);
    return event;
}
DAT_EVENT next_event(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER number, source_location loc) {
    const DAT_EVENT event = next_event(evd, loc);
    if (!expect_eq(event.event_number, number, "the event", loc))
        throw case_aborted();
    expect_eq(event.evd_handle, evd, "the event's EVD", loc);
    return event;
}
bool expect_no_event(DAT_EVD_HANDLE evd, milliseconds timeout, source_location loc) {
    DAT_EVENT event{};
    DAT_COUNT nmore = 0;
    const milliseconds wait_time = std::min(timeout, milliseconds(settings().quiet_ms));
    const DAT_RETURN ret = dat_evd_wait(evd, dat_timeout(wait_time), 1, &event, &nmore);
    return expect_true(DAT_GET_TYPE(ret) == DAT_TIMEOUT_EXPIRED,
                       ret == DAT_SUCCESS ? "there is an event: " + to_string(event.event_number)
                                          : "waiting for no event: " + return_name(ret),
                       loc);
}

DAT_EVENT make_software_event(DAT_UINT64 pointer) {
    DAT_EVENT event{};
    event.event_number = DAT_SOFTWARE_EVENT;
    event.event_data.software_event_data.pointer = make_context(pointer).as_ptr;
    return event;
}
DAT_UINT64 software_event_pointer(const DAT_EVENT &event) {
    return reinterpret_cast<DAT_UINT64>(event.event_data.software_event_data.pointer);
}

} // namespace conform
