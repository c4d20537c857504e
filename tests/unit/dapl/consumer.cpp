// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "consumer.hpp"

#include <unistd.h>

namespace played {

const DAT_PROVIDER &dat() {
    return *table_of("ib");
}

void register_names() {
    auto info = info_of("ib");
    dat_provider_init(&info, "roce0 0");
    info = info_of("iw");
    dat_provider_init(&info, "iwarp0 0");
}

int fresh(void **) {
    net().reset();
    known_providers().numbers.clear();
    return 0;
}

int gone(void **) {
    return net().all_living();
}

place at(const char *address, std::uint16_t port) {
    place is = {};
    if (inet_pton(AF_INET, address, &is.v4.sin_addr) == 1) {
        is.v4.sin_family = AF_INET;
        is.v4.sin_port = htons(port);
    } else if (inet_pton(AF_INET6, address, &is.v6.sin6_addr) == 1) {
        is.v6.sin6_family = AF_INET6;
        is.v6.sin6_port = htons(port);
    }
    return is;
}

adapter::adapter(const char *name)
    : address(std::strcmp(name, "iw") == 0 ? "192.0.2.2" : "192.0.2.1") {
    std::string copy = name;
    assert_int_equal(table_of(name)->ia_open_func(copy.data(), 8, &async, &ia), DAT_SUCCESS);
    pz = zone();
}

adapter::~adapter() {
    if (ia != DAT_HANDLE_NULL)
        dat().ia_close_func(ia, DAT_CLOSE_ABRUPT_FLAG);
}

void adapter::close(DAT_CLOSE_FLAGS flags) {
    assert_int_equal(dat().ia_close_func(ia, flags), DAT_SUCCESS);
    ia = DAT_HANDLE_NULL;
}

DAT_EVD_HANDLE adapter::evd(DAT_EVD_FLAGS flags, DAT_COUNT length, DAT_CNO_HANDLE cno) const {
    DAT_EVD_HANDLE made = DAT_HANDLE_NULL;
    assert_int_equal(dat().evd_create_func(ia, length, cno, flags, &made), DAT_SUCCESS);
    return made;
}

DAT_CNO_HANDLE adapter::cno() const {
    DAT_CNO_HANDLE made = DAT_HANDLE_NULL;
    assert_int_equal(dat().cno_create_func(ia, {nullptr, nullptr}, &made), DAT_SUCCESS);
    return made;
}

DAT_PZ_HANDLE adapter::zone() const {
    DAT_PZ_HANDLE made = DAT_HANDLE_NULL;
    assert_int_equal(dat().pz_create_func(ia, &made), DAT_SUCCESS);
    return made;
}

DAT_SRQ_HANDLE adapter::srq(DAT_COUNT dtos) const {
    DAT_SRQ_ATTR attr = {};
    attr.max_recv_dtos = dtos;
    attr.max_recv_iov = 4;
    DAT_SRQ_HANDLE made = DAT_HANDLE_NULL;
    assert_int_equal(dat().srq_create_func(ia, pz, &attr, &made), DAT_SUCCESS);
    return made;
}

memory::memory(const adapter &of, std::size_t size, DAT_MEM_PRIV_FLAGS privileges, DAT_VA_TYPE va,
               DAT_PZ_HANDLE pz)
    : bytes(size) {
    DAT_REGION_DESCRIPTION where = {};
    where.for_va = bytes.data();
    assert_int_equal(dat().lmr_create_func(of.ia, DAT_MEM_TYPE_VIRTUAL, where, size,
                                           pz != DAT_HANDLE_NULL ? pz : of.pz, privileges, va, &lmr,
                                           &lmr_context, &rmr_context, nullptr, &begin),
                     DAT_SUCCESS);
}

void memory::free() {
    assert_int_equal(dat().lmr_free_func(lmr), DAT_SUCCESS);
}

DAT_LMR_TRIPLET memory::part(std::size_t offset, std::size_t length) const {
    return {begin + offset, static_cast<DAT_SEG_LENGTH>(length), lmr_context};
}

DAT_RMR_TRIPLET memory::remote(std::size_t offset, std::size_t length) const {
    return {begin + offset, static_cast<DAT_SEG_LENGTH>(length), rmr_context};
}

void memory::fill(unsigned seed) {
    for (std::size_t place = 0; place != bytes.size(); ++place)
        bytes[place] = static_cast<unsigned char>(seed + place * 7 + place / 256);
}

end::end(const adapter &of, const DAT_EP_ATTR *attr, DAT_SRQ_HANDLE srq)
    : on(of)
    , receives(of.evd(DAT_EVD_DTO_FLAG))
    , requests(of.evd(DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG))
    , connections(of.evd(DAT_EVD_CONNECTION_FLAG)) {
    const DAT_RETURN result =
        srq == DAT_HANDLE_NULL
            ? dat().ep_create_func(of.ia, of.pz, receives, requests, connections, attr, &ep)
            : dat().ep_create_with_srq_func(of.ia, of.pz, receives, requests, connections, srq,
                                            attr, &ep);
    assert_int_equal(result, DAT_SUCCESS);
}

void end::free() {
    assert_int_equal(dat().ep_free_func(ep), DAT_SUCCESS);
    assert_int_equal(dat().evd_free_func(receives), DAT_SUCCESS);
    assert_int_equal(dat().evd_free_func(requests), DAT_SUCCESS);
    assert_int_equal(dat().evd_free_func(connections), DAT_SUCCESS);
}

DAT_EP_STATE end::state() const {
    DAT_EP_STATE now = DAT_EP_STATE_UNCONNECTED;
    assert_int_equal(dat().ep_get_status_func(ep, &now, nullptr, nullptr), DAT_SUCCESS);
    return now;
}

DAT_EVENT next(DAT_EVD_HANDLE evd, DAT_UINT32 number) {
    DAT_EVENT event = {};
    DAT_COUNT more = 0;
    assert_int_equal(dat().evd_wait_func(evd, soon, 1, &event, &more), DAT_SUCCESS);
    assert_int_equal(event.event_number, number);
    assert_ptr_equal(event.evd_handle, evd);
    return event;
}

void none(DAT_EVD_HANDLE evd) {
    DAT_EVENT event = {};
    DAT_COUNT more = 0;
    const DAT_RETURN result = dat().evd_wait_func(evd, 20000, 1, &event, &more);
    if (result == DAT_SUCCESS)
        print_error("event %#x came\n", static_cast<unsigned>(event.event_number));
    assert_int_equal(result, error(DAT_TIMEOUT_EXPIRED));
}

DAT_CR_HANDLE ask(const end &active, const adapter &passive, DAT_EVD_HANDLE requests,
                  const void *data, DAT_COUNT size) {
    DAT_CONN_QUAL port = 0;
    DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
    assert_int_equal(
        dat().psp_create_any_func(passive.ia, &port, requests, DAT_PSP_CONSUMER_FLAG, &psp),
        DAT_SUCCESS);
    place to = at(passive.address);
    assert_int_equal(dat().ep_connect_func(active.ep, &to.any, port, DAT_TIMEOUT_INFINITE, size,
                                           const_cast<void *>(data), DAT_QOS_BEST_EFFORT,
                                           DAT_CONNECT_DEFAULT_FLAG),
                     DAT_SUCCESS);
    const DAT_EVENT event = next(requests, DAT_CONNECTION_REQUEST_EVENT);
    assert_int_equal(dat().psp_free_func(psp), DAT_SUCCESS);
    return event.event_data.cr_arrival_event_data.cr_handle;
}

void connect(const end &active, const end &passive) {
    DAT_EVD_HANDLE const requests = passive.on.evd(DAT_EVD_CR_FLAG);
    DAT_CR_HANDLE const request = ask(active, passive.on, requests);
    assert_int_equal(dat().cr_accept_func(request, passive.ep, 0, nullptr), DAT_SUCCESS);
    next(active.connections, DAT_CONNECTION_EVENT_ESTABLISHED);
    next(passive.connections, DAT_CONNECTION_EVENT_ESTABLISHED);
    assert_int_equal(dat().evd_free_func(requests), DAT_SUCCESS);
}

void disconnect(const end &one, const end &other) {
    assert_int_equal(dat().ep_disconnect_func(one.ep, DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
    next(one.connections, DAT_CONNECTION_EVENT_DISCONNECTED);
    next(other.connections, DAT_CONNECTION_EVENT_DISCONNECTED);
}

ibv_qp *pair_of(DAT_EP_HANDLE ep) {
    const entered call;
    qp *found = nullptr;
    for (ibv_qp *const each : net().pairs)
        if (each->qp_context == ep && (found == nullptr || found->qp_num < each->qp_num))
            found = static_cast<qp *>(each);
    return found;
}

DAT_DTO_COOKIE cookie(std::uint64_t word) {
    DAT_DTO_COOKIE made;
    made.as_64 = word;
    return made;
}

bool eventually(const std::function<bool()> &condition) {
    for (int tries = 0; tries != 5000; ++tries) {
        if (condition())
            return true;
        usleep(1000);
    }
    return false;
}

} // namespace played

extern "C" DAT_RETURN dat_extension_op(DAT_HANDLE handle, DAT_EXTENDED_OP operation, ...) {
    va_list arguments;
    va_start(arguments, operation);
    const DAT_RETURN result = played::dat().handle_extendedop_func(handle, operation, arguments);
    va_end(arguments);
    return result;
}
