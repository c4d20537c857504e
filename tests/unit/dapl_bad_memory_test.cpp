// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Arguments out of range, with good handles: those of memory, its windows and its sync, and of
// SRQs. What is said of each is what the manual pages say.

#include "kinds.hpp"
#include "rows.hpp"

using namespace played;

namespace {

#define CALL [](const every &all [[maybe_unused]]) -> DAT_RETURN
#define OF(kind) all.living(DAT_HANDLE_TYPE_##kind)

struct registration {
    DAT_MEM_TYPE kind = DAT_MEM_TYPE_VIRTUAL;
    void *where = &made;
    DAT_VLEN length = 8;
    DAT_UINT32 privileges = DAT_MEM_PRIV_ALL_FLAG;
    DAT_VA_TYPE va = DAT_VA_TYPE_VA;
    DAT_LMR_HANDLE *lmr = &made;
};

DAT_RETURN make(const every &all, const registration &wanted) {
    DAT_REGION_DESCRIPTION what = {};
    what.for_va = wanted.where;
    return dat().lmr_create_func(all.on.ia, wanted.kind, what, wanted.length, all.on.pz,
                                 static_cast<DAT_MEM_PRIV_FLAGS>(wanted.privileges), wanted.va,
                                 wanted.lmr, nullptr, nullptr, nullptr, nullptr);
}

const row<every> of_lmr[] = {{"no such type", wrong_argument(2),
                              CALL{return make(all, {.kind = static_cast<DAT_MEM_TYPE>(0x80)});
} // namespace
}
, {"type 0", wrong_argument(2), CALL{return make(all, {.kind = static_cast<DAT_MEM_TYPE>(8)});
}
}
, {"shared, without a cookie", wrong_argument(3),
   CALL{return make(all, {.kind = DAT_MEM_TYPE_SHARED_VIRTUAL});
}
}
, {"length 0", error(DAT_LENGTH_ERROR), CALL{return make(all, {.length = 0});
}
}
, {"no address", wrong_argument(3), CALL{return make(all, {.where = nullptr});
}
}
, {"longer than the device has", wrong_argument(4),
   CALL{return make(all, {.length = (DAT_VLEN{1} << 40) + 1});
}
}
, {"beyond the end of all addresses", wrong_argument(4),
   CALL{return make(all, {.where = reinterpret_cast<void *>(~std::uintptr_t{3}), .length = 8});
}
}
, {"unknown privileges", wrong_argument(6),
   CALL{return make(all, {.privileges = 0x1000 | DAT_MEM_PRIV_ALL_FLAG});
}
}
, {"no such addresses", wrong_argument(7),
   CALL{return make(all, {.va = static_cast<DAT_VA_TYPE>(2)});
}
}
, {"no place", wrong_argument(7), CALL{return make(all, {.lmr = nullptr});
}
}
, {"mask", wrong_argument(2), CALL{DAT_LMR_PARAM param;
return dat().lmr_query_func(OF(LMR), static_cast<DAT_LMR_PARAM_MASK>(0x800), &param);
}
}
, {"nowhere to tell", wrong_argument(3),
   CALL{return dat().lmr_query_func(OF(LMR), DAT_LMR_FIELD_ALL, nullptr);
}
}
,
}
;

struct binding {
    DAT_VADDR skip = 0;
    DAT_SEG_LENGTH length = 64;
    DAT_UINT32 privileges = DAT_MEM_PRIV_REMOTE_READ_FLAG;
    DAT_UINT32 va = DAT_VA_TYPE_VA;
};

DAT_RETURN bind(const every &all, const binding &wanted) {
    const DAT_LMR_TRIPLET part = {all.area.begin + wanted.skip, wanted.length,
                                  all.area.lmr_context};
    return dat().rmr_bind_func(OF(RMR), all.area.lmr, &part,
                               static_cast<DAT_MEM_PRIV_FLAGS>(wanted.privileges),
                               static_cast<DAT_VA_TYPE>(wanted.va), all.idle.ep, cookie(0),
                               DAT_COMPLETION_DEFAULT_FLAG, nullptr);
}

const row<every> of_rmr[] = {
    {"no place", wrong_argument(2), CALL{return dat().rmr_create_func(all.on.pz, nullptr);
}
}
, {"no place for one of an EP", wrong_argument(2),
   CALL{return dat().rmr_create_for_ep_func(all.on.pz, nullptr);
}
}
, {"no range", wrong_argument(3),
   CALL{return dat().rmr_bind_func(OF(RMR), all.area.lmr, nullptr, DAT_MEM_PRIV_REMOTE_READ_FLAG,
                                   DAT_VA_TYPE_VA, all.idle.ep, cookie(0),
                                   DAT_COMPLETION_DEFAULT_FLAG, nullptr);
}
}
, {"a byte too long", wrong_argument(3), CALL{return bind(all, {.length = 4097});
}
}
, {"a byte too far", wrong_argument(3), CALL{return bind(all, {.skip = 4033, .length = 64});
}
}
, {"before it", wrong_argument(3), CALL{return bind(all, {.skip = DAT_VADDR{0} - 1});
}
}
, {"unknown privileges", wrong_argument(4), CALL{return bind(all, {.privileges = 0x80});
}
}
, {"no such addresses", wrong_argument(5), CALL{return bind(all, {.va = 3});
}
}
, {"an EP that is not connected", wrong_state(DAT_INVALID_STATE_EP_UNCONNECTED),
   CALL{return bind(all, {});
}
}
, {"mask", wrong_argument(2), CALL{DAT_RMR_PARAM param;
return dat().rmr_query_func(OF(RMR), static_cast<DAT_RMR_PARAM_MASK>(0x80), &param);
}
}
, {"nowhere to tell", wrong_argument(3),
   CALL{return dat().rmr_query_func(OF(RMR), DAT_RMR_FIELD_ALL, nullptr);
}
}
,
}
;

DAT_RETURN make_srq(const every &all, DAT_COUNT dtos, DAT_COUNT iov, DAT_COUNT mark,
                    DAT_SRQ_HANDLE *where = &made) {
    DAT_SRQ_ATTR attr = {};
    attr.max_recv_dtos = dtos;
    attr.max_recv_iov = iov;
    attr.low_watermark = mark;
    return dat().srq_create_func(all.on.ia, all.on.pz, &attr, where);
}

DAT_RETURN post(const every &all, DAT_COUNT segments, DAT_LMR_TRIPLET *list) {
    return dat().srq_post_recv_func(all.srq, segments, list, cookie(0));
}

const row<every> of_srq[] = {
    {"no attributes", wrong_argument(3),
     CALL{return dat().srq_create_func(all.on.ia, all.on.pz, nullptr, &made);
}
}
, {"no receives", wrong_argument(3), CALL{return make_srq(all, 0, 1, 0);
}
}
, {"fewer than none", wrong_argument(3), CALL{return make_srq(all, -1, 1, 0);
}
}
, {"no segments", wrong_argument(3), CALL{return make_srq(all, 1, 0, 0);
}
}
, {"negative mark", wrong_argument(3), CALL{return make_srq(all, 4, 1, -1);
}
}
, {"mark too high", wrong_argument(3), CALL{return make_srq(all, 4, 1, 5);
}
}
, {"no place", wrong_argument(4), CALL{return make_srq(all, 4, 1, 0, nullptr);
}
}
, {"too long", error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_SRQ),
   CALL{return make_srq(all, 1001, 1, 0);
}
}
, {"too many segments", error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_SRQ),
   CALL{return make_srq(all, 4, 7, 0);
}
}
, {"mask", wrong_argument(2), CALL{DAT_SRQ_PARAM param;
return dat().srq_query_func(all.srq, static_cast<DAT_SRQ_PARAM_MASK>(0x100), &param);
}
}
, {"nowhere to tell", wrong_argument(3),
   CALL{return dat().srq_query_func(all.srq, DAT_SRQ_FIELD_ALL, nullptr);
}
}
, {"to nothing", wrong_argument(2), CALL{return dat().srq_resize_func(all.srq, 0);
}
}
, {"to too much", wrong_argument(2), CALL{return dat().srq_resize_func(all.srq, 1001);
}
}
, {"negative low mark", wrong_argument(2), CALL{return dat().srq_set_lw_func(all.srq, -1);
}
}
, {"low mark too high", wrong_argument(2), CALL{return dat().srq_set_lw_func(all.srq, 17);
}
}
, {"fewer segments than none", wrong_argument(2), CALL{DAT_LMR_TRIPLET part = all.area.part(0, 64);
return post(all, -1, &part);
}
}
, {"more segments than it takes", wrong_argument(2), CALL{DAT_LMR_TRIPLET parts[5] = {};
return post(all, 5, parts);
}
}
, {"no list", wrong_argument(3), CALL{return post(all, 1, nullptr);
}
}
,
}
;

DAT_RETURN sync(const every &all, DAT_VADDR skip, DAT_SEG_LENGTH length, DAT_LMR_CONTEXT key) {
    const DAT_LMR_TRIPLET list[2] = {all.area.part(0, 64), {all.area.begin + skip, length, key}};
    const DAT_RETURN read = dat().lmr_sync_rdma_read_func(all.on.ia, list, 2);
    const DAT_RETURN write = dat().lmr_sync_rdma_write_func(all.on.ia, list, 2);
    return read == write && net().syncs.empty() ? read : DAT_RETURN{DAT_SUCCESS};
}

const row<every> of_sync[] = {
    {"no list", wrong_argument(2), CALL{return dat().lmr_sync_rdma_read_func(all.on.ia, nullptr, 1);
}
}
, {"no list to write", wrong_argument(2),
   CALL{return dat().lmr_sync_rdma_write_func(all.on.ia, nullptr, 1);
}
}
, {"a byte too long", wrong_argument(2), CALL{return sync(all, 0, 4097, all.area.lmr_context);
}
}
, {"a byte too far", wrong_argument(2), CALL{return sync(all, 4033, 64, all.area.lmr_context);
}
}
, {"before it", wrong_argument(2),
   CALL{return sync(all, DAT_VADDR{0} - 1, 64, all.area.lmr_context);
}
}
, {"a peer's word for it", wrong_argument(2), CALL{return sync(all, 0, 64, all.area.rmr_context);
}
}
, {"of nobody", wrong_argument(2), CALL{return sync(all, 0, 64, 0xdeadbeef);
}
}
, {"key 0", wrong_argument(2), CALL{return sync(all, 0, 64, 0);
}
}
,
}
;

} // namespace

int main() {
    register_names();
    const CMUnitTest tests[] = {
        ROWS(of_lmr),
        ROWS(of_rmr),
        ROWS(of_srq),
        ROWS(of_sync),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
