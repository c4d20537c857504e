// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// CRs.

#include "steps.hpp"

namespace sequencer {

namespace {

unsigned char private_data[16] = "sequencer";

object_ref draw_cr(worker &thread) {
    return thread.draw(DAT_HANDLE_TYPE_CR);
}

void query_cr(worker &thread) {
    DAT_CR_PARAM param = {};
    query(thread, rules::cr_query, draw_cr(thread), dat_cr_query, DAT_CR_FIELD_ALL, param);
}

void accept(worker &thread) {
    const object_ref cr = draw_cr(thread);
    // A CR may come with an EP: then dat_cr_accept takes that EP or DAT_HANDLE_NULL.
    accept_cr(thread, cr,
              thread.random.percent_chance(30)
                  ? object_ref{}
                  : thread.draw(DAT_HANDLE_TYPE_EP, cr.obj != nullptr ? cr.obj->ia : nullptr));
}

void reject(worker &thread) {
    free_object(thread, DAT_HANDLE_TYPE_CR, draw_cr(thread));
}

void hand_off(worker &thread) {
    const object_ref cr = draw_cr(thread);
    const object *const psp =
        thread.find_live(DAT_HANDLE_TYPE_PSP, cr.obj != nullptr ? cr.obj->ia : nullptr);
    call handoff_call(thread, rules::cr_handoff);
    handoff_call.creates(DAT_HANDLE_TYPE_CR);
    DAT_HANDLE const handle = handoff_call.use_handle(cr, "cr");
    const DAT_CONN_QUAL qual = psp != nullptr
                                   ? psp->conn_qual
                                   : min_conn_qual + thread.random.number_below(num_conn_quals);
    handoff_call.frees(cr.obj);
    // The EP that came with the CR goes to the new CR. It counts as being freed until the event of
    // the new CR is taken: if the EVD is freed with that event, so is the EP.
    object *const ep = cr.obj != nullptr ? cr.obj->ep : nullptr;
    if (ep != nullptr)
        thread.table.begin_free(*ep);
    handoff_call.check_result(dat_cr_handoff(handle, handoff_call.arg("conn_qual", qual)));
    if (ep != nullptr && !handoff_call.has_succeeded())
        thread.table.end_free(*ep, false);
}

} // namespace

void accept_cr(worker &thread, const object_ref &cr, const object_ref &ep) {
    const object *const ia = cr.obj != nullptr ? cr.obj->ia : nullptr;
    call accept_call(thread, rules::cr_accept);
    DAT_HANDLE const handle = accept_call.use_handle(cr, "cr"),
                     ep_handle = accept_call.use_optional(ep, ia, "ep");
    accept_call.allow_invalid_handle();
    accept_call.begins_attempt(ep.obj != nullptr   ? ep.obj
                               : cr.obj != nullptr ? cr.obj->local_ep
                                                   : nullptr);
    accept_call.frees(cr.obj);
    accept_call.check_result(dat_cr_accept(
        handle, ep_handle, static_cast<DAT_COUNT>(thread.random.number_below(sizeof private_data)),
        private_data));
    // From now on the EP that came with the CR is like one of dat_ep_create: an RSP may reserve it.
    if (accept_call.has_succeeded() && cr.obj->ep != nullptr)
        cr.obj->ep->is_ep_of_pending_cr = false;
}

std::span<const step> cr_steps() {
    static constexpr step steps[] = {{query_cr, 4}, {accept, 25}, {reject, 5}, {hand_off, 5}};
    return steps;
}

} // namespace sequencer
