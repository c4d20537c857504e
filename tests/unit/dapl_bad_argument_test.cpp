// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Arguments out of range, with good handles: those of IAs, EVDs, CNOs, and of memory. What is said
// of each is what the manual pages say. dapl_bad_endpoint_test has the rest.

#include "kinds.hpp"
#include "rows.hpp"

using namespace played;

namespace {

DAT_COUNT more;
DAT_EVENT event;

#define CALL [](const every &all [[maybe_unused]]) -> DAT_RETURN
#define OF(kind) all.living(DAT_HANDLE_TYPE_##kind)

template <class mask>
mask outside(unsigned bit) {
    return static_cast<mask>(1U << bit);
}

DAT_RETURN open_ia(const char *name, DAT_COUNT length, DAT_EVD_HANDLE *async, DAT_IA_HANDLE *ia) {
    std::string copy = name != nullptr ? name : "";
    return dat().ia_open_func(name != nullptr ? copy.data() : nullptr, length, async, ia);
}

const row<every> of_ia[] = {
    {"open: no name", wrong_argument(1), CALL{DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
return open_ia(nullptr, 8, &async, &made);
} // namespace
}
, {"open: unknown name", error(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED),
   CALL{DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
return open_ia("nobody", 8, &async, &made);
}
}
, {"open: length 0", wrong_argument(2), CALL{DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
return open_ia("ib", 0, &async, &made);
}
}
, {"open: negative length", wrong_argument(2), CALL{DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
return open_ia("ib", -1, &async, &made);
}
}
, {"open: too long", error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_TEVD),
   CALL{DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
return open_ia("ib", INT32_MAX, &async, &made);
}
}
, {"open: no place for the EVD", wrong_argument(3), CALL{return open_ia("ib", 8, nullptr, &made);
}
}
, {"close: unknown flags", wrong_argument(2),
   CALL{return dat().ia_close_func(all.on.ia, static_cast<DAT_CLOSE_FLAGS>(7));
}
}
, {"close: in use", wrong_state(DAT_INVALID_STATE_IA_IN_USE),
   CALL{return dat().ia_close_func(all.on.ia, DAT_CLOSE_GRACEFUL_FLAG);
}
}
, {"query: IA mask", wrong_argument(3), CALL{DAT_IA_ATTR attr;
return dat().ia_query_func(all.on.ia, nullptr, UINT64_C(1) << 38, &attr, 0, nullptr);
}
}
, {"query: no IA attributes", wrong_argument(4),
   CALL{return dat().ia_query_func(all.on.ia, nullptr, DAT_IA_FIELD_ALL, nullptr, 0, nullptr);
}
}
, {"query: provider's mask", wrong_argument(5), CALL{DAT_PROVIDER_ATTR attr;
return dat().ia_query_func(all.on.ia, nullptr, 0, nullptr, UINT64_C(1) << 31, &attr);
}
}
, {"query: no provider's attributes", wrong_argument(6),
   CALL{return dat().ia_query_func(all.on.ia, nullptr, 0, nullptr, DAT_PROVIDER_FIELD_ALL, nullptr);
}
}
, {"related: no name", wrong_argument(2), CALL{DAT_BOOLEAN answer;
return dat().ia_ha_related_func(all.on.ia, nullptr, &answer);
}
}
, {"related: no place", wrong_argument(3), CALL{char name[] = "iw";
return dat().ia_ha_related_func(all.on.ia, name, nullptr);
}
}
, {"context: no place", wrong_argument(2),
   CALL{return dat().get_consumer_context_func(all.on.ia, nullptr);
}
}
, {"type: no place", wrong_argument(2), CALL{return dat().get_handle_type_func(all.on.ia, nullptr);
}
}
, {"PZ: no place", wrong_argument(2), CALL{return dat().pz_create_func(all.on.ia, nullptr);
}
}
, {"PZ: mask", wrong_argument(2), CALL{DAT_PZ_PARAM param;
return dat().pz_query_func(all.on.pz, outside<DAT_PZ_PARAM_MASK>(1), &param);
}
}
, {"PZ: nowhere to tell", wrong_argument(3),
   CALL{return dat().pz_query_func(all.on.pz, DAT_PZ_FIELD_ALL, nullptr);
}
}
, {"PZ: in use", wrong_state(DAT_INVALID_STATE_PZ_IN_USE),
   CALL{return dat().pz_free_func(all.on.pz);
}
}
,
}
;

DAT_RETURN make_evd(const every &all, DAT_COUNT length, DAT_UINT32 flags, DAT_HANDLE *where) {
    return dat().evd_create_func(all.on.ia, length, DAT_HANDLE_NULL,
                                 static_cast<DAT_EVD_FLAGS>(flags), where);
}
DAT_RETURN wait(const every &all, DAT_COUNT threshold, DAT_EVENT *where, DAT_COUNT *count) {
    return dat().evd_wait_func(all.own, 0, threshold, where, count);
}

const row<every> of_events[] = {
    {"EVD: length 0", wrong_argument(2), CALL{return make_evd(all, 0, DAT_EVD_SOFTWARE_FLAG, &made);
}
}
, {"EVD: negative length", wrong_argument(2),
   CALL{return make_evd(all, -1, DAT_EVD_SOFTWARE_FLAG, &made);
}
}
, {"EVD: too long", error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_TEVD),
   CALL{return make_evd(all, 100001, DAT_EVD_SOFTWARE_FLAG, &made);
}
}
, {"EVD: no flags", wrong_argument(4), CALL{return make_evd(all, 1, 0, &made);
}
}
, {"EVD: unknown flags", wrong_argument(4),
   CALL{return make_evd(all, 1, 0x10000 | DAT_EVD_SOFTWARE_FLAG, &made);
}
}
, {"EVD: errors among others", wrong_argument(4),
   CALL{return make_evd(all, 1, DAT_EVD_ASYNC_FLAG | DAT_EVD_DTO_FLAG, &made);
}
}
, {"EVD: no place", wrong_argument(5), CALL{return make_evd(all, 1, DAT_EVD_SOFTWARE_FLAG, nullptr);
}
}
, {"EVD: mask", wrong_argument(2), CALL{DAT_EVD_PARAM param;
return dat().evd_query_func(all.own, outside<DAT_EVD_PARAM_MASK>(5), &param);
}
}
, {"EVD: nowhere to tell", wrong_argument(3),
   CALL{return dat().evd_query_func(all.own, DAT_EVD_FIELD_ALL, nullptr);
}
}
, {"resize: 0", wrong_argument(2), CALL{return dat().evd_resize_func(all.own, 0);
}
}
, {"resize: too long", wrong_argument(2), CALL{return dat().evd_resize_func(all.own, 100001);
}
}
, {"free: in use", wrong_state(DAT_INVALID_STATE_EVD_IN_USE),
   CALL{return dat().evd_free_func(all.idle.receives);
}
}
, {"free: the IA's own", wrong_state(DAT_INVALID_STATE_EVD_IN_USE),
   CALL{return dat().evd_free_func(all.on.async);
}
}
, {"post: not for software", wrong_argument(1), CALL{event.event_number = DAT_SOFTWARE_EVENT;
return dat().evd_post_se_func(all.idle.receives, &event);
}
}
, {"post: no event", wrong_argument(2), CALL{return dat().evd_post_se_func(all.own, nullptr);
}
}
, {"post: another kind", wrong_argument(2), CALL{event.event_number = DAT_DTO_COMPLETION_EVENT;
return dat().evd_post_se_func(all.own, &event);
}
}
, {"dequeue: no place", wrong_argument(2), CALL{return dat().evd_dequeue_func(all.own, nullptr);
}
}
, {"wait: threshold 0", wrong_argument(3), CALL{return wait(all, 0, &event, &more);
}
}
, {"wait: negative threshold", wrong_argument(3), CALL{return wait(all, -1, &event, &more);
}
}
, {"wait: more than it holds", wrong_argument(3), CALL{return wait(all, 65, &event, &more);
}
}
, {"wait: no place", wrong_argument(4), CALL{return wait(all, 1, nullptr, &more);
}
}
, {"wait: no place for the count", wrong_argument(5), CALL{return wait(all, 1, &event, nullptr);
}
}
, {"wait: nothing", error(DAT_TIMEOUT_EXPIRED), CALL{return wait(all, 1, &event, &more);
}
}
, {"CNO: no place", wrong_argument(3),
   CALL{return dat().cno_create_func(all.on.ia, {nullptr, nullptr}, nullptr);
}
}
, {"CNO: no place for a descriptor", wrong_argument(2),
   CALL{return dat().cno_fd_create_func(all.on.ia, nullptr, &made);
}
}
, {"CNO with a descriptor: no place", wrong_argument(3), CALL{DAT_FD fd;
return dat().cno_fd_create_func(all.on.ia, &fd, nullptr);
}
}
, {"CNO: mask", wrong_argument(2), CALL{DAT_CNO_PARAM param;
return dat().cno_query_func(OF(CNO), outside<DAT_CNO_PARAM_MASK>(3), &param);
}
}
, {"CNO: nowhere to tell", wrong_argument(3),
   CALL{return dat().cno_query_func(OF(CNO), DAT_CNO_FIELD_ALL, nullptr);
}
}
, {"CNO: no place to trigger", wrong_argument(2),
   CALL{return dat().cno_trigger_func(OF(CNO), nullptr);
}
}
, {"CNO: no place to wait", wrong_argument(3), CALL{return dat().cno_wait_func(OF(CNO), 0, nullptr);
}
}
, {"CNO: nothing", error(DAT_QUEUE_EMPTY), CALL{DAT_EVD_HANDLE from = &made;
const DAT_RETURN result = dat().cno_trigger_func(OF(CNO), &from);
return from == DAT_HANDLE_NULL ? result : DAT_RETURN{DAT_SUCCESS};
}
}
, {"CNO: nothing in time", error(DAT_QUEUE_EMPTY), CALL{DAT_EVD_HANDLE from = &made;
const DAT_RETURN result = dat().cno_wait_func(OF(CNO), 0, &from);
return from == DAT_HANDLE_NULL ? result : DAT_RETURN{DAT_SUCCESS};
}
}
,
}
;

} // namespace

int main() {
    register_names();
    const CMUnitTest tests[] = {
        ROWS(of_ia),
        ROWS(of_events),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
