// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Arguments out of range, with good handles: those of endpoints, of what connects them, and of what
// is posted to them. What is said of each is what the manual pages say.

#include "kinds.hpp"
#include "rows.hpp"

#include <dat2/dat_ib_extensions.h>

using namespace played;

namespace {

/// One of each kind, and two that are connected.
struct world {
    explicit world(const adapter &of)
        : all(of)
        , one(of)
        , other(of)
        , area(of) {
        connect(one, other);
    }
    void free() {
        disconnect(one, other);
        one.free();
        other.free();
        area.free();
        all.free();
    }
    every all;
    end one, other;
    memory area;
};

#define CALL [](const world &at [[maybe_unused]]) -> DAT_RETURN

// -- making and changing

DAT_EP_ATTR usual() {
    DAT_EP_ATTR attr = {};
    attr.max_recv_dtos = attr.max_request_dtos = 4;
    attr.max_recv_iov = attr.max_request_iov = 2;
    return attr;
}

template <auto member, auto value>
DAT_RETURN make_with(const world &at) {
    DAT_EP_ATTR attr = usual();
    attr.*member = static_cast<std::remove_reference_t<decltype(attr.*member)>>(value);
    const DAT_RETURN result =
        dat().ep_create_func(at.all.on.ia, at.all.on.pz, at.one.receives, at.one.requests,
                             at.one.connections, &attr, &made);
    const DAT_RETURN shared =
        dat().ep_create_with_srq_func(at.all.on.ia, at.all.on.pz, at.one.receives, at.one.requests,
                                      at.one.connections, at.all.srq, &attr, &made);
    // What is said of the SRQ's is of the next argument, if it needs those attributes at all.
    return shared == result + 1 || shared == DAT_SUCCESS ? result : shared;
}

DAT_RETURN modify(const world &at, DAT_EP_PARAM_MASK mask) {
    DAT_EP_PARAM param = {};
    return dat().ep_modify_func(at.all.idle.ep, mask, &param);
}

const row<world> of_attributes[] = {
    {"no such service", wrong_argument(6), make_with<&DAT_EP_ATTR::service_type, 77>},
    {"a quality", wrong_argument(6), make_with<&DAT_EP_ATTR::qos, DAT_QOS_HIGH_THROUGHPUT>},
    {"messages too long", wrong_argument(6),
     make_with<&DAT_EP_ATTR::max_message_size, (1 << 20) + 1>},
    {"RDMA too long", wrong_argument(6), make_with<&DAT_EP_ATTR::max_rdma_size, (1 << 20) + 1>},
    {"negative requests", wrong_argument(6), make_with<&DAT_EP_ATTR::max_request_dtos, -1>},
    {"too many requests", wrong_argument(6), make_with<&DAT_EP_ATTR::max_request_dtos, 4097>},
    {"no requests, but an EVD", wrong_argument(6), make_with<&DAT_EP_ATTR::max_request_dtos, 0>},
    {"negative receives", wrong_argument(6), make_with<&DAT_EP_ATTR::max_recv_dtos, -1>},
    {"too many receives", wrong_argument(6), make_with<&DAT_EP_ATTR::max_recv_dtos, 4097>},
    {"negative segments", wrong_argument(6), make_with<&DAT_EP_ATTR::max_request_iov, -1>},
    {"too many segments", wrong_argument(6), make_with<&DAT_EP_ATTR::max_request_iov, 9>},
    {"no segments", wrong_argument(6), make_with<&DAT_EP_ATTR::max_request_iov, 0>},
    {"negative segments of receives", wrong_argument(6), make_with<&DAT_EP_ATTR::max_recv_iov, -1>},
    {"too many segments of receives", wrong_argument(6), make_with<&DAT_EP_ATTR::max_recv_iov, 9>},
    {"negative Reads in", wrong_argument(6), make_with<&DAT_EP_ATTR::max_rdma_read_in, -1>},
    {"too many Reads in", wrong_argument(6), make_with<&DAT_EP_ATTR::max_rdma_read_in, 17>},
    {"negative Reads out", wrong_argument(6), make_with<&DAT_EP_ATTR::max_rdma_read_out, -1>},
    {"too many Reads out", wrong_argument(6), make_with<&DAT_EP_ATTR::max_rdma_read_out, 9>},
    {"segments of Reads", wrong_argument(6), make_with<&DAT_EP_ATTR::max_rdma_read_iov, 9>},
    {"negative segments of Reads", wrong_argument(6),
     make_with<&DAT_EP_ATTR::max_rdma_read_iov, -1>},
    {"segments of Writes", wrong_argument(6), make_with<&DAT_EP_ATTR::max_rdma_write_iov, 9>},
    {"no place", wrong_argument(7),
     CALL{return dat().ep_create_func(at.all.on.ia, at.all.on.pz, at.one.receives, at.one.requests,
                                      at.one.connections, nullptr, nullptr);
} // namespace
}
, {"with an SRQ: no place", wrong_argument(8),
   CALL{return dat().ep_create_with_srq_func(at.all.on.ia, at.all.on.pz, at.one.receives,
                                             at.one.requests, at.one.connections, at.all.srq,
                                             nullptr, nullptr);
}
}
, {"query: mask", wrong_argument(2), CALL{DAT_EP_PARAM param;
return dat().ep_query_func(at.one.ep, UINT64_C(1) << 31, &param);
}
}
, {"query: nowhere to tell", wrong_argument(3),
   CALL{return dat().ep_query_func(at.one.ep, DAT_EP_FIELD_ALL, nullptr);
}
}
, {"modify: mask", wrong_argument(2), CALL{return modify(at, UINT64_C(1) << 31);
}
}
, {"modify: the IA", wrong_argument(2), CALL{return modify(at, DAT_EP_FIELD_IA_HANDLE);
}
}
, {"modify: the state", wrong_argument(2), CALL{return modify(at, DAT_EP_FIELD_EP_STATE);
}
}
, {"modify: nothing to take", wrong_argument(3),
   CALL{return dat().ep_modify_func(at.all.idle.ep, DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS, nullptr);
}
}
, {"modify: a wrong attribute", wrong_argument(3), CALL{DAT_EP_PARAM param = {};
param.ep_attr.max_request_dtos = -1;
return dat().ep_modify_func(at.all.idle.ep, DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS, &param);
}
}
, {"modify: connected", wrong_state(DAT_INVALID_STATE_EP_CONNECTED), CALL{DAT_EP_PARAM param = {};
return dat().ep_modify_func(at.one.ep, DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS, &param);
}
}
, {"mark: soft", wrong_argument(2), CALL{return dat().ep_set_watermark_func(at.one.ep, -2, 0);
}
}
, {"mark: hard", wrong_argument(3), CALL{return dat().ep_set_watermark_func(at.one.ep, 0, -2);
}
}
, {"mark: no SRQ", wrong_state(DAT_INVALID_STATE_EP_RECV_WATERMARK),
   CALL{return dat().ep_set_watermark_func(at.one.ep, 1, 2);
}
}
, {"reset: connected", wrong_state(DAT_INVALID_STATE_EP_CONNECTED),
   CALL{return dat().ep_reset_func(at.one.ep);
}
}
, {"free: reserved", wrong_state(DAT_INVALID_STATE_EP_RESERVED),
   CALL{return dat().ep_free_func(at.all.reserved.ep);
}
}
,
}
;

// -- posting

constexpr DAT_COMPLETION_FLAGS plain = DAT_COMPLETION_DEFAULT_FLAG;

struct list {
    explicit list(const world &at) {
        for (DAT_LMR_TRIPLET &each : parts)
            each = at.area.part(0, 64);
    }
    DAT_LMR_TRIPLET parts[9];
};

enum class by { send, invalidate, write, read, immediate };

DAT_RETURN post(const world &at, by how, DAT_COUNT segments, DAT_LMR_TRIPLET *parts,
                bool somewhere = true, bool connected = true) {
    const DAT_RMR_TRIPLET there = at.area.remote(0, 64);
    const DAT_RMR_TRIPLET *const where = somewhere ? &there : nullptr;
    DAT_EP_HANDLE const ep = connected ? at.one.ep : at.all.idle.ep;
    switch (how) {
    case by::send:
        return dat().ep_post_send_func(ep, segments, parts, cookie(0), plain);
    case by::invalidate:
        return dat().ep_post_send_with_invalidate_func(ep, segments, parts, cookie(0), plain,
                                                       DAT_TRUE, 1);
    case by::write:
        return dat().ep_post_rdma_write_func(ep, segments, parts, cookie(0), where, plain);
    case by::read:
        return dat().ep_post_rdma_read_func(ep, segments, parts, cookie(0), where, plain);
    default:
        return dat_ib_post_rdma_write_immed(ep, segments, parts, cookie(0), where, 7, plain);
    }
}

template <by how, DAT_COUNT segments>
DAT_RETURN wrong_count(const world &at) {
    return post(at, how, segments, list(at).parts);
}
template <by how>
DAT_RETURN without_list(const world &at) {
    return post(at, how, 1, nullptr);
}
template <by how>
DAT_RETURN too_long(const world &at) {
    list many(at);
    many.parts[0].segment_length = (1 << 20) + 1;
    const DAT_RETURN one = post(at, how, 1, many.parts);
    many.parts[0].segment_length = many.parts[1].segment_length = UINT32_MAX;
    const DAT_RETURN sum = post(at, how, 2, many.parts);
    return one == sum ? one : DAT_RETURN{DAT_SUCCESS};
}
template <by how>
DAT_RETURN nowhere(const world &at) {
    return post(at, how, 1, list(at).parts, false);
}
template <by how>
DAT_RETURN unconnected(const world &at) {
    return post(at, how, 1, list(at).parts, true, false);
}

#define ROWS_OF(how)                                                                               \
    {#how ": fewer than none", wrong_argument(2), wrong_count<by::how, -1>},                       \
        {#how ": too many", wrong_argument(2), wrong_count<by::how, 5>},                           \
        {#how ": no list", wrong_argument(3), without_list<by::how>},                              \
        {#how ": too long", error(DAT_LENGTH_ERROR), too_long<by::how>}, {                         \
#        how ": unconnected", wrong_state(DAT_INVALID_STATE_EP_UNCONNECTED),                       \
            unconnected < by::how>                                                                 \
    }

const row<world> of_posts[] = {
    ROWS_OF(send), ROWS_OF(invalidate), ROWS_OF(write), ROWS_OF(read), ROWS_OF(immediate),
    {"write: nowhere", wrong_argument(5), nowhere<by::write>},
    {"read: nowhere", wrong_argument(5), nowhere<by::read>},
    {"immediate: nowhere", wrong_argument(5), nowhere<by::immediate>},
    {"receive: fewer than none", wrong_argument(2),
     CALL{return dat().ep_post_recv_func(at.one.ep, -1, list(at).parts, cookie(0), plain);
}
}
, {"receive: too many", wrong_argument(2),
   CALL{return dat().ep_post_recv_func(at.one.ep, 5, list(at).parts, cookie(0), plain);
}
}
, {"receive: no list", wrong_argument(3),
   CALL{return dat().ep_post_recv_func(at.one.ep, 1, nullptr, cookie(0), plain);
}
}
,
}
;

DAT_RETURN read_to(const world &at, const DAT_RMR_TRIPLET *local, const DAT_RMR_TRIPLET *remote) {
    return dat().ep_post_rdma_read_to_rmr_func(at.one.ep, local, cookie(0), remote, plain);
}
constexpr DAT_RETURN not_to_be_written = error(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_RDMA_WRITE);

DAT_RETURN add(const world &at, DAT_LMR_TRIPLET *local, DAT_VADDR skip, bool somewhere = true) {
    DAT_RMR_TRIPLET there = at.area.remote(0, 8);
    there.virtual_address += skip;
    return dat_ib_post_fetch_and_add(at.one.ep, 1, local, cookie(0), somewhere ? &there : nullptr,
                                     plain);
}

const row<world> of_rare_posts[] = {
    {"to RMR: no sink", wrong_argument(2), CALL{const DAT_RMR_TRIPLET there = at.area.remote(0, 64);
return read_to(at, nullptr, &there);
}
}
, {"to RMR: nowhere", wrong_argument(4), CALL{const DAT_RMR_TRIPLET here = at.area.remote(0, 64);
return read_to(at, &here, nullptr);
}
}
, {"to RMR: unknown sink", not_to_be_written, CALL{DAT_RMR_TRIPLET here = at.area.remote(0, 64);
here.rmr_context = 0xdeadbeef;
return read_to(at, &here, &here);
}
}
, {"to RMR: beyond the sink", not_to_be_written,
   CALL{const DAT_RMR_TRIPLET here = at.area.remote(4090, 64);
return read_to(at, &here, &here);
}
}
, {"atomic: no sink", wrong_argument(3), CALL{return add(at, nullptr, 0);
}
}
, {"atomic: nowhere", wrong_argument(5), CALL{DAT_LMR_TRIPLET here = at.area.part(0, 8);
return add(at, &here, 0, false);
}
}
, {"atomic: not aligned", wrong_argument(5), CALL{DAT_LMR_TRIPLET here = at.area.part(0, 8);
return add(at, &here, 4);
}
}
, {"atomic: not 8 bytes", error(DAT_LENGTH_ERROR), CALL{DAT_LMR_TRIPLET here = at.area.part(0, 16);
return add(at, &here, 0);
}
}
, {"datagram: fewer than none", wrong_argument(2), CALL{DAT_IB_ADDR_HANDLE where = {};
return dat_ib_post_send_ud(at.one.ep, -1, list(at).parts, &where, cookie(0), plain);
}
}
, {"datagram: no list", wrong_argument(3), CALL{DAT_IB_ADDR_HANDLE where = {};
return dat_ib_post_send_ud(at.one.ep, 1, nullptr, &where, cookie(0), plain);
}
}
, {"datagram: no address", wrong_argument(4),
   CALL{return dat_ib_post_send_ud(at.one.ep, 1, list(at).parts, nullptr, cookie(0), plain);
}
}
, {"datagram: an empty address", wrong_argument(4), CALL{DAT_IB_ADDR_HANDLE where = {};
return dat_ib_post_send_ud(at.one.ep, 1, list(at).parts, &where, cookie(0), plain);
}
}
, {"address: none", wrong_argument(3), CALL{return dat_ib_ud_ah_free(at.one.ep, nullptr);
}
}
, {"peer: none", wrong_argument(3), CALL{return dat_ib_ud_cm_free(at.one.ep, nullptr);
}
}
, {"peer: unknown", wrong_argument(3), CALL{return dat_ib_ud_cm_free(at.one.ep, &made);
}
}
, {"counters", error(DAT_NOT_IMPLEMENTED),
   CALL{return dat_ib_query_counters(at.one.ep, 0, nullptr, 0);
}
}
, {"no such extension", error(DAT_NOT_IMPLEMENTED), CALL{return dat_extension_op(at.one.ep, 0x7777);
}
}
,
}
;

} // namespace

int main() {
    register_names();
    const CMUnitTest tests[] = {
        ROWS(of_attributes),
        ROWS(of_posts),
        ROWS(of_rare_posts),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
