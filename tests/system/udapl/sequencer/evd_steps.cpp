// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// EVDs and their events.

#include "steps.hpp"

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

drawn draw_evd(worker &thread) {
    return thread.draw(DAT_HANDLE_TYPE_EVD);
}

void create(worker &thread) {
    const drawn ia = thread.draw_ia();
    const drawn cno = thread.random.chance(60) ? drawn{} : thread.draw(DAT_HANDLE_TYPE_CNO, ia.obj);
    const DAT_EVD_FLAGS flags = thread.random.choose(flag_sets);
    DAT_COUNT length = 1 + static_cast<DAT_COUNT>(thread.random.below(100));
    DAT_EVD_HANDLE handle = DAT_HANDLE_NULL;
    call create_call(thread, rules::evd_create);
    create_call.creates(DAT_HANDLE_TYPE_EVD);
    DAT_HANDLE const ia_handle = create_call.use(ia, "ia"),
                     cno_handle = create_call.use_optional(cno, ia.obj, "cno");
    if (thread.random.chance(2)) {
        create_call.expect_bad_parameter();
        length = 0;
    }
    create_call.end(dat_evd_create(ia_handle, create_call.arg("length", length), cno_handle,
                                   create_call.arg("flags", flags), &handle));
    if (!create_call.ended_in_success())
        return;
    object &evd = thread.add_object(DAT_HANDLE_TYPE_EVD, handle, ia.obj);
    evd.evd_flags = flags;
    evd.length = length;
    if (!thread.publish(evd))
        free_object(thread, evd.type, {&evd, handle});
}

void query_evd(worker &thread) {
    const drawn evd = draw_evd(thread);
    DAT_EVD_PARAM param = {};
    if (!query(thread, rules::evd_query, evd, dat_evd_query, DAT_EVD_FIELD_ALL, param))
        return;
    expect(param.evd_flags == evd.obj->evd_flags, "dat_evd_query returned other flags");
    expect(param.evd_qlen >= evd.obj->length || evd.obj->resized,
           "dat_evd_query returned a shorter length");
}

void modify_cno(worker &thread) {
    const drawn evd = draw_evd(thread);
    const drawn cno =
        thread.random.chance(30)
            ? drawn{}
            : thread.draw(DAT_HANDLE_TYPE_CNO, evd.obj != nullptr ? evd.obj->ia : nullptr);
    call modify_call(thread, rules::evd_modify_cno);
    DAT_HANDLE const handle = modify_call.use(evd, "evd"),
                     cno_handle = modify_call.use_optional(
                         cno, evd.obj != nullptr ? evd.obj->ia : nullptr, "cno");
    modify_call.end(dat_evd_modify_cno(handle, cno_handle));
}

template <const call_rule &rule, DAT_RETURN (*function)(DAT_EVD_HANDLE)>
void set_state(worker &thread) {
    const drawn evd = draw_evd(thread);
    call set_call(thread, rule);
    set_call.end(function(set_call.use(evd, "evd")));
}

void resize(worker &thread) {
    const drawn evd = draw_evd(thread);
    call resize_call(thread, rules::evd_resize);
    DAT_HANDLE const handle = resize_call.use(evd, "evd");
    DAT_COUNT length = 1 + static_cast<DAT_COUNT>(thread.random.below(200));
    if (thread.random.chance(2)) {
        resize_call.expect_bad_parameter();
        length = -length;
    }
    if (evd.obj != nullptr)
        evd.obj->resized = true;
    resize_call.end(dat_evd_resize(handle, resize_call.arg("length", length)));
}

void wait(worker &thread) {
    static constexpr DAT_TIMEOUT timeouts_us[] = {0, 0, 100, 1000, 5000};
    const drawn evd = draw_evd(thread);
    DAT_EVENT event = {};
    DAT_COUNT num_more = 0;
    call wait_call(thread, rules::evd_wait);
    DAT_HANDLE const handle = wait_call.use(evd, "evd");
    const DAT_TIMEOUT timeout = wait_call.arg("timeout", thread.random.choose(timeouts_us));
    DAT_COUNT threshold = 1;
    if (thread.random.chance(10) && evd.obj != nullptr) {
        threshold = 1 + static_cast<DAT_COUNT>(
                            thread.random.below(static_cast<std::size_t>(evd.obj->length)));
        if (evd.obj->resized)
            wait_call.allow(rules::parameter);
    }
    // resized may become true during the call.
    const DAT_RETURN result =
        dat_evd_wait(handle, timeout, wait_call.arg("threshold", threshold), &event, &num_more);
    if (evd.obj != nullptr && evd.obj->resized)
        wait_call.allow(rules::parameter);
    wait_call.end(result);
    if (wait_call.ended_in_success())
        take_event(thread, *evd.obj, event);
}

DAT_RETURN dequeue(worker &thread, const drawn &evd) {
    DAT_EVENT event = {};
    call dequeue_call(thread, rules::evd_dequeue);
    const DAT_RETURN result =
        dequeue_call.end(dat_evd_dequeue(dequeue_call.use(evd, "evd"), &event));
    if (result == DAT_SUCCESS)
        take_event(thread, *evd.obj, event);
    return result;
}

void dequeue_some(worker &thread) {
    const drawn evd = draw_evd(thread);
    for (unsigned count = 1 + thread.random.below(8); count != 0; --count)
        if (dequeue(thread, evd) != DAT_SUCCESS)
            return;
}

void post_software_event(worker &thread) {
    const drawn evd = thread.draw_evd(nullptr, DAT_EVD_SOFTWARE_FLAG);
    DAT_EVENT event = {};
    event.event_number = DAT_SOFTWARE_EVENT;
    event.event_data.software_event_data.pointer = thread.draw_cookie().as_ptr;
    call post_call(thread, rules::evd_post_se);
    if (evd.obj != nullptr && (evd.obj->evd_flags & DAT_EVD_SOFTWARE_FLAG) == 0)
        post_call.expect_bad_parameter();
    post_call.end(dat_evd_post_se(post_call.use(evd, "evd"), &event));
}

void free_evd(worker &thread) {
    free_object(thread, DAT_HANDLE_TYPE_EVD, draw_evd(thread));
}

bool is_of_kind(DAT_EVENT_NUMBER number, DAT_EVD_FLAGS flags) {
    const auto has = [flags](DAT_EVD_FLAGS flag) {
        return (flags & flag) != 0;
    };
    if (number == DAT_SOFTWARE_EVENT)
        return has(DAT_EVD_SOFTWARE_FLAG);
    if (number == DAT_CONNECTION_REQUEST_EVENT)
        return has(DAT_EVD_CR_FLAG);
    if (number == DAT_DTO_COMPLETION_EVENT || number == DAT_IB_EXTENSION_RANGE_BASE ||
        number == DAT_RMR_BIND_COMPLETION_EVENT)
        return has(DAT_EVD_DTO_FLAG);
    if ((number & 0xff000) == DAT_CONNECTION_EVENT_ESTABLISHED - 1)
        return has(DAT_EVD_CONNECTION_FLAG);
    if ((number & 0xff000) == DAT_ASYNC_ERROR_EVD_OVERFLOW - 1)
        return has(DAT_EVD_ASYNC_FLAG);
    return false;
}

void expect_ep(const worker &thread, DAT_EP_HANDLE ep) {
    expect(thread.table.has_existed(DAT_HANDLE_TYPE_EP, ep),
           "the event is of an EP that never existed");
}
void expect_cookie(DAT_CONTEXT cookie) {
    expect(cookie.as_64 >> 52 == 0x5e9, "the event has a cookie that was never posted");
}

/// Adds the CR, and the EP that the library created for it.
void adopt_cr(worker &thread, const object &evd, DAT_CR_HANDLE handle) {
    if (evd.ia->is_freed())
        return;
    object &cr = thread.add_object(DAT_HANDLE_TYPE_CR, handle, evd.ia);
    DAT_CR_PARAM param = {};
    call query_call(thread, rules::cr_query);
    query_call.end(dat_cr_query(query_call.use({&cr, handle}, "cr"), DAT_CR_FIELD_ALL, &param));
    bool published = true;
    if (query_call.ended_in_success() && param.local_ep_handle != DAT_HANDLE_NULL) {
        object *ep = nullptr;
        for (std::size_t slot = 0; ep == nullptr && slot != object_table::num_slots; ++slot) {
            ep = thread.table.get(DAT_HANDLE_TYPE_EP, slot);
            if (ep != nullptr && (ep->handle != param.local_ep_handle || ep->is_freed()))
                ep = nullptr;
        }
        if (ep != nullptr && ep->is_provided) {
            thread.table.end_free(*ep, false); // begun by dat_cr_handoff
        } else if (ep == nullptr) {
            ep = &thread.add_object(DAT_HANDLE_TYPE_EP, param.local_ep_handle, evd.ia);
            ep->is_provided = true;
            ep->modified = true;
            published = thread.publish(*ep);
        }
        cr.ep = ep->is_provided ? ep : nullptr; // else that of an RSP
    }
    if (!published || !thread.publish(cr)) {
        call reject_call(thread, rules::cr_reject);
        DAT_HANDLE const cr_handle = reject_call.use({&cr, handle}, "cr");
        reject_call.frees(&cr);
        reject_call.frees(cr.ep);
        reject_call.end(dat_cr_reject(cr_handle, 0, nullptr));
    }
}

} // namespace

void take_event(worker &thread, const object &evd, const DAT_EVENT &event) {
    const DAT_EVENT_NUMBER number = event.event_number;
    const DAT_EVENT_DATA &data = event.event_data;
    expect(event.evd_handle == evd.handle, "the event names another EVD");
    expect(is_of_kind(number, evd.evd_flags), "the EVD has no flag for this event");
    switch (static_cast<unsigned>(number)) {
    case DAT_DTO_COMPLETION_EVENT:
    case DAT_IB_EXTENSION_RANGE_BASE:
        expect_ep(thread, data.dto_completion_event_data.ep_handle);
        expect_cookie(data.dto_completion_event_data.user_cookie);
        break;
    case DAT_RMR_BIND_COMPLETION_EVENT:
        expect(thread.table.has_existed(DAT_HANDLE_TYPE_RMR,
                                        data.rmr_completion_event_data.rmr_handle),
               "the event is of an RMR that never existed");
        expect_cookie(data.rmr_completion_event_data.user_cookie);
        break;
    case DAT_CONNECTION_REQUEST_EVENT:
        expect(data.cr_arrival_event_data.conn_qual != 0, "the request has no qualifier");
        adopt_cr(thread, evd, data.cr_arrival_event_data.cr_handle);
        break;
    case DAT_SOFTWARE_EVENT: {
        DAT_CONTEXT cookie;
        cookie.as_ptr = data.software_event_data.pointer;
        expect_cookie(cookie);
        break;
    }
    default:
        if (is_of_kind(number, DAT_EVD_CONNECTION_FLAG))
            expect_ep(thread, data.connect_event_data.ep_handle);
    }
}

void drain_evd(worker &thread, const drawn &evd) {
    while (dequeue(thread, evd) == DAT_SUCCESS)
        continue;
}

std::span<const step> evd_steps() {
    using namespace rules;
    static constexpr step steps[] = {
        {create, 16},
        {query_evd, 4},
        {modify_cno, 6},
        {set_state<rules::evd_enable, dat_evd_enable>, 3},
        {set_state<rules::evd_disable, dat_evd_disable>, 3},
        {set_state<rules::evd_set_unwaitable, dat_evd_set_unwaitable>, 2},
        {set_state<rules::evd_clear_unwaitable, dat_evd_clear_unwaitable>, 4},
        {resize, 4},
        {wait, 10},
        {dequeue_some, 30},
        {post_software_event, 10},
        {free_evd, 10},
    };
    return steps;
}

} // namespace sequencer
