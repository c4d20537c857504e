// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "consumer.hpp"

#include <algorithm>
#include <unistd.h>
#include <utility>

namespace fake {

const DAT_PROVIDER &dat() {
    return *find_table("roce");
}

void register_names() {
    auto info = make_info("roce");
    dat_provider_init(&info, "roce0 0");
    info = make_info("iwarp");
    dat_provider_init(&info, "iwarp0 0");
}

int reset_fabric(void **) {
    get_fabric().reset();
    fake_registry().ia_handles.clear();
    return 0;
}

int assert_no_leaks(void **) {
    static std::map<std::string, int> objects_of_failed_tests;
    if (!test_has_returned) {
        objects_of_failed_tests = get_fabric().count_objects();
        return 0;
    }
    // An attempt to connect on iWARP that has ended is destroyed later, by another thread.
    const bool has_no_leaks = wait_until([] {
        const auto counts = get_fabric().count_objects();
        return std::all_of(counts.begin(), counts.end(), [](const auto &count) {
            return count.second <= objects_of_failed_tests[count.first];
        });
    });
    return has_no_leaks ? 0 : get_fabric().num_all_objects();
}

socket_address parse_address(const char *address, std::uint16_t port) {
    socket_address addr = {};
    if (inet_pton(AF_INET, address, &addr.sin.sin_addr) == 1) {
        addr.sin.sin_family = AF_INET;
        addr.sin.sin_port = htons(port);
    } else if (inet_pton(AF_INET6, address, &addr.sin6.sin6_addr) == 1) {
        addr.sin6.sin6_family = AF_INET6;
        addr.sin6.sin6_port = htons(port);
    }
    return addr;
}

ia_fixture::ia_fixture(const char *name)
    : address(std::strcmp(name, "iwarp") == 0 ? "192.0.2.2" : "192.0.2.1") {
    std::string copy = name;
    assert_int_equal(find_table(name)->ia_open_func(copy.data(), 8, &async_evd, &handle),
                     DAT_SUCCESS);
    pz = create_pz();
}

ia_fixture::~ia_fixture() {
    if (handle != DAT_HANDLE_NULL)
        fake::close(*this);
}

void ia_fixture::close(DAT_CLOSE_FLAGS flags) {
    assert_int_equal(dat().ia_close_func(handle, flags), DAT_SUCCESS);
    handle = DAT_HANDLE_NULL;
}

void close(ia_fixture &ia) {
    assert_success(dat().pz_free_func(ia.pz));
    ia.close(DAT_CLOSE_GRACEFUL_FLAG);
}

DAT_EVD_HANDLE ia_fixture::create_evd(DAT_EVD_FLAGS flags, DAT_COUNT length,
                                      DAT_CNO_HANDLE cno) const {
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    assert_int_equal(dat().evd_create_func(handle, length, cno, flags, &evd), DAT_SUCCESS);
    return evd;
}

DAT_CNO_HANDLE ia_fixture::create_cno() const {
    DAT_CNO_HANDLE cno = DAT_HANDLE_NULL;
    assert_int_equal(dat().cno_create_func(handle, {nullptr, nullptr}, &cno), DAT_SUCCESS);
    return cno;
}

DAT_PZ_HANDLE ia_fixture::create_pz() const {
    DAT_PZ_HANDLE new_pz = DAT_HANDLE_NULL;
    assert_int_equal(dat().pz_create_func(handle, &new_pz), DAT_SUCCESS);
    return new_pz;
}

DAT_SRQ_HANDLE ia_fixture::create_srq(DAT_COUNT dtos) const {
    DAT_SRQ_ATTR attr = {};
    attr.max_recv_dtos = dtos;
    attr.max_recv_iov = 4;
    DAT_SRQ_HANDLE srq = DAT_HANDLE_NULL;
    assert_int_equal(dat().srq_create_func(handle, pz, &attr, &srq), DAT_SUCCESS);
    return srq;
}

memory::memory(const ia_fixture &owner, std::size_t size, DAT_MEM_PRIV_FLAGS privileges,
               DAT_VA_TYPE va, DAT_PZ_HANDLE pz)
    : ia(owner)
    , bytes(size) {
    DAT_REGION_DESCRIPTION region_desc = {};
    region_desc.for_va = bytes.data();
    assert_int_equal(dat().lmr_create_func(ia.handle, DAT_MEM_TYPE_VIRTUAL, region_desc, size,
                                           pz != DAT_HANDLE_NULL ? pz : ia.pz, privileges, va, &lmr,
                                           &lmr_context, &rmr_context, nullptr,
                                           &registered_address),
                     DAT_SUCCESS);
}

memory::~memory() {
    if (ia.handle != DAT_HANDLE_NULL && lmr != DAT_HANDLE_NULL)
        free();
}

void memory::free() {
    assert_success(dat().lmr_free_func(std::exchange(lmr, DAT_HANDLE_NULL)));
}

DAT_LMR_TRIPLET memory::lmr_triplet(std::size_t offset, std::size_t length) const {
    return {registered_address + offset, static_cast<DAT_SEG_LENGTH>(length), lmr_context};
}

DAT_RMR_TRIPLET memory::rmr_triplet(std::size_t offset, std::size_t length) const {
    return {registered_address + offset, static_cast<DAT_SEG_LENGTH>(length), rmr_context};
}

void memory::fill(unsigned seed) {
    for (std::size_t i = 0; i != bytes.size(); ++i)
        bytes[i] = static_cast<unsigned char>(seed + i * 7 + i / 256);
}

ep_fixture::ep_fixture(const ia_fixture &owner, const DAT_EP_ATTR *attr, DAT_SRQ_HANDLE srq)
    : ia(owner)
    , recv_evd(ia.create_evd(DAT_EVD_DTO_FLAG))
    , request_evd(ia.create_evd(DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG))
    , connect_evd(ia.create_evd(DAT_EVD_CONNECTION_FLAG)) {
    const DAT_RETURN result =
        srq == DAT_HANDLE_NULL
            ? dat().ep_create_func(ia.handle, ia.pz, recv_evd, request_evd, connect_evd, attr,
                                   &handle)
            : dat().ep_create_with_srq_func(ia.handle, ia.pz, recv_evd, request_evd, connect_evd,
                                            srq, attr, &handle);
    assert_int_equal(result, DAT_SUCCESS);
}

ep_fixture::~ep_fixture() {
    if (ia.handle != DAT_HANDLE_NULL && handle != DAT_HANDLE_NULL)
        free();
}

void ep_fixture::free() {
    assert_success(dat().ep_free_func(std::exchange(handle, DAT_HANDLE_NULL)));
    for (const DAT_EVD_HANDLE evd : {recv_evd, request_evd, connect_evd})
        assert_success(dat().evd_free_func(evd));
}

DAT_EP_STATE ep_fixture::state() const {
    DAT_EP_STATE now = DAT_EP_STATE_UNCONNECTED;
    assert_int_equal(dat().ep_get_status_func(handle, &now, nullptr, nullptr), DAT_SUCCESS);
    return now;
}

DAT_RETURN post_event(DAT_EVD_HANDLE evd, std::uintptr_t pointer) {
    DAT_EVENT event = {};
    event.event_number = DAT_SOFTWARE_EVENT;
    event.event_data.software_event_data.pointer = reinterpret_cast<void *>(pointer);
    return dat().evd_post_se_func(evd, &event);
}

DAT_EVENT wait_event(DAT_EVD_HANDLE evd, DAT_UINT32 number) {
    DAT_EVENT event = {};
    DAT_COUNT nmore = 0;
    assert_int_equal(dat().evd_wait_func(evd, event_timeout_us, 1, &event, &nmore), DAT_SUCCESS);
    assert_int_equal(event.event_number, number);
    assert_ptr_equal(event.evd_handle, evd);
    return event;
}

void assert_no_event(DAT_EVD_HANDLE evd) {
    DAT_EVENT event = {};
    DAT_COUNT nmore = 0;
    const DAT_RETURN result = dat().evd_wait_func(evd, 20000, 1, &event, &nmore);
    if (result == DAT_SUCCESS)
        print_error("event %#x came\n", static_cast<unsigned>(event.event_number));
    assert_int_equal(result, dat_error(DAT_TIMEOUT_EXPIRED));
}

DAT_CR_HANDLE request_connection(const ep_fixture &active, const ia_fixture &passive,
                                 DAT_EVD_HANDLE requests, const void *data, DAT_COUNT size) {
    DAT_CONN_QUAL port = 0;
    DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
    assert_int_equal(
        dat().psp_create_any_func(passive.handle, &port, requests, DAT_PSP_CONSUMER_FLAG, &psp),
        DAT_SUCCESS);
    socket_address addr = parse_address(passive.address);
    assert_int_equal(dat().ep_connect_func(active.handle, &addr.sa, port, DAT_TIMEOUT_INFINITE,
                                           size, const_cast<void *>(data), DAT_QOS_BEST_EFFORT,
                                           DAT_CONNECT_DEFAULT_FLAG),
                     DAT_SUCCESS);
    const DAT_EVENT event = wait_event(requests, DAT_CONNECTION_REQUEST_EVENT);
    assert_int_equal(dat().psp_free_func(psp), DAT_SUCCESS);
    return event.event_data.cr_arrival_event_data.cr_handle;
}

void connect(const ep_fixture &active, const ep_fixture &passive) {
    DAT_EVD_HANDLE const requests = passive.ia.create_evd(DAT_EVD_CR_FLAG);
    DAT_CR_HANDLE const request = request_connection(active, passive.ia, requests);
    assert_int_equal(dat().cr_accept_func(request, passive.handle, 0, nullptr), DAT_SUCCESS);
    wait_event(active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    wait_event(passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    assert_int_equal(dat().evd_free_func(requests), DAT_SUCCESS);
}

void disconnect(const ep_fixture &ep, const ep_fixture &peer_ep) {
    assert_int_equal(dat().ep_disconnect_func(ep.handle, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
    wait_event(ep.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    wait_event(peer_ep.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
}

ibv_qp *qp_of(DAT_EP_HANDLE ep) {
    const library_call_guard call;
    fake_qp *newest = nullptr;
    for (ibv_qp *const qp : get_fabric().qps)
        if (qp->qp_context == ep && (newest == nullptr || newest->qp_num < qp->qp_num))
            newest = static_cast<fake_qp *>(qp);
    return newest;
}

DAT_DTO_COOKIE cookie(std::uint64_t value) {
    DAT_DTO_COOKIE user_cookie;
    user_cookie.as_64 = value;
    return user_cookie;
}

bool wait_until(const std::function<bool()> &condition) {
    for (int tries = 0; tries != 60000; ++tries) {
        if (condition())
            return true;
        usleep(1000);
    }
    return false;
}

} // namespace fake

extern "C" DAT_RETURN dat_extension_op(DAT_HANDLE handle, DAT_EXTENDED_OP operation, ...) {
    va_list arguments;
    va_start(arguments, operation);
    const DAT_RETURN result = fake::dat().handle_extendedop_func(handle, operation, arguments);
    va_end(arguments);
    return result;
}
