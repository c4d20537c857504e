// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// EPs, except posting and connecting.

#include "steps.hpp"

namespace sequencer {

namespace {

object_ref draw_ep(worker &thread) {
    return thread.draw(DAT_HANDLE_TYPE_EP);
}
const object *ia_of(const object_ref &ref) {
    return ref.obj != nullptr ? ref.obj->ia : nullptr;
}

DAT_EP_ATTR draw_attr(worker &thread) {
    DAT_EP_ATTR attr = {};
    attr.max_recv_dtos = 1 + static_cast<DAT_COUNT>(thread.random.number_below(16));
    attr.max_request_dtos = 1 + static_cast<DAT_COUNT>(thread.random.number_below(16));
    attr.max_recv_iov = attr.max_request_iov = 2;
    attr.max_rdma_read_in = attr.max_rdma_read_out = 1;
    return attr;
}

struct ep_objects {
    object_ref pz, recv_evd, request_evd, connect_evd;
};
ep_objects draw_objects(worker &thread, const object *ia) {
    return {thread.draw(DAT_HANDLE_TYPE_PZ, ia), thread.draw_evd(ia, DAT_EVD_DTO_FLAG),
            thread.draw_evd(ia, DAT_EVD_DTO_FLAG), thread.draw_evd(ia, DAT_EVD_CONNECTION_FLAG)};
}

void add_ep(worker &thread, const object_ref &ia, DAT_EP_HANDLE handle, const ep_objects &objects,
            object *srq) {
    object &ep = thread.add_object(DAT_HANDLE_TYPE_EP, handle, ia.obj);
    ep.pz = objects.pz.obj;
    ep.recv_evd = objects.recv_evd.obj;
    ep.request_evd = objects.request_evd.obj;
    ep.connect_evd = objects.connect_evd.obj;
    ep.srq = srq;
    if (!thread.insert_unless_full(ep))
        free_object(thread, ep.type, {&ep, handle});
}

/// The connection EVD may be one of another IA than the EP's.
DAT_EVD_HANDLE use_connect_evd_of_any_ia(call &create_call, const object_ref &evd) {
    return create_call.use_optional_evd(evd, evd.obj != nullptr ? evd.obj->ia : nullptr,
                                        DAT_EVD_CONNECTION_FLAG, "connect_evd");
}

void create(worker &thread) {
    const object_ref ia = thread.draw_ia();
    const ep_objects objects = draw_objects(thread, ia.obj);
    const bool default_attr = thread.random.percent_chance(30);
    DAT_EP_ATTR attr = draw_attr(thread);
    DAT_EP_HANDLE handle = DAT_HANDLE_NULL;
    call create_call(thread, rules::ep_create);
    create_call.creates(DAT_HANDLE_TYPE_EP);
    DAT_HANDLE const ia_handle = create_call.use_handle(ia, "ia"),
                     pz_handle = create_call.use_optional(objects.pz, ia.obj, "pz"),
                     recv_evd = create_call.use_optional_evd(objects.recv_evd, ia.obj,
                                                             DAT_EVD_DTO_FLAG, "recv_evd"),
                     request_evd = create_call.use_optional_evd(objects.request_evd, ia.obj,
                                                                DAT_EVD_DTO_FLAG, "request_evd"),
                     connect_evd = use_connect_evd_of_any_ia(create_call, objects.connect_evd);
    if (!default_attr && thread.random.percent_chance(3)) {
        create_call.expect_invalid_parameter();
        attr.max_recv_dtos = -1;
    }
    create_call.check_result(dat_ep_create(ia_handle, pz_handle, recv_evd, request_evd, connect_evd,
                                           default_attr ? nullptr : &attr, &handle));
    if (create_call.has_succeeded())
        add_ep(thread, ia, handle, objects, nullptr);
}

void create_with_srq(worker &thread) {
    const object_ref ia = thread.draw_ia(), srq = thread.draw(DAT_HANDLE_TYPE_SRQ, ia.obj);
    ep_objects objects = draw_objects(thread, ia.obj);
    if (srq.obj != nullptr)
        objects.pz = {srq.obj->pz, srq.obj->pz->handle};
    DAT_EP_ATTR attr = draw_attr(thread);
    DAT_EP_HANDLE handle = DAT_HANDLE_NULL;
    call create_call(thread, rules::ep_create_with_srq);
    create_call.creates(DAT_HANDLE_TYPE_EP);
    DAT_HANDLE const ia_handle = create_call.use_handle(ia, "ia"),
                     pz_handle = create_call.use_optional(objects.pz, ia.obj, "pz"),
                     recv_evd = create_call.use_optional_evd(objects.recv_evd, ia.obj,
                                                             DAT_EVD_DTO_FLAG, "recv_evd"),
                     request_evd = create_call.use_optional_evd(objects.request_evd, ia.obj,
                                                                DAT_EVD_DTO_FLAG, "request_evd"),
                     connect_evd = use_connect_evd_of_any_ia(create_call, objects.connect_evd),
                     srq_handle = create_call.use_handle(srq, ia.obj, "srq");
    create_call.check_result(dat_ep_create_with_srq(ia_handle, pz_handle, recv_evd, request_evd,
                                                    connect_evd, srq_handle, &attr, &handle));
    if (create_call.has_succeeded())
        add_ep(thread, ia, handle, objects, srq.obj);
}

void query_random_ep(worker &thread) {
    query_ep(thread, draw_ep(thread));
}

void modify(worker &thread) {
    const object_ref ep = draw_ep(thread);
    const object *const ia = ia_of(ep);
    const ep_objects objects = draw_objects(thread, ia);
    DAT_EP_PARAM param = {};
    DAT_EP_PARAM_MASK mask = 0;
    call modify_call(thread, rules::ep_modify);
    DAT_HANDLE const handle = modify_call.use_handle(ep, "ep");
    const bool is_ep_of_pending_cr = ep.obj != nullptr && ep.obj->is_ep_of_pending_cr;
    const auto select = [&thread, is_ep_of_pending_cr] {
        return is_ep_of_pending_cr || thread.random.percent_chance(50);
    };
    const bool is_datagram = ep.obj != nullptr && ep.obj->is_datagram;
    if (select() && objects.pz.obj != nullptr && !is_datagram) {
        mask |= DAT_EP_FIELD_PZ_HANDLE;
        param.pz_handle = modify_call.use_handle(objects.pz, ia, "pz");
    }
    if (select()) {
        mask |= DAT_EP_FIELD_RECV_EVD_HANDLE;
        param.recv_evd_handle =
            modify_call.use_optional_evd(objects.recv_evd, ia, DAT_EVD_DTO_FLAG, "recv_evd");
    }
    if (select() && !is_datagram) {
        mask |= DAT_EP_FIELD_REQUEST_EVD_HANDLE;
        param.request_evd_handle =
            modify_call.use_optional_evd(objects.request_evd, ia, DAT_EVD_DTO_FLAG, "request_evd");
    }
    if (select()) {
        mask |= DAT_EP_FIELD_CONNECT_EVD_HANDLE;
        param.connect_evd_handle = modify_call.use_optional_evd(
            objects.connect_evd, ia, DAT_EVD_CONNECTION_FLAG, "connect_evd");
    }
    if (ep.obj != nullptr)
        ep.obj->maybe_modified = true;
    modify_call.check_result(dat_ep_modify(handle, modify_call.arg("mask", mask), &param));
}

void get_status(worker &thread) {
    get_state(thread, draw_ep(thread));
}

void query_random_receives(worker &thread) {
    query_receives(thread, draw_ep(thread));
}

void set_watermark(worker &thread) {
    static constexpr DAT_COUNT watermarks[] = {DAT_WATERMARK_INFINITE, 0, 1, 4};
    call set_call(thread, rules::ep_set_watermark);
    DAT_HANDLE const handle = set_call.use_handle(draw_ep(thread), "ep");
    const DAT_COUNT soft = thread.random.choose(watermarks),
                    hard = thread.random.choose(watermarks);
    set_call.check_result(
        dat_ep_set_watermark(handle, set_call.arg("soft", soft), set_call.arg("hard", hard)));
}

void reset(worker &thread) {
    reset_ep(thread, draw_ep(thread));
}

void free_ep(worker &thread) {
    free_object(thread, DAT_HANDLE_TYPE_EP, draw_ep(thread));
}

} // namespace

DAT_EP_STATE get_state(worker &thread, const object_ref &ep) {
    DAT_EP_STATE state{};
    DAT_BOOLEAN recv_idle{}, request_idle{};
    call get_call(thread, rules::ep_get_status);
    get_call.check_result(
        dat_ep_get_status(get_call.use_handle(ep, "ep"), &state, &recv_idle, &request_idle));
    expect(state <= DAT_EP_STATE_COMPLETION_PENDING && recv_idle <= DAT_TRUE &&
               request_idle <= DAT_TRUE,
           "dat_ep_get_status returned no state");
    return state;
}

DAT_EP_STATE query_ep(worker &thread, const object_ref &ep) {
    const auto num_calls = num_attempt_calls(ep);
    DAT_EP_PARAM param = {};
    if (!query(thread, rules::ep_query, ep, dat_ep_query, DAT_EP_FIELD_ALL, param))
        return DAT_EP_STATE_UNCONNECTED;
    expect(param.ep_state <= DAT_EP_STATE_COMPLETION_PENDING, "dat_ep_query returned no state");
    if (ep.obj->maybe_modified)
        return param.ep_state;
    expect(param.pz_handle == handle_of(ep.obj->pz) && param.srq_handle == handle_of(ep.obj->srq) &&
               param.recv_evd_handle == handle_of(ep.obj->recv_evd) &&
               param.request_evd_handle == handle_of(ep.obj->request_evd) &&
               param.connect_evd_handle == handle_of(ep.obj->connect_evd),
           "dat_ep_query returned other objects than those of dat_ep_create");
    if (param.ep_state == DAT_EP_STATE_CONNECTED)
        take_events_of_attempts(thread, *ep.obj, num_calls, attempt_history::progress::set_up);
    else if (param.ep_state == DAT_EP_STATE_DISCONNECTED)
        take_events_of_attempts(thread, *ep.obj, num_calls, attempt_history::progress::ended);
    return param.ep_state;
}

void query_receives(worker &thread, const object_ref &ep) {
    DAT_COUNT allocated = 0, span = 0;
    call query_call(thread, rules::ep_recv_query);
    query_call.check_result(dat_ep_recv_query(query_call.use_handle(ep, "ep"), &allocated, &span));
    expect(allocated >= DAT_VALUE_UNKNOWN && span >= DAT_VALUE_UNKNOWN,
           "dat_ep_recv_query returned a negative count");
}

void reset_ep(worker &thread, const object_ref &ep) {
    const auto num_calls = num_attempt_calls(ep);
    call reset_call(thread, rules::ep_reset);
    reset_call.check_result(dat_ep_reset(reset_call.use_handle(ep, "ep")));
    if (reset_call.has_succeeded())
        take_events_of_attempts(thread, *ep.obj, num_calls, attempt_history::progress::ended);
}

std::span<const step> ep_steps() {
    static constexpr step steps[] = {
        {create, 14},       {create_with_srq, 8}, {query_random_ep, 6},
        {modify, 8},        {get_status, 6},      {query_random_receives, 3},
        {set_watermark, 3}, {reset, 14},          {free_ep, 8}};
    return steps;
}

} // namespace sequencer
