// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The cm_ids of librdmacm. What it calls for them, ibv_create_qp() and others, is observed as it
// comes: the interposer's functions are called.

#include "calls.hpp"
#include "observers.hpp"

#include <rdma/rdma_cma.h>
#include <type_traits>

using namespace coherdma::interposer;

namespace {

struct librdmacm_functions {
    decltype(rdma_accept) *accept;
    decltype(rdma_bind_addr) *bind_addr;
    decltype(rdma_connect) *connect;
    decltype(rdma_create_id) *create_id;
    decltype(rdma_create_ep) *create_ep;
    decltype(rdma_destroy_id) *destroy_id;
    decltype(rdma_destroy_ep) *destroy_ep;
    decltype(rdma_disconnect) *disconnect;
    decltype(rdma_get_cm_event) *get_cm_event;
    decltype(rdma_get_request) *get_request;
    decltype(rdma_join_multicast) *join_multicast;
    decltype(rdma_listen) *listen;
    decltype(rdma_migrate_id) *migrate_id;
    decltype(rdma_reject) *reject;
    decltype(rdma_resolve_addr) *resolve_addr;
    decltype(rdma_resolve_route) *resolve_route;
    decltype(rdma_set_option) *set_option;
};

/// Of the librdmacm that the program has loaded.
const librdmacm_functions &librdmacm() noexcept {
    static const librdmacm_functions functions = [] {
        const symbol_table symbols("librdmacm.so.1");
        librdmacm_functions result = {};
        symbols.find(result.accept, "rdma_accept", "RDMACM_1.0");
        symbols.find(result.bind_addr, "rdma_bind_addr", "RDMACM_1.0");
        symbols.find(result.connect, "rdma_connect", "RDMACM_1.0");
        symbols.find(result.create_id, "rdma_create_id", "RDMACM_1.0");
        symbols.find(result.create_ep, "rdma_create_ep", "RDMACM_1.0");
        symbols.find(result.destroy_id, "rdma_destroy_id", "RDMACM_1.0");
        symbols.find(result.destroy_ep, "rdma_destroy_ep", "RDMACM_1.0");
        symbols.find(result.disconnect, "rdma_disconnect", "RDMACM_1.0");
        symbols.find(result.get_cm_event, "rdma_get_cm_event", "RDMACM_1.0");
        symbols.find(result.get_request, "rdma_get_request", "RDMACM_1.0");
        symbols.find(result.join_multicast, "rdma_join_multicast", "RDMACM_1.0");
        symbols.find(result.listen, "rdma_listen", "RDMACM_1.0");
        symbols.find(result.migrate_id, "rdma_migrate_id", "RDMACM_1.0");
        symbols.find(result.reject, "rdma_reject", "RDMACM_1.0");
        symbols.find(result.resolve_addr, "rdma_resolve_addr", "RDMACM_1.0");
        symbols.find(result.resolve_route, "rdma_resolve_route", "RDMACM_1.0");
        symbols.find(result.set_option, "rdma_set_option", "RDMACM_1.0");
        return result;
    }();
    return functions;
}

/// A cm_id need not have a device: all observers get its events. librdmacm may have called another
/// of these functions for it, so that it is known.
void add_cm_id(const rdma_cm_id *id) {
    const object_record *const known = tables().others.find(id);
    if (known == nullptr || known->is_being_destroyed) // then this is another one at its address
        add_object(object_kind::CM_ID, id, id->verbs, loaded_observers());
}

int fail_cm_call(int error) noexcept {
    errno = error;
    return -1;
}

/// A call of which observers learn only that it begins.
template <class... parameters>
int call_librdmacm(const char *name, int (*function)(parameters...),
                   std::type_identity_t<parameters>... arguments) {
    if (const int error = failure_of(name))
        return fail_cm_call(error);
    return function(arguments...);
}

} // namespace

const void *coherdma::interposer::find_librdmacm() noexcept {
    return reinterpret_cast<const void *>(librdmacm().create_id);
}

extern "C" {

int rdma_create_id(rdma_event_channel *channel, rdma_cm_id **id, void *context,
                   rdma_port_space port_space) {
    if (const int error = failure_of("rdma_create_id"))
        return fail_cm_call(error);
    const int result = librdmacm().create_id(channel, id, context, port_space);
    if (result == 0)
        add_cm_id(*id);
    return result;
}

int rdma_create_ep(rdma_cm_id **id, rdma_addrinfo *res, ibv_pd *pd, ibv_qp_init_attr *attr) {
    if (const int error = failure_of("rdma_create_ep"))
        return fail_cm_call(error);
    const int result = librdmacm().create_ep(id, res, pd, attr);
    if (result == 0)
        add_cm_id(*id);
    return result;
}

int rdma_get_cm_event(rdma_event_channel *channel, rdma_cm_event **event) {
    if (const int error = failure_of("rdma_get_cm_event"))
        return fail_cm_call(error);
    const int result = librdmacm().get_cm_event(channel, event);
    if (result == 0 && (*event)->event == RDMA_CM_EVENT_CONNECT_REQUEST)
        add_cm_id((*event)->id);
    return result;
}

int rdma_get_request(rdma_cm_id *listener, rdma_cm_id **id) {
    if (const int error = failure_of("rdma_get_request"))
        return fail_cm_call(error);
    const int result = librdmacm().get_request(listener, id);
    if (result == 0)
        add_cm_id(*id);
    return result;
}

/// The QP need not be one that librdmacm knows.
int rdma_disconnect(rdma_cm_id *id) {
    if (const int error = failure_of("rdma_disconnect"))
        return fail_cm_call(error);
    held_posts::release_all(id->verbs);
    return librdmacm().disconnect(id);
}

int rdma_destroy_id(rdma_cm_id *id) {
    if (const int error = failure_of("rdma_destroy_id"))
        return fail_cm_call(error);
    return destroy_object(id, [=] {
        held_posts::release_all(id->verbs);
        return librdmacm().destroy_id(id);
    });
}

void rdma_destroy_ep(rdma_cm_id *id) {
    destroy_object(id, [=] {
        held_posts::release_all(id->verbs);
        librdmacm().destroy_ep(id);
        return 0;
    });
}

int rdma_bind_addr(rdma_cm_id *id, sockaddr *addr) {
    return call_librdmacm("rdma_bind_addr", librdmacm().bind_addr, id, addr);
}

int rdma_resolve_addr(rdma_cm_id *id, sockaddr *source, sockaddr *destination, int timeout_ms) {
    return call_librdmacm("rdma_resolve_addr", librdmacm().resolve_addr, id, source, destination,
                          timeout_ms);
}

int rdma_resolve_route(rdma_cm_id *id, int timeout_ms) {
    return call_librdmacm("rdma_resolve_route", librdmacm().resolve_route, id, timeout_ms);
}

int rdma_listen(rdma_cm_id *id, int backlog) {
    return call_librdmacm("rdma_listen", librdmacm().listen, id, backlog);
}

int rdma_connect(rdma_cm_id *id, rdma_conn_param *param) {
    return call_librdmacm("rdma_connect", librdmacm().connect, id, param);
}

int rdma_accept(rdma_cm_id *id, rdma_conn_param *param) {
    return call_librdmacm("rdma_accept", librdmacm().accept, id, param);
}

int rdma_reject(rdma_cm_id *id, const void *private_data, std::uint8_t length) {
    return call_librdmacm("rdma_reject", librdmacm().reject, id, private_data, length);
}

int rdma_join_multicast(rdma_cm_id *id, sockaddr *addr, void *context) {
    return call_librdmacm("rdma_join_multicast", librdmacm().join_multicast, id, addr, context);
}

int rdma_set_option(rdma_cm_id *id, int level, int name, void *value, std::size_t length) {
    return call_librdmacm("rdma_set_option", librdmacm().set_option, id, level, name, value,
                          length);
}

int rdma_migrate_id(rdma_cm_id *id, rdma_event_channel *channel) {
    return call_librdmacm("rdma_migrate_id", librdmacm().migrate_id, id, channel);
}

} // extern "C"
