// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Datagram EPs of the InfiniBand extension, of the main IA. An address handle belongs to the
// consumer, and to the PZ: the thread that gets one uses it and frees it, and the PZ of all
// datagram EPs is freed at the end of the round. So is the EVD of their requests, which does not
// overflow: freeing a handle waits until the requests complete, or two seconds.

#include "steps.hpp"

#include <cstring>
#include <dat2/dat_ib_extensions.h>

namespace sequencer {

namespace {

DAT_EP_ATTR make_datagram_attr() {
    DAT_EP_ATTR attr = {};
    attr.service_type = static_cast<DAT_SERVICE_TYPE>(DAT_IB_SERVICE_TYPE_UD);
    attr.max_recv_dtos = attr.max_request_dtos = 16;
    attr.max_recv_iov = attr.max_request_iov = 2;
    return attr;
}

bool has_datagrams(const worker &thread) {
    return thread.shared.ia_attr.extension_supported == DAT_EXTENSION_IB;
}

void create(worker &thread) {
    if (!has_datagrams(thread))
        return;
    const object_ref ia = {thread.shared.main_ia, thread.shared.main_ia->handle};
    const object_ref pz = {thread.shared.datagram_pz, thread.shared.datagram_pz->handle},
                     request_evd = {thread.shared.datagram_evd, thread.shared.datagram_evd->handle},
                     recv_evd = thread.draw_evd(ia.obj, DAT_EVD_DTO_FLAG),
                     connect_evd = thread.draw_evd(ia.obj, DAT_EVD_CONNECTION_FLAG);
    DAT_EP_ATTR attr = make_datagram_attr();
    DAT_EP_HANDLE handle = DAT_HANDLE_NULL;
    call create_call(thread, rules::ep_create);
    create_call.creates(DAT_HANDLE_TYPE_EP);
    DAT_HANDLE const ia_handle = create_call.use_handle(ia, "ia"),
                     pz_handle = create_call.use_handle(pz, ia.obj, "pz"),
                     recv_handle = create_call.use_optional_evd(recv_evd, ia.obj, DAT_EVD_DTO_FLAG,
                                                                "recv_evd"),
                     request_handle =
                         create_call.use_evd(request_evd, ia.obj, DAT_EVD_DTO_FLAG, "request_evd"),
                     connect_handle = create_call.use_optional_evd(
                         connect_evd, connect_evd.obj != nullptr ? connect_evd.obj->ia : nullptr,
                         DAT_EVD_CONNECTION_FLAG, "connect_evd");
    create_call.check_result(dat_ep_create(ia_handle, pz_handle, recv_handle, request_handle,
                                           connect_handle, &attr, &handle));
    if (!create_call.has_succeeded())
        return;
    object &ep = thread.add_object(DAT_HANDLE_TYPE_EP, handle, ia.obj);
    ep.is_datagram = true;
    ep.pz = pz.obj;
    ep.recv_evd = recv_evd.obj;
    ep.request_evd = request_evd.obj;
    ep.connect_evd = connect_evd.obj;
    if (!thread.insert_unless_full(ep))
        free_object(thread, ep.type, {&ep, handle});
}

void send(worker &thread, const object_ref &ep, DAT_IB_ADDR_HANDLE &remote_ah) {
    DAT_LMR_TRIPLET segment = {};
    DAT_COUNT num_segments = 0;
    if (const object *const lmr = thread.find_live(DAT_HANDLE_TYPE_LMR, ep.obj->ia)) {
        segment = lmr->triplet;
        segment.segment_length = 8;
        num_segments = 1;
    }
    call post_call(thread, rules::ib_post_send_ud);
    DAT_HANDLE const handle = post_call.use_handle(ep, "ep");
    post_call.check_result(dat_ib_post_send_ud(handle, num_segments, &segment, &remote_ah,
                                               thread.draw_cookie(), DAT_COMPLETION_DEFAULT_FLAG));
}

/// dat_ib_ud_ah_free takes any EP of the PZ: this one, or, if it is freed, the one that lives as
/// long as the round.
void free_ah(worker &thread, const object_ref &ep, DAT_IB_ADDR_HANDLE &remote_ah) {
    object *const round_ep = thread.shared.datagram_ep;
    for (const object_ref &ref : {ep, object_ref{round_ep, round_ep->handle}}) {
        call free_call(thread, rules::ib_ud_ah_free);
        DAT_HANDLE const handle = free_call.use_handle(ref, "ep");
        free_call.check_result(dat_ib_ud_ah_free(handle, &remote_ah));
        if (free_call.has_succeeded())
            return;
    }
}

void free_cm(worker &thread, const object_ref &ep, DAT_CONTEXT context) {
    call free_call(thread, rules::ib_ud_cm_free);
    free_call.check_result(dat_ib_ud_cm_free(free_call.use_handle(ep, "ep"), context.as_ptr));
}

} // namespace

void handle_datagram_event(worker &thread, object &ep, const DAT_EVENT &event) {
    DAT_IB_EXTENSION_EVENT_DATA data;
    std::memcpy(&data, event.event_extension_data, sizeof data);
    const object_ref ref = {&ep, ep.handle};
    if (data.remote_ah.ah != nullptr) {
        for (unsigned count = thread.random.number_below(4); count != 0; --count)
            send(thread, ref, data.remote_ah);
        free_ah(thread, ref, data.remote_ah);
        object *const evd = thread.shared.datagram_evd;
        drain_evd(thread, {evd, evd->handle});
    }
    if (thread.random.percent_chance(50))
        free_cm(thread, ref, data.context);
}

void create_datagram_objects(worker &thread) {
    thread.shared.datagram_pz = thread.shared.datagram_evd = thread.shared.datagram_ep = nullptr;
    if (!has_datagrams(thread))
        return;
    object *const ia = thread.shared.main_ia;
    DAT_PZ_HANDLE pz = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    DAT_EP_HANDLE ep = DAT_HANDLE_NULL;
    DAT_EP_ATTR attr = make_datagram_attr();
    attr.max_recv_dtos = attr.max_request_dtos = 0;
    expect(dat_pz_create(ia->handle, &pz) == DAT_SUCCESS &&
               dat_evd_create(ia->handle, 1000, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &evd) ==
                   DAT_SUCCESS &&
               dat_ep_create(ia->handle, pz, DAT_HANDLE_NULL, DAT_HANDLE_NULL, DAT_HANDLE_NULL,
                             &attr, &ep) == DAT_SUCCESS,
           "no datagram EP can be created");
    thread.shared.datagram_pz = &thread.add_object(DAT_HANDLE_TYPE_PZ, pz, ia);
    thread.shared.datagram_evd = &thread.add_object(DAT_HANDLE_TYPE_EVD, evd, ia);
    thread.shared.datagram_evd->evd_flags = DAT_EVD_DTO_FLAG;
    thread.shared.datagram_ep = &thread.add_object(DAT_HANDLE_TYPE_EP, ep, ia);
}

void free_datagram_objects(worker &thread) {
    for (object *const obj :
         {thread.shared.datagram_ep, thread.shared.datagram_evd, thread.shared.datagram_pz})
        if (obj != nullptr) {
            free_object(thread, obj->type, {obj, obj->handle});
            expect(obj->is_freed(), "an object of datagrams is not freed");
        }
}

std::span<const step> datagram_steps() {
    static constexpr step steps[] = {{create, 5}};
    return steps;
}

} // namespace sequencer
