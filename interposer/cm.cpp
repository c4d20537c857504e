// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The cm_ids of librdmacm. What it calls for them, ibv_create_qp() and others, is observed as it
// comes: the interposer's functions are called.

#include "calls.hpp"
#include "observers.hpp"

#include <rdma/rdma_cma.h>

using namespace coherdma::interposer;

namespace {

struct librdmacm_functions {
    decltype(rdma_create_id) *create_id;
    decltype(rdma_create_ep) *create_ep;
    decltype(rdma_destroy_id) *destroy_id;
    decltype(rdma_destroy_ep) *destroy_ep;
    decltype(rdma_disconnect) *disconnect;
    decltype(rdma_get_cm_event) *get_cm_event;
    decltype(rdma_get_request) *get_request;
};

/// Of the librdmacm that the program has loaded.
const librdmacm_functions &librdmacm() noexcept {
    static const librdmacm_functions functions = [] {
        const symbol_table symbols("librdmacm.so.1");
        librdmacm_functions result = {};
        symbols.find(result.create_id, "rdma_create_id", "RDMACM_1.0");
        symbols.find(result.create_ep, "rdma_create_ep", "RDMACM_1.0");
        symbols.find(result.destroy_id, "rdma_destroy_id", "RDMACM_1.0");
        symbols.find(result.destroy_ep, "rdma_destroy_ep", "RDMACM_1.0");
        symbols.find(result.disconnect, "rdma_disconnect", "RDMACM_1.0");
        symbols.find(result.get_cm_event, "rdma_get_cm_event", "RDMACM_1.0");
        symbols.find(result.get_request, "rdma_get_request", "RDMACM_1.0");
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

} // extern "C"
