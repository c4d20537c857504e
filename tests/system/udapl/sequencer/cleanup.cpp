// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Frees.

#include "steps/steps.hpp"

#include <chrono>
#include <thread>

namespace sequencer {

namespace {

/// The function that frees an object of a type, and its rule.
struct free_function {
    const call_rule *rule;
    DAT_RETURN (*function)(DAT_HANDLE);
};

constexpr free_function function_of_type(DAT_HANDLE_TYPE type) {
    switch (type) {
    case DAT_HANDLE_TYPE_EP:
        return {&rules::ep_free, dat_ep_free};
    case DAT_HANDLE_TYPE_EVD:
        return {&rules::evd_free, dat_evd_free};
    case DAT_HANDLE_TYPE_LMR:
        return {&rules::lmr_free, dat_lmr_free};
    case DAT_HANDLE_TYPE_PSP:
        return {&rules::psp_free, dat_psp_free};
    case DAT_HANDLE_TYPE_PZ:
        return {&rules::pz_free, dat_pz_free};
    case DAT_HANDLE_TYPE_RMR:
        return {&rules::rmr_free, dat_rmr_free};
    case DAT_HANDLE_TYPE_RSP:
        return {&rules::rsp_free, dat_rsp_free};
    case DAT_HANDLE_TYPE_CNO:
        return {&rules::cno_free, dat_cno_free};
    case DAT_HANDLE_TYPE_SRQ:
        return {&rules::srq_free, dat_srq_free};
    case DAT_HANDLE_TYPE_CSP:
        return {&rules::csp_free, dat_csp_free};
    default: // DAT_HANDLE_TYPE_CR
        return {&rules::cr_reject, [](DAT_HANDLE handle) {
                    return dat_cr_reject(handle, 0, nullptr);
                }};
    }
}

/// Calls a function for each live object of the type.
template <class function>
void for_each_live(worker &thread, DAT_HANDLE_TYPE type, function &&visit) {
    for (std::size_t slot = 0; slot != object_table::num_slots; ++slot) {
        object *const obj = thread.table.get(type, slot);
        if (obj != nullptr && !obj->is_freed())
            visit(object_ref{obj, obj->handle});
    }
}

/// At the end of a round, when no other thread calls: each free must succeed.
void free_all(worker &thread, DAT_HANDLE_TYPE type) {
    for_each_live(thread, type, [&](const object_ref &ref) {
        if (ref.obj->is_async_evd)
            return; // closing its IA frees it
        free_object(thread, type, ref);
        if (!ref.obj->is_freed() && ref.obj->active_frees == 0)
            fail("an object that no other object uses is not freed: " + thread.ring.last_call());
    });
}

} // namespace

void free_object(worker &thread, DAT_HANDLE_TYPE type, const object_ref &ref) {
    const free_function free = function_of_type(type);
    object *const obj = ref.obj;
    call free_call(thread, *free.rule);
    DAT_HANDLE const handle = free_call.use_handle(ref, "handle");
    free_call.frees(obj);
    if (type == DAT_HANDLE_TYPE_CR &&
        obj != nullptr) // dat_cr_reject frees the EP that came with it
        free_call.frees(obj->ep);
    free_call.check_result(free.function(handle));
    expect(!free_call.has_succeeded() || !obj->is_async_evd,
           "the asynchronous EVD of an IA is freed");
}

void free_all_and_close_ias(worker &thread) {
    for (const DAT_HANDLE_TYPE type :
         {DAT_HANDLE_TYPE_PSP, DAT_HANDLE_TYPE_RSP, DAT_HANDLE_TYPE_CSP})
        free_all(thread, type);
    for_each_live(thread, DAT_HANDLE_TYPE_EVD, [&](const object_ref &evd) {
        drain_evd(thread, evd);
        // The asynchronous EVD of an IA is not freed before the CNOs.
        call modify_call(thread, rules::evd_modify_cno);
        modify_call.check_result(
            dat_evd_modify_cno(modify_call.use_handle(evd, "evd"), DAT_HANDLE_NULL));
    });
    for (const DAT_HANDLE_TYPE type :
         {DAT_HANDLE_TYPE_CR, DAT_HANDLE_TYPE_EP, DAT_HANDLE_TYPE_RMR, DAT_HANDLE_TYPE_LMR,
          DAT_HANDLE_TYPE_SRQ, DAT_HANDLE_TYPE_EVD, DAT_HANDLE_TYPE_CNO, DAT_HANDLE_TYPE_PZ})
        free_all(thread, type);
    free_datagram_objects(thread);
    for_each_live(thread, DAT_HANDLE_TYPE_IA, [&](const object_ref &ia) {
        close_ia(thread, ia, DAT_CLOSE_GRACEFUL_FLAG);
        expect(ia.obj->is_freed(), "an IA whose objects are freed is not closed");
    });
}

} // namespace sequencer
