// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// CNOs.

#include "steps.hpp"

namespace sequencer {

namespace {

std::atomic<unsigned long> num_agent_calls = 0;

/// An agent that uses the EVD, which another thread may have freed.
void run_agent(DAT_PVOID, DAT_EVD_HANDLE evd) {
    DAT_EVD_PARAM param = {};
    const DAT_RETURN result = dat_evd_query(evd, DAT_EVD_FIELD_ALL, &param);
    ++num_agent_calls;
    if (result != DAT_SUCCESS && DAT_GET_TYPE(result) != DAT_INVALID_HANDLE)
        fail("dat_evd_query in an agent returned " + return_name(result));
}

DAT_OS_WAIT_PROXY_AGENT draw_agent(worker &thread) {
    return thread.random.percent_chance(70) ? DAT_OS_WAIT_PROXY_AGENT_NULL
                                            : DAT_OS_WAIT_PROXY_AGENT{&num_agent_calls, run_agent};
}

object_ref draw_cno(worker &thread) {
    return thread.draw(DAT_HANDLE_TYPE_CNO);
}

void add_cno(worker &thread, const object_ref &ia, DAT_CNO_HANDLE handle, bool has_fd) {
    object &cno = thread.add_object(DAT_HANDLE_TYPE_CNO, handle, ia.obj);
    cno.has_fd = has_fd;
    if (!thread.insert_unless_full(cno))
        free_object(thread, cno.type, {&cno, handle});
}

void create(worker &thread) {
    const object_ref ia = thread.draw_ia();
    DAT_CNO_HANDLE handle = DAT_HANDLE_NULL;
    call create_call(thread, rules::cno_create);
    create_call.creates(DAT_HANDLE_TYPE_CNO);
    DAT_HANDLE const ia_handle = create_call.use_handle(ia, "ia");
    create_call.check_result(dat_cno_create(ia_handle, draw_agent(thread), &handle));
    if (create_call.has_succeeded())
        add_cno(thread, ia, handle, false);
}

void create_with_fd(worker &thread) {
    const object_ref ia = thread.draw_ia();
    DAT_CNO_HANDLE handle = DAT_HANDLE_NULL;
    DAT_FD fd = -1;
    call create_call(thread, rules::cno_fd_create);
    create_call.creates(DAT_HANDLE_TYPE_CNO);
    create_call.check_result(dat_cno_fd_create(create_call.use_handle(ia, "ia"), &fd, &handle));
    if (!create_call.has_succeeded())
        return;
    expect(fd >= 0, "dat_cno_fd_create returned no descriptor");
    add_cno(thread, ia, handle, true);
}

void query_cno(worker &thread) {
    const object_ref cno = draw_cno(thread);
    DAT_CNO_PARAM param = {};
    if (query(thread, rules::cno_query, cno, dat_cno_query, DAT_CNO_FIELD_ALL, param))
        expect((param.proxy_type == DAT_PROXY_TYPE_FD) == cno.obj->has_fd,
               "dat_cno_query returned another type of proxy");
}

void modify_agent(worker &thread) {
    const object_ref cno = draw_cno(thread);
    call modify_call(thread, rules::cno_modify_agent);
    if (cno.obj != nullptr && cno.obj->has_fd)
        modify_call.allow(rules::invalid_state);
    DAT_HANDLE const handle = modify_call.use_handle(cno, "cno");
    modify_call.check_result(dat_cno_modify_agent(handle, draw_agent(thread)));
}

/// The EVD that dat_cno_trigger returns is not used: another thread may have freed it.
void trigger(worker &thread) {
    const object_ref cno = draw_cno(thread);
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    call trigger_call(thread, rules::cno_trigger);
    trigger_call.check_result(dat_cno_trigger(trigger_call.use_handle(cno, "cno"), &evd));
}

void wait(worker &thread) {
    static constexpr DAT_TIMEOUT timeouts_us[] = {0, 100, 1000, 5000};
    const object_ref cno = draw_cno(thread);
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    call wait_call(thread, rules::cno_wait);
    if (cno.obj != nullptr && cno.obj->has_fd)
        wait_call.allow(rules::invalid_state);
    DAT_HANDLE const handle = wait_call.use_handle(cno, "cno");
    wait_call.check_result(
        dat_cno_wait(handle, wait_call.arg("timeout", thread.random.choose(timeouts_us)), &evd));
}

void free_cno(worker &thread) {
    free_object(thread, DAT_HANDLE_TYPE_CNO, draw_cno(thread));
}

} // namespace

std::span<const step> cno_steps() {
    static constexpr step steps[] = {{create, 4},  {create_with_fd, 2}, {query_cno, 3},
                                     {trigger, 4}, {modify_agent, 4},   {wait, 5},
                                     {free_cno, 4}};
    return steps;
}

} // namespace sequencer
