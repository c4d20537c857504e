// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// EVDs and their events.

#include "steps.hpp"

#include <cstdio>
#include <dat2/dat_ib_extensions.h>
#include <mutex>

namespace sequencer {

namespace {

constexpr DAT_EVD_FLAGS flag_sets[] = {
    DAT_EVD_DTO_FLAG,
    DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG,
    DAT_EVD_CONNECTION_FLAG,
    DAT_EVD_CR_FLAG,
    DAT_EVD_SOFTWARE_FLAG,
    DAT_EVD_CR_FLAG | DAT_EVD_CONNECTION_FLAG,
    DAT_EVD_SOFTWARE_FLAG | DAT_EVD_CR_FLAG | DAT_EVD_DTO_FLAG | DAT_EVD_CONNECTION_FLAG |
        DAT_EVD_RMR_BIND_FLAG,
};

object_ref draw_evd(worker &thread) {
    return thread.draw(DAT_HANDLE_TYPE_EVD);
}

void create(worker &thread) {
    const object_ref ia = thread.draw_ia();
    const object_ref cno =
        thread.random.percent_chance(60) ? object_ref{} : thread.draw(DAT_HANDLE_TYPE_CNO, ia.obj);
    const DAT_EVD_FLAGS flags = thread.random.choose(flag_sets);
    DAT_COUNT length = 1 + static_cast<DAT_COUNT>(thread.random.number_below(100));
    DAT_EVD_HANDLE handle = DAT_HANDLE_NULL;
    call create_call(thread, rules::evd_create);
    create_call.creates(DAT_HANDLE_TYPE_EVD);
    DAT_HANDLE const ia_handle = create_call.use_handle(ia, "ia"),
                     cno_handle = create_call.use_optional(cno, ia.obj, "cno");
    if (thread.random.percent_chance(2)) {
        create_call.expect_invalid_parameter();
        length = 0;
    }
    create_call.check_result(dat_evd_create(ia_handle, create_call.arg("length", length),
                                            cno_handle, create_call.arg("flags", flags), &handle));
    if (!create_call.has_succeeded())
        return;
    object &evd = thread.add_object(DAT_HANDLE_TYPE_EVD, handle, ia.obj);
    evd.evd_flags = flags;
    evd.length = length;
    evd.is_dequeued_under_lock =
        (flags & DAT_EVD_CONNECTION_FLAG) != 0 && thread.random.percent_chance(70);
    if (!thread.insert_unless_full(evd))
        free_object(thread, evd.type, {&evd, handle});
}

void query_evd(worker &thread) {
    const object_ref evd = draw_evd(thread);
    DAT_EVD_PARAM param = {};
    if (!query(thread, rules::evd_query, evd, dat_evd_query, DAT_EVD_FIELD_ALL, param))
        return;
    expect(param.evd_flags == evd.obj->evd_flags, "dat_evd_query returned other flags");
    expect(param.evd_qlen >= evd.obj->length || evd.obj->maybe_resized,
           "dat_evd_query returned a shorter length");
}

void modify_cno(worker &thread) {
    const object_ref evd = draw_evd(thread);
    const object_ref cno =
        thread.random.percent_chance(30)
            ? object_ref{}
            : thread.draw(DAT_HANDLE_TYPE_CNO, evd.obj != nullptr ? evd.obj->ia : nullptr);
    call modify_call(thread, rules::evd_modify_cno);
    DAT_HANDLE const handle = modify_call.use_handle(evd, "evd"),
                     cno_handle = modify_call.use_optional(
                         cno, evd.obj != nullptr ? evd.obj->ia : nullptr, "cno");
    modify_call.check_result(dat_evd_modify_cno(handle, cno_handle));
}

/// A function without other arguments than the EVD.
template <const call_rule &rule, DAT_RETURN (*function)(DAT_EVD_HANDLE)>
void call_evd_function(worker &thread) {
    const object_ref evd = draw_evd(thread);
    call set_call(thread, rule);
    set_call.check_result(function(set_call.use_handle(evd, "evd")));
}

void resize(worker &thread) {
    const object_ref evd = draw_evd(thread);
    call resize_call(thread, rules::evd_resize);
    DAT_HANDLE const handle = resize_call.use_handle(evd, "evd");
    DAT_COUNT length = 1 + static_cast<DAT_COUNT>(thread.random.number_below(200));
    if (thread.random.percent_chance(2)) {
        resize_call.expect_invalid_parameter();
        length = -length;
    }
    if (evd.obj != nullptr)
        evd.obj->maybe_resized = true;
    resize_call.check_result(dat_evd_resize(handle, resize_call.arg("length", length)));
}

/// dequeue_lock of an EVD whose events are taken under it, if no other thread has it; of another
/// EVD, none.
std::unique_lock<std::mutex> try_dequeue_lock(const object_ref &evd) {
    return evd.obj != nullptr && evd.obj->is_dequeued_under_lock
               ? std::unique_lock(evd.obj->dequeue_lock, std::try_to_lock)
               : std::unique_lock<std::mutex>();
}
/// guard: of try_dequeue_lock.
bool is_locked_by_other_thread(const object_ref &evd, const std::unique_lock<std::mutex> &guard) {
    return evd.obj != nullptr && evd.obj->is_dequeued_under_lock && !guard;
}

/// dat_evd_wait for one event, or, sometimes, for more. Returns the CR of a connection request.
object *wait_for_event(worker &thread, const object_ref &evd, DAT_TIMEOUT timeout_us) {
    const std::unique_lock guard = try_dequeue_lock(evd);
    if (is_locked_by_other_thread(evd, guard))
        return nullptr;
    DAT_EVENT event = {};
    DAT_COUNT num_more = 0;
    call wait_call(thread, rules::evd_wait);
    DAT_HANDLE const handle = wait_call.use_handle(evd, "evd");
    wait_call.arg("timeout", timeout_us);
    DAT_COUNT threshold = 1;
    if (thread.random.percent_chance(10) && evd.obj != nullptr) {
        threshold = 1 + static_cast<DAT_COUNT>(
                            thread.random.number_below(static_cast<std::size_t>(evd.obj->length)));
        if (evd.obj->maybe_resized)
            wait_call.allow(rules::invalid_parameter);
    }
    // maybe_resized may become true during the call: then the threshold may exceed the length.
    const DAT_RETURN result =
        dat_evd_wait(handle, timeout_us, wait_call.arg("threshold", threshold), &event, &num_more);
    if (evd.obj != nullptr && evd.obj->maybe_resized)
        wait_call.allow(rules::invalid_parameter);
    wait_call.check_result(result);
    return wait_call.has_succeeded() ? handle_event(thread, *evd.obj, event) : nullptr;
}

void wait(worker &thread) {
    static constexpr DAT_TIMEOUT timeouts_us[] = {0, 0, 100, 1000, 5000};
    const object_ref evd = draw_evd(thread);
    wait_for_event(thread, evd, thread.random.choose(timeouts_us));
}

/// The caller holds dequeue_lock, if events are taken under it. Of a connection request, sets cr.
DAT_RETURN dequeue_locked(worker &thread, const object_ref &evd, object *&cr) {
    DAT_EVENT event = {};
    call dequeue_call(thread, rules::evd_dequeue);
    const DAT_RETURN result =
        dequeue_call.check_result(dat_evd_dequeue(dequeue_call.use_handle(evd, "evd"), &event));
    if (result == DAT_SUCCESS)
        if (object *const new_cr = handle_event(thread, *evd.obj, event))
            cr = new_cr;
    return result;
}

/// Queue empty: also if another thread takes the events of the EVD.
DAT_RETURN dequeue(worker &thread, const object_ref &evd, object *&cr) {
    const std::unique_lock guard = try_dequeue_lock(evd);
    return is_locked_by_other_thread(evd, guard) ? DAT_RETURN{DAT_QUEUE_EMPTY}
                                                 : dequeue_locked(thread, evd, cr);
}

void dequeue_some(worker &thread) {
    const object_ref evd = draw_evd(thread);
    object *cr = nullptr;
    for (unsigned count = 1 + thread.random.number_below(8); count != 0; --count)
        if (dequeue(thread, evd, cr) != DAT_SUCCESS)
            return;
}

void post_software_event(worker &thread) {
    const object_ref evd = thread.draw_evd(nullptr, DAT_EVD_SOFTWARE_FLAG);
    DAT_EVENT event = {};
    event.event_number = DAT_SOFTWARE_EVENT;
    event.event_data.software_event_data.pointer = thread.draw_cookie().as_ptr;
    call post_call(thread, rules::evd_post_se);
    if (evd.obj != nullptr && (evd.obj->evd_flags & DAT_EVD_SOFTWARE_FLAG) == 0)
        post_call.expect_invalid_parameter();
    post_call.check_result(dat_evd_post_se(post_call.use_handle(evd, "evd"), &event));
}

void free_evd(worker &thread) {
    free_object(thread, DAT_HANDLE_TYPE_EVD, draw_evd(thread));
}

bool fits_evd_flags(DAT_EVENT_NUMBER number, DAT_EVD_FLAGS flags) {
    const auto has = [flags](DAT_EVD_FLAGS flag) {
        return (flags & flag) != 0;
    };
    if (number == DAT_SOFTWARE_EVENT)
        return has(DAT_EVD_SOFTWARE_FLAG);
    const auto ib_number = static_cast<unsigned>(number);
    if (number == DAT_CONNECTION_REQUEST_EVENT || ib_number == DAT_IB_UD_CONNECTION_REQUEST_EVENT)
        return has(DAT_EVD_CR_FLAG);
    if (ib_number > DAT_IB_UD_CONNECTION_REQUEST_EVENT &&
        ib_number <= DAT_IB_UD_CONNECTION_ERROR_EVENT)
        return has(DAT_EVD_CONNECTION_FLAG);
    if (number == DAT_DTO_COMPLETION_EVENT || number == DAT_IB_EXTENSION_RANGE_BASE ||
        number == DAT_RMR_BIND_COMPLETION_EVENT)
        return has(DAT_EVD_DTO_FLAG);
    // The numbers of a kind have the bits 0xff000 in common.
    if ((number & 0xff000) == DAT_CONNECTION_EVENT_ESTABLISHED - 1)
        return has(DAT_EVD_CONNECTION_FLAG);
    if ((number & 0xff000) == DAT_ASYNC_ERROR_EVD_OVERFLOW - 1)
        return has(DAT_EVD_ASYNC_FLAG);
    return false;
}

object &expect_ep(const worker &thread, DAT_EP_HANDLE handle) {
    object *const ep = thread.table.find(DAT_HANDLE_TYPE_EP, handle);
    expect(ep != nullptr, "the event is of an EP that never existed");
    return *ep;
}
void expect_cookie(DAT_CONTEXT cookie) {
    expect(cookie.as_64 >> cookie_mark_shift == cookie_mark,
           "the event has a cookie that was never posted");
}

/// Adds a request's CR to the shared objects, and the EP that came with it: one that the library
/// created for a PSP, or that of an RSP. Rejects it if there are too many. Returns the CR, or
/// nullptr.
object *add_cr_and_its_ep(worker &thread, const object &evd, DAT_CR_HANDLE handle) {
    if (evd.ia->is_freed())
        return nullptr;
    object &cr = thread.add_object(DAT_HANDLE_TYPE_CR, handle, evd.ia);
    DAT_CR_PARAM param = {};
    call query_call(thread, rules::cr_query);
    query_call.check_result(
        dat_cr_query(query_call.use_handle({&cr, handle}, "cr"), DAT_CR_FIELD_ALL, &param));
    bool published = true;
    if (query_call.has_succeeded() && param.local_ep_handle != DAT_HANDLE_NULL) {
        object *ep = thread.table.find(DAT_HANDLE_TYPE_EP, param.local_ep_handle);
        if (ep != nullptr && ep->is_freed())
            ep = nullptr;
        if (ep != nullptr && ep->is_ep_of_pending_cr) {
            thread.table.end_free(*ep, false); // hand_off has begun it
        } else if (ep == nullptr) {
            ep = &thread.add_object(DAT_HANDLE_TYPE_EP, param.local_ep_handle, evd.ia);
            ep->is_ep_of_pending_cr = true;
            ep->maybe_modified = true;
            published = thread.insert_unless_full(*ep);
        }
        cr.local_ep = ep;
        cr.ep = ep->is_ep_of_pending_cr ? ep : nullptr; // else that of an RSP
    }
    if (!published || !thread.insert_unless_full(cr)) {
        call reject_call(thread, rules::cr_reject);
        DAT_HANDLE const cr_handle = reject_call.use_handle({&cr, handle}, "cr");
        reject_call.frees(&cr);
        reject_call.frees(cr.ep);
        reject_call.check_result(dat_cr_reject(cr_handle, 0, nullptr));
        return nullptr;
    }
    return &cr;
}

/// The EP has the service of the event, and has begun enough attempts for it.
void expect_conn_event(worker &thread, const object &evd, const DAT_EVENT &event) {
    object &ep = expect_ep(thread, event.event_data.connect_event_data.ep_handle);
    const bool is_datagram = event.event_number > DAT_IB_EXTENSION_RANGE_BASE;
    const bool fits_service = is_datagram == ep.is_datagram ||
                              (ep.is_datagram && event.event_number == DAT_CONNECTION_EVENT_BROKEN);
    if (!fits_service || !(ep.is_datagram ? ep.attempts.add_datagram_event(event.event_number)
                                          : ep.attempts.add_event(evd, event.event_number))) {
        char text[160];
        std::snprintf(text, sizeof text, "event %#x of EP %p, which %s",
                      static_cast<unsigned>(event.event_number), ep.handle,
                      fits_service ? "began too few attempts" : "has the other type of service");
        fail(text);
    }
    if (is_datagram)
        handle_datagram_event(thread, ep, event);
}

} // namespace

/// Checks an event of this EVD. Returns the CR of a connection request, for others nullptr.
object *handle_event(worker &thread, const object &evd, const DAT_EVENT &event) {
    const DAT_EVENT_NUMBER number = event.event_number;
    const DAT_EVENT_DATA &data = event.event_data;
    expect(event.evd_handle == evd.handle, "the event names another EVD");
    expect(fits_evd_flags(number, evd.evd_flags), "the EVD has no flag for this event");
    switch (static_cast<unsigned>(number)) {
    case DAT_DTO_COMPLETION_EVENT:
    case DAT_IB_EXTENSION_RANGE_BASE:
        expect_ep(thread, data.dto_completion_event_data.ep_handle);
        expect_cookie(data.dto_completion_event_data.user_cookie);
        break;
    case DAT_RMR_BIND_COMPLETION_EVENT:
        expect(thread.table.find(DAT_HANDLE_TYPE_RMR, data.rmr_completion_event_data.rmr_handle) !=
                   nullptr,
               "the event is of an RMR that never existed");
        expect_cookie(data.rmr_completion_event_data.user_cookie);
        break;
    case DAT_CONNECTION_REQUEST_EVENT:
    case DAT_IB_UD_CONNECTION_REQUEST_EVENT:
        expect(data.cr_arrival_event_data.conn_qual != 0, "the request has no qualifier");
        return add_cr_and_its_ep(thread, evd, data.cr_arrival_event_data.cr_handle);
    case DAT_SOFTWARE_EVENT: {
        DAT_CONTEXT cookie;
        cookie.as_ptr = data.software_event_data.pointer;
        expect_cookie(cookie);
        break;
    }
    default:
        if (fits_evd_flags(number, DAT_EVD_CONNECTION_FLAG))
            expect_conn_event(thread, evd, event);
    }
    return nullptr;
}

object *wait_for_cr(worker &thread, const object_ref &evd) {
    object *cr = wait_for_event(thread, evd, 1000);
    while (dequeue(thread, evd, cr) == DAT_SUCCESS)
        continue;
    return cr;
}

void drain_evd(worker &thread, const object_ref &evd) {
    object *cr = nullptr;
    while (dequeue(thread, evd, cr) == DAT_SUCCESS)
        continue;
}

void take_events_of_attempts(worker &thread, object &ep, std::optional<unsigned> num_calls,
                             attempt_history::progress reached) {
    object *const evd = ep.connect_evd;
    if (!num_calls || evd == nullptr || !evd->is_dequeued_under_lock || ep.is_datagram)
        return;
    const std::unique_lock guard(evd->dequeue_lock, std::try_to_lock);
    object *cr = nullptr;
    DAT_RETURN result = guard ? DAT_RETURN{DAT_SUCCESS} : DAT_CLASS_ERROR;
    while (result == DAT_SUCCESS)
        result = dequeue_locked(thread, {evd, evd->handle}, cr);
    // maybe_modified: the EP may have had another EVD, with events that were not taken.
    if (DAT_GET_TYPE(result) == DAT_QUEUE_EMPTY && !ep.maybe_modified)
        ep.attempts.set_events_taken(num_calls, reached);
}

std::span<const step> evd_steps() {
    using namespace rules;
    static constexpr step steps[] = {
        {create, 16},
        {query_evd, 4},
        {modify_cno, 6},
        {call_evd_function<rules::evd_enable, dat_evd_enable>, 3},
        {call_evd_function<rules::evd_disable, dat_evd_disable>, 3},
        {call_evd_function<rules::evd_set_unwaitable, dat_evd_set_unwaitable>, 2},
        {call_evd_function<rules::evd_clear_unwaitable, dat_evd_clear_unwaitable>, 4},
        {resize, 4},
        {wait, 10},
        {dequeue_some, 30},
        {post_software_event, 10},
        {free_evd, 10},
    };
    return steps;
}

} // namespace sequencer
