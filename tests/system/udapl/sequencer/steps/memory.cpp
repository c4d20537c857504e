// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// PZs, LMRs, RMRs and sync.

#include "steps.hpp"

#include <cstdio>
#include <unistd.h>

namespace sequencer {

namespace {

void create_pz(worker &thread) {
    const object_ref ia = thread.draw_ia();
    DAT_PZ_HANDLE handle = DAT_HANDLE_NULL;
    call create_call(thread, rules::pz_create);
    create_call.creates(DAT_HANDLE_TYPE_PZ);
    create_call.check_result(dat_pz_create(create_call.use_handle(ia, "ia"), &handle));
    if (!create_call.has_succeeded())
        return;
    object &pz = thread.add_object(DAT_HANDLE_TYPE_PZ, handle, ia.obj);
    if (!thread.insert_unless_full(pz))
        free_object(thread, pz.type, {&pz, handle});
}

void query_pz(worker &thread) {
    DAT_PZ_PARAM param = {};
    query(thread, rules::pz_query, thread.draw(DAT_HANDLE_TYPE_PZ), dat_pz_query, DAT_PZ_FIELD_ALL,
          param);
}

/// Describes the memory to register, as the type wants it: `address`, a drawn LMR, or `address`
/// shared by `cookie`, which this function fills.
DAT_REGION_DESCRIPTION make_region(worker &thread, call &create_call, const object_ref &ia,
                                   DAT_MEM_TYPE type, unsigned char *address,
                                   char (&cookie)[DAT_LMR_COOKIE_SIZE]) {
    DAT_REGION_DESCRIPTION region = {};
    if (type == DAT_MEM_TYPE_LMR) {
        region.for_lmr_handle =
            create_call.use_handle(thread.draw(DAT_HANDLE_TYPE_LMR, ia.obj), ia.obj, "lmr");
    } else if (type == DAT_MEM_TYPE_SHARED_VIRTUAL) {
        std::snprintf(cookie, sizeof cookie, "sequencer %d %u", getpid(),
                      thread.random.number_below(3));
        region.for_shared_memory = {address, &cookie};
        create_call.allow(rules::invalid_state); // another LMR has other memory with the cookie
    } else {
        region.for_va = address;
    }
    return region;
}

void create_lmr(worker &thread) {
    static constexpr DAT_MEM_PRIV_FLAGS privilege_sets[] = {
        DAT_MEM_PRIV_ALL_FLAG, DAT_MEM_PRIV_ALL_FLAG, DAT_MEM_PRIV_LOCAL_READ_FLAG,
        DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_LOCAL_WRITE_FLAG |
            DAT_MEM_PRIV_REMOTE_READ_FLAG};
    static constexpr DAT_MEM_TYPE types[] = {DAT_MEM_TYPE_VIRTUAL, DAT_MEM_TYPE_VIRTUAL,
                                             DAT_MEM_TYPE_VIRTUAL, DAT_MEM_TYPE_LMR,
                                             DAT_MEM_TYPE_SHARED_VIRTUAL};
    const object_ref ia = thread.draw_ia();
    const object_ref pz = thread.draw(DAT_HANDLE_TYPE_PZ, ia.obj);
    const DAT_MEM_TYPE type = thread.random.choose(types);
    const DAT_MEM_PRIV_FLAGS privileges = thread.random.choose(privilege_sets);
    const std::size_t offset = 64 * thread.random.number_below(memory_size / 128);
    DAT_VLEN length = 64 + thread.random.number_below(memory_size / 2 - 64);
    char cookie[DAT_LMR_COOKIE_SIZE] = {};
    DAT_LMR_HANDLE handle = DAT_HANDLE_NULL;
    DAT_LMR_CONTEXT lmr_context = 0;
    DAT_RMR_CONTEXT rmr_context = 0;
    DAT_VLEN registered_length = 0;
    DAT_VADDR registered_address = 0;
    call create_call(thread, rules::lmr_create);
    create_call.creates(DAT_HANDLE_TYPE_LMR);
    DAT_HANDLE const ia_handle = create_call.use_handle(ia, "ia"),
                     pz_handle = create_call.use_handle(pz, ia.obj, "pz");
    const DAT_REGION_DESCRIPTION region =
        make_region(thread, create_call, ia, type, lmr_memory() + offset, cookie);
    if (thread.random.percent_chance(2) && type == DAT_MEM_TYPE_VIRTUAL) {
        create_call.allow(type_bit(DAT_LENGTH_ERROR));
        create_call.expect_invalid_parameter();
        length = 0;
    }
    create_call.check_result(dat_lmr_create(
        ia_handle, create_call.arg("type", type), region, create_call.arg("length", length),
        pz_handle, create_call.arg("privileges", privileges), DAT_VA_TYPE_VA, &handle, &lmr_context,
        &rmr_context, &registered_length, &registered_address));
    if (!create_call.has_succeeded())
        return;
    object &lmr = thread.add_object(DAT_HANDLE_TYPE_LMR, handle, ia.obj);
    lmr.pz = pz.obj;
    lmr.triplet = {registered_address, static_cast<DAT_SEG_LENGTH>(registered_length), lmr_context};
    lmr.rmr_context = rmr_context;
    lmr.privileges = privileges;
    expect(type == DAT_MEM_TYPE_LMR || registered_length == length,
           "dat_lmr_create registered another length");
    if (!thread.insert_unless_full(lmr))
        free_object(thread, lmr.type, {&lmr, handle});
}

void query_lmr(worker &thread) {
    const object_ref lmr = thread.draw(DAT_HANDLE_TYPE_LMR);
    DAT_LMR_PARAM param = {};
    if (!query(thread, rules::lmr_query, lmr, dat_lmr_query, DAT_LMR_FIELD_ALL, param))
        return;
    expect(param.lmr_context == lmr.obj->triplet.lmr_context &&
               param.rmr_context == lmr.obj->rmr_context &&
               param.registered_address == lmr.obj->triplet.virtual_address &&
               param.registered_size == lmr.obj->triplet.segment_length &&
               param.pz_handle == lmr.obj->pz->handle && param.mem_priv == lmr.obj->privileges,
           "dat_lmr_query returned other values than those of dat_lmr_create");
}

template <const call_rule &rule,
          DAT_RETURN (*function)(DAT_IA_HANDLE, const DAT_LMR_TRIPLET *, DAT_VLEN)>
void sync(worker &thread) {
    const object_ref ia = thread.draw_ia();
    DAT_LMR_TRIPLET segments[4] = {};
    const std::size_t count = thread.random.number_below(std::size(segments) + 1);
    std::array<object *, std::size(segments)> lmrs = {};
    for (std::size_t i = 0; i != count; ++i) {
        lmrs.at(i) = thread.draw(DAT_HANDLE_TYPE_LMR, ia.obj).obj;
        if (lmrs.at(i) == nullptr)
            return;
        segments[i] = lmrs.at(i)->triplet;
        segments[i].segment_length = 1 + thread.random.number_below(segments[i].segment_length);
    }
    call sync_call(thread, rule);
    DAT_HANDLE const handle = sync_call.use_handle(ia, "ia");
    for (std::size_t i = 0; i != count; ++i)
        sync_call.arg("lmr_context", segments[i].lmr_context);
    const DAT_RETURN result = function(handle, segments, count);
    // The context of a freed LMR is invalid, or is that of another LMR by now.
    for (std::size_t i = 0; i != count; ++i)
        if (lmrs.at(i)->ia != ia.obj || lmrs.at(i)->free_attempts != 0 || lmrs.at(i)->is_freed())
            sync_call.allow(rules::invalid_parameter);
    sync_call.check_result(result);
}

template <const call_rule &rule, DAT_RETURN (*function)(DAT_PZ_HANDLE, DAT_RMR_HANDLE *),
          DAT_RMR_SCOPE scope>
void create_rmr(worker &thread) {
    const object_ref pz = thread.draw(DAT_HANDLE_TYPE_PZ);
    DAT_RMR_HANDLE handle = DAT_HANDLE_NULL;
    call create_call(thread, rule);
    create_call.creates(DAT_HANDLE_TYPE_RMR);
    create_call.check_result(function(create_call.use_handle(pz, "pz"), &handle));
    if (!create_call.has_succeeded())
        return;
    object &rmr = thread.add_object(DAT_HANDLE_TYPE_RMR, handle, pz.obj->ia);
    rmr.pz = pz.obj;
    rmr.rmr_scope = scope;
    if (!thread.insert_unless_full(rmr))
        free_object(thread, rmr.type, {&rmr, handle});
}

void query_rmr(worker &thread) {
    const object_ref rmr = thread.draw(DAT_HANDLE_TYPE_RMR);
    DAT_RMR_PARAM param = {};
    if (query(thread, rules::rmr_query, rmr, dat_rmr_query, DAT_RMR_FIELD_ALL, param))
        expect(param.pz_handle == rmr.obj->pz->handle && param.rmr_scope == rmr.obj->rmr_scope,
               "dat_rmr_query returned another PZ or scope");
}

/// Binds to an LMR, or unbinds: a triplet of length 0.
void bind(worker &thread) {
    const object_ref rmr = thread.draw(DAT_HANDLE_TYPE_RMR);
    const object *const ia = rmr.obj != nullptr ? rmr.obj->ia : nullptr;
    const object_ref lmr = thread.draw(DAT_HANDLE_TYPE_LMR, ia),
                     ep = thread.draw(DAT_HANDLE_TYPE_EP, ia);
    const bool unbind = thread.random.percent_chance(20);
    DAT_LMR_TRIPLET triplet = lmr.obj != nullptr ? lmr.obj->triplet : DAT_LMR_TRIPLET{};
    DAT_RMR_CONTEXT context = 0;
    if (unbind)
        triplet.segment_length = 0;
    else if (lmr.obj == nullptr)
        return; // the triplet is empty, and no LMR would be used
    call bind_call(thread, rules::rmr_bind);
    DAT_HANDLE const handle = bind_call.use_handle(rmr, "rmr");
    if (!unbind)
        bind_call.use_handle(lmr, ia, "lmr");
    DAT_HANDLE const ep_handle = bind_call.use_handle(ep, ia, "ep");
    if (ep.obj != nullptr && ep.obj->is_datagram)
        bind_call.allow_only(rules::not_supported);
    bind_call.check_result(
        dat_rmr_bind(handle, lmr.handle, &triplet,
                     DAT_MEM_PRIV_REMOTE_READ_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG, DAT_VA_TYPE_VA,
                     ep_handle, thread.draw_cookie(), DAT_COMPLETION_DEFAULT_FLAG, &context));
    if (bind_call.has_succeeded())
        rmr.obj->bound_rmr_context = context;
}

template <DAT_HANDLE_TYPE type>
void free_random(worker &thread) {
    free_object(thread, type, thread.draw(type));
}

} // namespace

std::span<const step> memory_steps() {
    static constexpr step steps[] = {
        {create_pz, 6},
        {query_pz, 2},
        {free_random<DAT_HANDLE_TYPE_PZ>, 5},
        {create_lmr, 14},
        {query_lmr, 4},
        {free_random<DAT_HANDLE_TYPE_LMR>, 6},
        {sync<rules::lmr_sync_rdma_read, dat_lmr_sync_rdma_read>, 4},
        {sync<rules::lmr_sync_rdma_write, dat_lmr_sync_rdma_write>, 4},
        {create_rmr<rules::rmr_create, dat_rmr_create, DAT_RMR_SCOPE_PZ>, 4},
        {create_rmr<rules::rmr_create_for_ep, dat_rmr_create_for_ep, DAT_RMR_SCOPE_EP>, 4},
        {query_rmr, 3},
        {bind, 8},
        {free_random<DAT_HANDLE_TYPE_RMR>, 4},
    };
    return steps;
}

} // namespace sequencer
