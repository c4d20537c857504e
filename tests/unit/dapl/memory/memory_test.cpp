// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// PZs, LMRs and RMRs: create, query, use, free. sync_test.cpp has the sync calls.

#include "fake/consumer.hpp"
#include "fake/thread_state.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <optional>
#include <sys/mman.h>
#include <thread>

using namespace fake;

namespace {

constexpr DAT_UINT32 atomics = 0x40; // DAT_IB_MEM_PRIV_REMOTE_ATOMIC

DAT_LMR_PARAM query_lmr(DAT_LMR_HANDLE lmr) {
    DAT_LMR_PARAM param = {};
    assert_success(dat().lmr_query_func(lmr, DAT_LMR_FIELD_ALL, &param));
    return param;
}
/// The access flags passed to ibv_reg_mr.
unsigned access_of(const memory &buffer) {
    const library_call_guard call;
    return get_fabric().find_mr(buffer.lmr_context)->access;
}

void pz_query_returns_ia(void **) {
    ia_fixture ia;
    DAT_PZ_PARAM param = {};
    assert_success(dat().pz_query_func(ia.pz, DAT_PZ_FIELD_ALL, &param));
    assert_ptr_equal(param.ia_handle, first_registry_ia);
}

void pz_in_use_not_freed(void **) {
    ia_fixture ia;
    memory buffer(ia);
    assert_int_equal(dat().pz_free_func(ia.pz), invalid_state(DAT_INVALID_STATE_PZ_IN_USE));
}

void lmr_query_returns_create_arguments(void **) {
    ia_fixture ia;
    memory buffer(ia, 1000);
    const DAT_LMR_PARAM param = query_lmr(buffer.lmr);
    assert_ptr_equal(param.ia_handle, first_registry_ia);
    assert_ptr_equal(param.pz_handle, ia.pz);
    assert_int_equal(param.mem_type, DAT_MEM_TYPE_VIRTUAL);
    assert_ptr_equal(param.region_desc.for_va, buffer.bytes.data());
    assert_int_equal(param.length, 1000);
    assert_int_equal(param.registered_size, 1000);
    assert_int_equal(param.registered_address,
                     reinterpret_cast<std::uintptr_t>(buffer.bytes.data()));
    assert_int_equal(param.mem_priv, DAT_MEM_PRIV_ALL_FLAG);
    assert_int_equal(param.va_type, DAT_VA_TYPE_VA);
    assert_int_equal(param.lmr_context, buffer.lmr_context);
    assert_int_equal(param.rmr_context, buffer.rmr_context);
}

void lmr_privileges_passed_to_verbs(void **) {
    const struct {
        DAT_UINT32 privileges;
        unsigned access;
    } cases[] = {
        {DAT_MEM_PRIV_NONE_FLAG, 0},
        {DAT_MEM_PRIV_LOCAL_READ_FLAG, 0},
        {DAT_MEM_PRIV_LOCAL_WRITE_FLAG, IBV_ACCESS_LOCAL_WRITE},
        {DAT_MEM_PRIV_REMOTE_READ_FLAG, IBV_ACCESS_REMOTE_READ},
        // Verbs want local write access with remote write access.
        {DAT_MEM_PRIV_REMOTE_WRITE_FLAG, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE},
        {atomics, IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_LOCAL_WRITE},
        {DAT_MEM_PRIV_ALL_FLAG,
         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE},
    };
    ia_fixture ia;
    for (const auto &it : cases) {
        memory buffer(ia, 64, static_cast<DAT_MEM_PRIV_FLAGS>(it.privileges));
        assert_int_equal(access_of(buffer) & ~unsigned{IBV_ACCESS_MW_BIND}, it.access);
        assert_true((access_of(buffer) & IBV_ACCESS_MW_BIND) != 0); // RMRs may be bound to all LMRs
        const bool remote = (it.access & ~unsigned{IBV_ACCESS_LOCAL_WRITE}) != 0;
        assert_int_equal(buffer.rmr_context != 0,
                         remote); // no rmr_context without a remote privilege
    }
}

void lmr_without_mw_support_has_no_bind_access(void **) {
    get_fabric().devices[0].attr.max_mw = 0;
    ia_fixture ia;
    memory buffer(ia);
    assert_int_equal(access_of(buffer) & IBV_ACCESS_MW_BIND, 0);
}

void atomic_privilege_unsupported_by_device_rejected(void **) {
    ia_fixture ia("iwarp");
    DAT_REGION_DESCRIPTION region_desc = {};
    std::uint64_t value = 0;
    region_desc.for_va = &value;
    DAT_LMR_HANDLE lmr = &value;
    assert_int_equal(dat().lmr_create_func(ia.handle, DAT_MEM_TYPE_VIRTUAL, region_desc, 8, ia.pz,
                                           static_cast<DAT_MEM_PRIV_FLAGS>(atomics), DAT_VA_TYPE_VA,
                                           &lmr, nullptr, nullptr, nullptr, nullptr),
                     dat_error(DAT_MODEL_NOT_SUPPORTED));
    assert_ptr_equal(lmr, &value);
}

void zero_based_lmr_begins_at_zero(void **) {
    ia_fixture ia;
    memory buffer(ia, 4096, DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_ZB);
    assert_int_equal(buffer.registered_address, 0);
    assert_int_equal(query_lmr(buffer.lmr).registered_address, 0);
}

/// The results of dat_lmr_create.
struct lmr_result {
    DAT_RETURN result;
    DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
    DAT_VADDR registered_address = 0;
    DAT_VLEN length = 0;
    DAT_LMR_CONTEXT context = 0;
};
lmr_result create_lmr(ia_fixture &ia, DAT_UINT32 mem_type, DAT_REGION_DESCRIPTION region_desc,
                      DAT_VLEN length) {
    lmr_result param = {};
    param.result =
        dat().lmr_create_func(ia.handle, static_cast<DAT_MEM_TYPE>(mem_type), region_desc, length,
                              ia.pz, DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, &param.lmr,
                              &param.context, nullptr, &param.length, &param.registered_address);
    return param;
}

void lmr_of_lmr_covers_whole_range(void **) {
    ia_fixture ia;
    memory buffer(ia, 1000);
    DAT_REGION_DESCRIPTION region_desc = {};
    region_desc.for_lmr_handle = buffer.lmr;
    for (const DAT_VLEN ignored : {DAT_VLEN{0}, DAT_VLEN{100}, DAT_VLEN{5000}}) {
        const lmr_result lmr = create_lmr(ia, DAT_MEM_TYPE_LMR, region_desc, ignored);
        assert_success(lmr.result);
        assert_int_equal(lmr.registered_address, buffer.registered_address);
        assert_int_equal(lmr.length, 1000);
        assert_int_equal(query_lmr(lmr.lmr).mem_type, DAT_MEM_TYPE_LMR);
        assert_success(dat().lmr_free_func(lmr.lmr));
    }
    const lmr_result lmr = create_lmr(ia, DAT_MEM_TYPE_LMR, region_desc, 1);
    buffer.free(); // the LMRs do not depend on each other
    assert_success(dat().lmr_free_func(lmr.lmr));
}

/// Anonymous pages, MAP_SHARED or MAP_PRIVATE.
struct mapping {
    explicit mapping(int map_flags, std::size_t bytes = 8192)
        : size(bytes)
        , addr(mmap(nullptr, size, PROT_READ | PROT_WRITE, map_flags | MAP_ANONYMOUS, -1, 0)) {
        assert_true(addr != MAP_FAILED);
    }
    ~mapping() { munmap(addr, size); }
    std::size_t size;
    void *addr;
};

DAT_REGION_DESCRIPTION shared_region(void *addr, char (&cookie)[DAT_LMR_COOKIE_SIZE]) {
    DAT_REGION_DESCRIPTION region_desc = {};
    region_desc.for_shared_memory.virtual_address = addr;
    region_desc.for_shared_memory.shared_memory_id = &cookie;
    return region_desc;
}

/// A cookie names shared memory in all processes; it is registered with it any number of times.
void shared_lmr_registered_by_cookie(void **) {
    ia_fixture ia;
    const mapping buffer(MAP_SHARED);
    char cookie[DAT_LMR_COOKIE_SIZE] = "unit";
    const lmr_result lmr = create_lmr(ia, DAT_MEM_TYPE_SHARED_VIRTUAL,
                                      shared_region(buffer.addr, cookie), buffer.size);
    assert_success(lmr.result);
    assert_int_equal(query_lmr(lmr.lmr).mem_type, DAT_MEM_TYPE_SHARED_VIRTUAL);
    assert_ptr_equal(query_lmr(lmr.lmr).region_desc.for_shared_memory.shared_memory_id, &cookie);
    const lmr_result second_lmr = create_lmr(ia, DAT_MEM_TYPE_SHARED_VIRTUAL,
                                             shared_region(buffer.addr, cookie), buffer.size);
    assert_success(second_lmr.result); // the same memory again
    assert_success(dat().lmr_free_func(lmr.lmr));
    assert_success(dat().lmr_free_func(second_lmr.lmr));
}

void cookie_of_other_memory_rejected(void **) {
    ia_fixture ia;
    const mapping buffer(MAP_SHARED), other_memory(MAP_SHARED);
    char cookie[DAT_LMR_COOKIE_SIZE] = "unit";
    const lmr_result first_lmr = create_lmr(ia, DAT_MEM_TYPE_SHARED_VIRTUAL,
                                            shared_region(buffer.addr, cookie), buffer.size);
    assert_success(first_lmr.result);
    const auto create = [&](void *addr, DAT_VLEN length, char(&lmr_cookie)[DAT_LMR_COOKIE_SIZE]) {
        return create_lmr(ia, DAT_MEM_TYPE_SHARED_VIRTUAL, shared_region(addr, lmr_cookie), length);
    };
    assert_int_equal(create(other_memory.addr, other_memory.size, cookie).result,
                     invalid_state(DAT_NO_SUBTYPE));
    assert_int_equal(create(buffer.addr, 4096, cookie).result, invalid_state(DAT_NO_SUBTYPE));
    // All 40 bytes of a cookie are compared, also those after a 0.
    char similar_cookie[DAT_LMR_COOKIE_SIZE] = "unit";
    similar_cookie[DAT_LMR_COOKIE_SIZE - 1] = 1;
    const lmr_result lmr = create(other_memory.addr, other_memory.size, similar_cookie);
    assert_success(lmr.result);
    assert_success(dat().lmr_free_func(lmr.lmr));
    assert_success(dat().lmr_free_func(first_lmr.lmr));
    const lmr_result second_lmr =
        create(other_memory.addr, other_memory.size, cookie); // the cookie is free again
    assert_success(second_lmr.result);
    assert_success(dat().lmr_free_func(second_lmr.lmr));
}

/// DAT_MEM_TYPE_SHARED_VIRTUAL needs a shared mapping for the whole range.
void private_memory_not_shareable(void **) {
    ia_fixture ia;
    const mapping buffer(MAP_PRIVATE), mixed(MAP_SHARED, 12288);
    char cookie[DAT_LMR_COOKIE_SIZE] = "unit";
    assert_int_equal(
        create_lmr(ia, DAT_MEM_TYPE_SHARED_VIRTUAL, shared_region(buffer.addr, cookie), 1).result,
        invalid_state(DAT_NO_SUBTYPE));
    // A range with a private page in between is rejected, too.
    assert_ptr_not_equal(mmap(static_cast<char *>(mixed.addr) + 4096, 4096, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
                         MAP_FAILED);
    assert_int_equal(
        create_lmr(ia, DAT_MEM_TYPE_SHARED_VIRTUAL, shared_region(mixed.addr, cookie), 12288)
            .result,
        invalid_state(DAT_NO_SUBTYPE));
    DAT_REGION_DESCRIPTION without_cookie = shared_region(mixed.addr, cookie);
    without_cookie.for_shared_memory.shared_memory_id = nullptr;
    assert_int_equal(create_lmr(ia, DAT_MEM_TYPE_SHARED_VIRTUAL, without_cookie, 4096).result,
                     invalid_parameter(3));
}

void failed_shared_lmr_frees_cookie(void **) {
    ia_fixture ia;
    const mapping buffer(MAP_SHARED), other_memory(MAP_SHARED);
    char cookie[DAT_LMR_COOKIE_SIZE] = "unit";
    get_fabric().injected.fail_always("ibv_reg_mr", ENOMEM);
    assert_int_equal(
        create_lmr(ia, DAT_MEM_TYPE_SHARED_VIRTUAL, shared_region(buffer.addr, cookie), buffer.size)
            .result,
        dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
    get_fabric().injected.fail_none();
    const lmr_result lmr = create_lmr(ia, DAT_MEM_TYPE_SHARED_VIRTUAL,
                                      shared_region(other_memory.addr, cookie), other_memory.size);
    assert_success(lmr.result);
    assert_success(dat().lmr_free_func(lmr.lmr));
}

void lmr_longer_than_max_mr_size_rejected(void **) {
    ia_fixture ia;
    get_fabric().allow_unmapped_memory = true;
    DAT_REGION_DESCRIPTION region_desc = {};
    region_desc.for_va = &region_desc;
    DAT_LMR_HANDLE lmr = &region_desc;
    const DAT_VLEN max_length = get_fabric().devices[0].attr.max_mr_size;
    assert_int_equal(dat().lmr_create_func(ia.handle, DAT_MEM_TYPE_VIRTUAL, region_desc,
                                           max_length + 1, ia.pz, DAT_MEM_PRIV_ALL_FLAG,
                                           DAT_VA_TYPE_VA, &lmr, nullptr, nullptr, nullptr,
                                           nullptr),
                     invalid_parameter(4));
    assert_ptr_equal(lmr, &region_desc);
}

void so_virtual_lmr_has_no_relaxed_ordering(void **) {
    ia_fixture ia;
    std::uint64_t value = 0;
    DAT_REGION_DESCRIPTION region_desc = {};
    region_desc.for_va = &value;
    const lmr_result lmr =
        create_lmr(ia, 3, region_desc, sizeof value); // DAT_MEM_TYPE_SO_VIRTUAL of uDAPL 1.2
    assert_success(lmr.result);
    assert_int_equal(query_lmr(lmr.lmr).mem_type, 3);
    {
        const library_call_guard call;
        assert_int_equal(get_fabric().find_mr(lmr.context)->access & IBV_ACCESS_RELAXED_ORDERING,
                         0);
    }
    assert_success(dat().lmr_free_func(lmr.lmr));
}

/// The errno of ibv_reg_mr becomes the DAT_RETURN of dat_lmr_create.
void registration_errors_translated(void **) {
    const struct {
        int error;
        DAT_RETURN expected;
    } cases[] = {
        {ENOMEM, dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY)},
        {ENOSPC, dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY_REGION)},
        {EAGAIN, dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY_REGION)},
        {EFAULT, invalid_parameter(3)},
        {EINVAL, invalid_parameter(6)},
        {EOPNOTSUPP, dat_error(DAT_MODEL_NOT_SUPPORTED)},
        {EIO, dat_error(DAT_INTERNAL_ERROR)},
    };
    ia_fixture ia;
    unsigned char bytes[8];
    DAT_REGION_DESCRIPTION region_desc = {};
    region_desc.for_va = bytes;
    for (const auto &it : cases) {
        get_fabric().injected.fail_always("ibv_reg_mr",
                                          it.error); // EFAULT: retried without IBV_ACCESS_MW_BIND
        DAT_LMR_HANDLE lmr = bytes;
        assert_int_equal(dat().lmr_create_func(ia.handle, DAT_MEM_TYPE_VIRTUAL, region_desc, 8,
                                               ia.pz, DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, &lmr,
                                               nullptr, nullptr, nullptr, nullptr),
                         it.expected);
        assert_ptr_equal(lmr, bytes);
        get_fabric().injected.fail_none();
    }
}

// -- RMRs

struct rmr_fixture {
    explicit rmr_fixture(const char *name = "roce")
        : ia(name)
        , passive(ia)
        , active(ia)
        , buffer(ia)
        , peer_buffer(ia) {
        connect(passive, active);
        assert_success(dat().rmr_create_func(ia.pz, &rmr));
    }
    ~rmr_fixture() {
        if (ia.handle == DAT_HANDLE_NULL)
            return;
        assert_success(dat().rmr_free_func(rmr));
        disconnect(passive, active);
    }
    DAT_RETURN bind(DAT_UINT32 privileges, DAT_SEG_LENGTH length, DAT_VA_TYPE va = DAT_VA_TYPE_VA) {
        const DAT_LMR_TRIPLET iov = {buffer.registered_address + 64, length, buffer.lmr_context};
        return dat().rmr_bind_func(rmr, length != 0 ? buffer.lmr : DAT_HANDLE_NULL, &iov,
                                   static_cast<DAT_MEM_PRIV_FLAGS>(privileges), va, passive.handle,
                                   cookie(0xb1d), DAT_COMPLETION_DEFAULT_FLAG, &context);
    }
    void wait_bind(DAT_DTO_COMPLETION_STATUS status = DAT_DTO_SUCCESS) {
        const DAT_EVENT event = wait_event(passive.request_evd, DAT_RMR_BIND_COMPLETION_EVENT);
        const auto &data = event.event_data.rmr_completion_event_data;
        assert_ptr_equal(data.rmr_handle, rmr);
        assert_int_equal(data.user_cookie.as_64, 0xb1d);
        assert_int_equal(data.status, status);
    }
    /// The peer writes through the RMR.
    DAT_DTO_COMPLETION_STATUS write(DAT_VADDR region_desc, DAT_SEG_LENGTH length) {
        const DAT_RMR_TRIPLET remote = {region_desc, length, context};
        DAT_LMR_TRIPLET iov = peer_buffer.lmr_triplet(0, length);
        assert_success(dat().ep_post_rdma_write_func(active.handle, 1, &iov, cookie(1), &remote,
                                                     DAT_COMPLETION_DEFAULT_FLAG));
        const DAT_EVENT event = wait_event(active.request_evd, DAT_DTO_COMPLETION_EVENT);
        return event.event_data.dto_completion_event_data.status;
    }

    ia_fixture ia;
    ep_fixture passive, active;
    memory buffer, peer_buffer;
    DAT_RMR_HANDLE rmr = DAT_HANDLE_NULL;
    DAT_RMR_CONTEXT context = 0;
};

/// With an RMR whose MW is of type 2.
struct ep_rmr_fixture : rmr_fixture {
    ep_rmr_fixture() {
        assert_success(dat().rmr_free_func(rmr));
        assert_success(dat().rmr_create_for_ep_func(ia.pz, &rmr));
    }
};

void peer_writes_through_bound_rmr(void **) {
    for (const DAT_VA_TYPE va : {DAT_VA_TYPE_VA, DAT_VA_TYPE_ZB}) {
        reset_fabric(nullptr);
        rmr_fixture fixture;
        fixture.peer_buffer.fill(3);
        assert_success(fixture.bind(DAT_MEM_PRIV_REMOTE_WRITE_FLAG, 128, va));
        fixture.wait_bind();
        const DAT_VADDR begin = va == DAT_VA_TYPE_ZB ? 0 : fixture.buffer.registered_address + 64;
        assert_int_equal(fixture.write(begin, 128), DAT_DTO_SUCCESS);
        assert_memory_equal(fixture.buffer.bytes.data() + 64, fixture.peer_buffer.bytes.data(),
                            128);
        DAT_RMR_PARAM param = {};
        assert_success(dat().rmr_query_func(fixture.rmr, DAT_RMR_FIELD_ALL, &param));
        assert_int_equal(param.rmr_context, fixture.context);
        assert_int_equal(param.lmr_triplet.segment_length, 128);
        assert_int_equal(param.mem_priv, DAT_MEM_PRIV_REMOTE_WRITE_FLAG);
        assert_int_equal(param.va_type, va);
        assert_int_equal(param.rmr_scope, DAT_RMR_SCOPE_PZ);
        assert_ptr_equal(param.pz_handle, fixture.ia.pz);
    }
}

void unbound_rmr_queried_as_new(void **) {
    rmr_fixture fixture;
    assert_success(fixture.bind(DAT_MEM_PRIV_REMOTE_WRITE_FLAG, 128, DAT_VA_TYPE_ZB));
    fixture.wait_bind();
    assert_success(fixture.bind(DAT_MEM_PRIV_REMOTE_READ_FLAG, 0, DAT_VA_TYPE_ZB));
    fixture.wait_bind();
    DAT_RMR_PARAM param = {};
    assert_success(dat().rmr_query_func(fixture.rmr, DAT_RMR_FIELD_ALL, &param));
    const DAT_LMR_TRIPLET no_range = {};
    assert_memory_equal(&param.lmr_triplet, &no_range, sizeof no_range);
    assert_int_equal(param.mem_priv, DAT_MEM_PRIV_NONE_FLAG);
    assert_int_equal(param.va_type, DAT_VA_TYPE_VA);
    assert_int_equal(param.rmr_context, 0);
}

void write_beyond_rmr_fails(void **) {
    rmr_fixture fixture;
    assert_success(fixture.bind(DAT_MEM_PRIV_REMOTE_WRITE_FLAG, 128));
    fixture.wait_bind();
    assert_int_equal(fixture.write(fixture.buffer.registered_address + 64, 129),
                     DAT_DTO_ERR_REMOTE_ACCESS);
    wait_event(fixture.active.connect_evd, DAT_CONNECTION_EVENT_BROKEN);
    wait_event(fixture.passive.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    assert_success(dat().rmr_free_func(fixture.rmr));
    free_all(fixture.ia, fixture.passive, fixture.active, fixture.buffer, fixture.peer_buffer);
}

void lmr_with_bound_rmr_not_freed(void **) {
    rmr_fixture fixture;
    assert_success(fixture.bind(DAT_MEM_PRIV_REMOTE_WRITE_FLAG, 128));
    fixture.wait_bind();
    assert_int_equal(dat().lmr_free_func(fixture.buffer.lmr),
                     invalid_state(DAT_INVALID_STATE_LMR_IN_USE));
    assert_success(fixture.bind(DAT_MEM_PRIV_NONE_FLAG, 0)); // unbound
    fixture.wait_bind();
    DAT_RMR_PARAM param = {};
    assert_success(dat().rmr_query_func(fixture.rmr, DAT_RMR_FIELD_ALL, &param));
    assert_int_equal(param.rmr_context, 0);
}

void lmr_not_freed_before_unbind_is_executed(void **) {
    rmr_fixture fixture;
    assert_success(fixture.bind(DAT_MEM_PRIV_REMOTE_WRITE_FLAG, 128));
    fixture.wait_bind();
    get_fabric().hold_work_requests();
    assert_success(fixture.bind(DAT_MEM_PRIV_NONE_FLAG, 0));
    const DAT_RETURN early = dat().lmr_free_func(fixture.buffer.lmr);
    get_fabric().release_work_requests();
    assert_int_equal(early, invalid_state(DAT_INVALID_STATE_LMR_IN_USE));
    fixture.wait_bind();
    // The failed call changed nothing.
    DAT_LMR_PARAM param = {};
    assert_success(dat().lmr_query_func(fixture.buffer.lmr, DAT_LMR_FIELD_ALL, &param));
    assert_int_equal(param.lmr_context, fixture.buffer.lmr_context);
    assert_success(fixture.bind(DAT_MEM_PRIV_REMOTE_WRITE_FLAG, 128));
    fixture.wait_bind();
    assert_int_equal(fixture.write(fixture.buffer.registered_address + 64, 128), DAT_DTO_SUCCESS);
}

/// The flushed unbind has left the RMR bound, so the device refuses the deregistration.
void lmr_not_freed_after_unbind_is_flushed(void **) {
    rmr_fixture fixture;
    assert_success(fixture.bind(DAT_MEM_PRIV_REMOTE_WRITE_FLAG, 128));
    fixture.wait_bind();
    get_fabric().hold_work_requests();
    assert_success(fixture.bind(DAT_MEM_PRIV_NONE_FLAG, 0));
    disconnect(fixture.passive, fixture.active);
    get_fabric().release_work_requests();
    fixture.wait_bind(DAT_DTO_ERR_FLUSHED);
    assert_int_equal(dat().lmr_free_func(fixture.buffer.lmr),
                     invalid_state(DAT_INVALID_STATE_LMR_IN_USE));
    assert_success(dat().rmr_free_func(fixture.rmr));
    free_all(fixture.ia, fixture.passive, fixture.active, fixture.buffer, fixture.peer_buffer);
}

/// Another thread uses the LMR during ibv_dereg_mr, which fails, since the unbind is not executed.
void lmr_stays_valid_while_free_is_refused(void **) {
    rmr_fixture fixture;
    assert_success(fixture.bind(DAT_MEM_PRIV_REMOTE_WRITE_FLAG, 128));
    fixture.wait_bind();
    get_fabric().hold_work_requests();
    assert_success(fixture.bind(DAT_MEM_PRIV_NONE_FLAG, 0)); // not executed: the device refuses
    DAT_LMR_HANDLE const lmr = fixture.buffer.lmr;
    DAT_LMR_TRIPLET iov = fixture.buffer.lmr_triplet(0, 64);
    const DAT_RMR_TRIPLET sink = fixture.buffer.rmr_triplet(0, 64);
    const ep_fixture unconnected(fixture.ia);
    DAT_LMR_PARAM param = {};
    DAT_RETURN query = DAT_CLASS_ERROR, set_context = DAT_CLASS_ERROR, sync = DAT_CLASS_ERROR,
               read = DAT_CLASS_ERROR;
    get_fabric().during_dereg_mr = [&] {
        std::thread([&] {
            query = dat().lmr_query_func(lmr, DAT_LMR_FIELD_ALL, &param);
            set_context = dat().set_consumer_context_func(lmr, {});
            sync = dat().lmr_sync_rdma_write_func(fixture.ia.handle, &iov, 1);
            // The RMR context is checked before the EP's state.
            read = dat().ep_post_rdma_read_to_rmr_func(unconnected.handle, &sink, cookie(1), &sink,
                                                       DAT_COMPLETION_DEFAULT_FLAG);
        }).join();
    };
    const DAT_RETURN refused = dat().lmr_free_func(lmr);
    get_fabric().during_dereg_mr = nullptr;
    get_fabric().release_work_requests();
    assert_int_equal(refused, invalid_state(DAT_INVALID_STATE_LMR_IN_USE));
    assert_success(query);
    assert_success(set_context);
    assert_success(sync);
    assert_int_equal(read, invalid_state(DAT_INVALID_STATE_EP_UNCONNECTED));
    fixture.wait_bind();
}

/// Another thread binds an RMR to the LMR during ibv_dereg_mr, which succeeds.
void lmr_not_bound_while_it_is_freed(void **) {
    rmr_fixture fixture;
    memory freed(fixture.ia);
    DAT_LMR_HANDLE const lmr = freed.lmr;
    const DAT_LMR_TRIPLET iov = freed.lmr_triplet(0, 64);
    DAT_RETURN bind = DAT_SUCCESS;
    std::atomic<bool> ended = false;
    std::optional<named_thread> thread;
    // The bind waits until the MR is gone, which it would use.
    get_fabric().during_dereg_mr = [&] {
        thread.emplace([&] {
            bind = dat().rmr_bind_func(fixture.rmr, lmr, &iov, DAT_MEM_PRIV_REMOTE_READ_FLAG,
                                       DAT_VA_TYPE_VA, fixture.passive.handle, cookie(1),
                                       DAT_COMPLETION_DEFAULT_FLAG, &fixture.context);
            ended = true;
        });
        wait_until([&] { return ended || thread->is_asleep(); });
    };
    const DAT_RETURN result = dat().lmr_free_func(lmr);
    get_fabric().during_dereg_mr = nullptr;
    thread->join();
    assert_success(result);
    freed.lmr = DAT_HANDLE_NULL;
    assert_int_equal(bind, invalid_handle(DAT_INVALID_HANDLE_LMR));
}

void rmr_free_unbinds_lmr(void **) {
    rmr_fixture fixture;
    for (int i = 0; i != 3; ++i) { // a bound RMR can be bound again
        assert_success(fixture.bind(DAT_MEM_PRIV_REMOTE_READ_FLAG, 64));
        fixture.wait_bind();
    }
}

void ep_scoped_rmr_gets_new_context_per_bind(void **) {
    ep_rmr_fixture fixture;
    DAT_RMR_PARAM param = {};
    assert_success(dat().rmr_query_func(fixture.rmr, DAT_RMR_FIELD_ALL, &param));
    assert_int_equal(param.rmr_scope, DAT_RMR_SCOPE_EP);
    DAT_RMR_CONTEXT old_context = 0;
    for (int i = 0; i != 2; ++i) {
        assert_success(fixture.bind(DAT_MEM_PRIV_REMOTE_WRITE_FLAG, 64));
        fixture.wait_bind();
        assert_int_not_equal(fixture.context,
                             old_context); // the context of the last bind is invalid
        old_context = fixture.context;
        assert_int_equal(fixture.write(fixture.buffer.registered_address + 64, 64),
                         DAT_DTO_SUCCESS);
        assert_success(fixture.bind(DAT_MEM_PRIV_NONE_FLAG, 0));
        fixture.wait_bind();
    }
}

/// How many WRs invalidate an MW of the passive EP.
long count_local_invs() {
    const auto &posts = get_fabric().posts;
    return std::count_if(posts.begin(), posts.end(), [](const posted_wr &posted) {
        return !posted.is_recv && posted.wr.opcode == IBV_WR_LOCAL_INV;
    });
}

/// The RMR is unbound, which posts so many LOCAL_INV.
void assert_unbind(rmr_fixture &fixture, long local_invs) {
    const long old_count = count_local_invs();
    assert_success(fixture.bind(DAT_MEM_PRIV_NONE_FLAG, 0));
    fixture.wait_bind();
    assert_int_equal(count_local_invs() - old_count, local_invs);
    assert_int_equal(fixture.context, 0);
}

/// An unbind posts an IBV_WR_LOCAL_INV only if the RMR is bound.
void unbound_ep_scoped_rmr_not_invalidated(void **) {
    ep_rmr_fixture fixture;
    assert_unbind(fixture, 0);
    for (int i = 0; i != 2; ++i) {
        assert_success(fixture.bind(DAT_MEM_PRIV_REMOTE_WRITE_FLAG, 64));
        fixture.wait_bind();
        assert_unbind(fixture, 1);
        assert_unbind(fixture, 0);
    }
    // The first of two is not executed yet.
    assert_success(fixture.bind(DAT_MEM_PRIV_REMOTE_WRITE_FLAG, 64));
    fixture.wait_bind();
    get_fabric().hold_work_requests();
    const long old_count = count_local_invs();
    for (int i = 0; i != 2; ++i)
        assert_success(fixture.bind(DAT_MEM_PRIV_NONE_FLAG, 0));
    get_fabric().release_work_requests();
    for (int i = 0; i != 2; ++i)
        fixture.wait_bind();
    assert_int_equal(count_local_invs() - old_count, 1);
}

/// A Send with Invalidate of the peer has unbound the RMR.
void rmr_invalidated_by_peer_not_invalidated_again(void **) {
    ep_rmr_fixture fixture;
    assert_success(fixture.bind(DAT_MEM_PRIV_REMOTE_WRITE_FLAG, 64));
    fixture.wait_bind();
    DAT_LMR_TRIPLET recv_iov = fixture.buffer.lmr_triplet(0, 64);
    assert_success(dat().ep_post_recv_func(fixture.passive.handle, 1, &recv_iov, cookie(1),
                                           DAT_COMPLETION_DEFAULT_FLAG));
    DAT_LMR_TRIPLET send_iov = fixture.peer_buffer.lmr_triplet(0, 64);
    assert_success(dat().ep_post_send_with_invalidate_func(fixture.active.handle, 1, &send_iov,
                                                           cookie(2), DAT_COMPLETION_DEFAULT_FLAG,
                                                           DAT_TRUE, fixture.context));
    wait_event(fixture.passive.recv_evd, DAT_DTO_COMPLETION_EVENT);
    assert_unbind(fixture, 0);
}

/// An unbind that was flushed has left the RMR bound.
void flushed_unbind_is_repeated(void **) {
    ep_rmr_fixture fixture;
    assert_success(fixture.bind(DAT_MEM_PRIV_REMOTE_WRITE_FLAG, 64));
    fixture.wait_bind();
    get_fabric().hold_work_requests();
    assert_success(fixture.bind(DAT_MEM_PRIV_NONE_FLAG, 0));
    disconnect(fixture.passive, fixture.active);
    get_fabric().release_work_requests();
    fixture.wait_bind(DAT_DTO_ERR_FLUSHED);
    for (const ep_fixture *ep : {&fixture.passive, &fixture.active})
        assert_success(dat().ep_reset_func(ep->handle));
    connect(fixture.passive, fixture.active);
    assert_unbind(fixture, 1);
}

void rmr_bind_across_pz_rejected(void **) {
    rmr_fixture fixture;
    DAT_PZ_HANDLE const pz = fixture.ia.create_pz();
    DAT_RMR_HANDLE const old_rmr = fixture.rmr;
    assert_success(dat().rmr_create_func(pz, &fixture.rmr));
    assert_int_equal(fixture.bind(DAT_MEM_PRIV_REMOTE_READ_FLAG, 64),
                     dat_error(DAT_PRIVILEGES_VIOLATION));
    assert_success(dat().rmr_free_func(fixture.rmr));
    fixture.rmr = old_rmr;
    assert_success(dat().pz_free_func(pz));
}

void rmr_bind_unsupported_by_device_rejected(void **) {
    get_fabric().devices[0].attr.device_cap_flags = 0;
    rmr_fixture fixture;
    assert_int_equal(fixture.bind(DAT_MEM_PRIV_REMOTE_READ_FLAG, 64),
                     dat_error(DAT_MODEL_NOT_SUPPORTED));
    // No reference is left: the destructor frees the LMR.
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        TEST(pz_query_returns_ia),
        TEST(pz_in_use_not_freed),
        TEST(lmr_query_returns_create_arguments),
        TEST(lmr_privileges_passed_to_verbs),
        TEST(lmr_without_mw_support_has_no_bind_access),
        TEST(atomic_privilege_unsupported_by_device_rejected),
        TEST(zero_based_lmr_begins_at_zero),
        TEST(lmr_of_lmr_covers_whole_range),
        TEST(shared_lmr_registered_by_cookie),
        TEST(cookie_of_other_memory_rejected),
        TEST(private_memory_not_shareable),
        TEST(failed_shared_lmr_frees_cookie),
        TEST(lmr_longer_than_max_mr_size_rejected),
        TEST(so_virtual_lmr_has_no_relaxed_ordering),
        TEST(registration_errors_translated),
        TEST(peer_writes_through_bound_rmr),
        TEST(unbound_rmr_queried_as_new),
        TEST(write_beyond_rmr_fails),
        TEST(lmr_with_bound_rmr_not_freed),
        TEST(lmr_not_freed_before_unbind_is_executed),
        TEST(lmr_not_freed_after_unbind_is_flushed),
        TEST(lmr_stays_valid_while_free_is_refused),
        TEST(lmr_not_bound_while_it_is_freed),
        TEST(rmr_free_unbinds_lmr),
        TEST(ep_scoped_rmr_gets_new_context_per_bind),
        TEST(unbound_ep_scoped_rmr_not_invalidated),
        TEST(rmr_invalidated_by_peer_not_invalidated_again),
        TEST(flushed_unbind_is_repeated),
        TEST(rmr_bind_across_pz_rejected),
        TEST(rmr_bind_unsupported_by_device_rejected),
    };
    return run_cases(tests);
}
