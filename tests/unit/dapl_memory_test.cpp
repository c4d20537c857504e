// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// PZs, LMRs and RMRs: made, asked, used, freed. dapl_sync_test has what syncs them.

#include "consumer.hpp"

#include <cerrno>
#include <sys/mman.h>

using namespace played;

namespace {

constexpr DAT_UINT32 atomics = 0x40; // DAT_IB_MEM_PRIV_REMOTE_ATOMIC

void done(DAT_RETURN result) {
    assert_int_equal(result, DAT_SUCCESS);
}
void close(adapter &on) {
    done(dat().pz_free_func(on.pz));
    on.close(DAT_CLOSE_GRACEFUL_FLAG);
}
DAT_LMR_PARAM ask_all(DAT_LMR_HANDLE lmr) {
    DAT_LMR_PARAM param = {};
    done(dat().lmr_query_func(lmr, DAT_LMR_FIELD_ALL, &param));
    return param;
}
/// What verbs were told of it.
unsigned access_of(const memory &area) {
    const entered call;
    return net().local(area.lmr_context)->access;
}

void a_zone_tells_its_ia(void **) {
    adapter on;
    DAT_PZ_PARAM param = {};
    done(dat().pz_query_func(on.pz, DAT_PZ_FIELD_ALL, &param));
    assert_ptr_equal(param.ia_handle, reinterpret_cast<DAT_IA_HANDLE>(1));
    close(on);
}

void a_zone_in_use_stays(void **) {
    adapter on;
    memory area(on);
    assert_int_equal(dat().pz_free_func(on.pz), wrong_state(DAT_INVALID_STATE_PZ_IN_USE));
    area.free();
    close(on);
}

void an_lmr_tells_what_it_is(void **) {
    adapter on;
    memory area(on, 1000);
    const DAT_LMR_PARAM is = ask_all(area.lmr);
    assert_ptr_equal(is.ia_handle, reinterpret_cast<DAT_IA_HANDLE>(1));
    assert_ptr_equal(is.pz_handle, on.pz);
    assert_int_equal(is.mem_type, DAT_MEM_TYPE_VIRTUAL);
    assert_ptr_equal(is.region_desc.for_va, area.bytes.data());
    assert_int_equal(is.length, 1000);
    assert_int_equal(is.registered_size, 1000);
    assert_int_equal(is.registered_address, reinterpret_cast<std::uintptr_t>(area.bytes.data()));
    assert_int_equal(is.mem_priv, DAT_MEM_PRIV_ALL_FLAG);
    assert_int_equal(is.va_type, DAT_VA_TYPE_VA);
    assert_int_equal(is.lmr_context, area.lmr_context);
    assert_int_equal(is.rmr_context, area.rmr_context);
    area.free();
    close(on);
}

void each_privilege_is_what_verbs_hear(void **) {
    const struct {
        DAT_UINT32 privileges;
        unsigned access;
    } all[] = {
        {DAT_MEM_PRIV_NONE_FLAG, 0},
        {DAT_MEM_PRIV_LOCAL_READ_FLAG, 0},
        {DAT_MEM_PRIV_LOCAL_WRITE_FLAG, IBV_ACCESS_LOCAL_WRITE},
        {DAT_MEM_PRIV_REMOTE_READ_FLAG, IBV_ACCESS_REMOTE_READ},
        // Hardware that writes for a peer must be allowed to write here.
        {DAT_MEM_PRIV_REMOTE_WRITE_FLAG, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE},
        {atomics, IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_LOCAL_WRITE},
        {DAT_MEM_PRIV_ALL_FLAG,
         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE},
    };
    adapter on;
    for (const auto &each : all) {
        memory area(on, 64, static_cast<DAT_MEM_PRIV_FLAGS>(each.privileges));
        assert_int_equal(access_of(area) & ~unsigned{IBV_ACCESS_MW_BIND}, each.access);
        assert_true((access_of(area) & IBV_ACCESS_MW_BIND) != 0); // RMRs may be bound to any
        const bool remote = (each.access & ~unsigned{IBV_ACCESS_LOCAL_WRITE}) != 0;
        assert_int_equal(area.rmr_context != 0, remote); // nobody's word where nobody may
        area.free();
    }
    close(on);
}

void without_windows_verbs_hear_of_none(void **) {
    net().devices[0].limits.max_mw = 0;
    adapter on;
    memory area(on);
    assert_int_equal(access_of(area) & IBV_ACCESS_MW_BIND, 0);
    area.free();
    close(on);
}

void atomics_need_a_device_that_has_them(void **) {
    adapter on("iw");
    DAT_REGION_DESCRIPTION where = {};
    std::uint64_t word = 0;
    where.for_va = &word;
    DAT_LMR_HANDLE made = &word;
    assert_int_equal(dat().lmr_create_func(on.ia, DAT_MEM_TYPE_VIRTUAL, where, 8, on.pz,
                                           static_cast<DAT_MEM_PRIV_FLAGS>(atomics), DAT_VA_TYPE_VA,
                                           &made, nullptr, nullptr, nullptr, nullptr),
                     error(DAT_MODEL_NOT_SUPPORTED));
    assert_ptr_equal(made, &word);
    close(on);
}

void a_zero_based_one_begins_at_zero(void **) {
    adapter on;
    memory area(on, 4096, DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_ZB);
    assert_int_equal(area.begin, 0);
    assert_int_equal(ask_all(area.lmr).registered_address, 0);
    area.free();
    close(on);
}

/// What a call said, and made.
struct outcome {
    DAT_RETURN result;
    DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
    DAT_VADDR begin = 0;
    DAT_VLEN length = 0;
    DAT_LMR_CONTEXT context = 0;
};
outcome make(adapter &on, DAT_UINT32 kind, DAT_REGION_DESCRIPTION where, DAT_VLEN length) {
    outcome is = {};
    is.result = dat().lmr_create_func(on.ia, static_cast<DAT_MEM_TYPE>(kind), where, length, on.pz,
                                      DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, &is.lmr, &is.context,
                                      nullptr, &is.length, &is.begin);
    return is;
}

void one_lmr_lies_in_another_with_all_its_length(void **) {
    adapter on;
    memory area(on, 1000);
    DAT_REGION_DESCRIPTION where = {};
    where.for_lmr_handle = area.lmr;
    for (const DAT_VLEN ignored : {DAT_VLEN{0}, DAT_VLEN{100}, DAT_VLEN{5000}}) {
        const outcome made = make(on, DAT_MEM_TYPE_LMR, where, ignored);
        done(made.result);
        assert_int_equal(made.begin, area.begin);
        assert_int_equal(made.length, 1000);
        assert_int_equal(ask_all(made.lmr).mem_type, DAT_MEM_TYPE_LMR);
        done(dat().lmr_free_func(made.lmr));
    }
    const outcome made = make(on, DAT_MEM_TYPE_LMR, where, 1);
    area.free(); // They do not need each other.
    done(dat().lmr_free_func(made.lmr));
    close(on);
}

/// Pages, shared with whoever maps them too, or of this process alone.
struct pages {
    explicit pages(int how, std::size_t bytes = 8192)
        : size(bytes)
        , at(mmap(nullptr, size, PROT_READ | PROT_WRITE, how | MAP_ANONYMOUS, -1, 0)) {
        assert_true(at != MAP_FAILED);
    }
    ~pages() { munmap(at, size); }
    std::size_t size;
    void *at;
};

DAT_REGION_DESCRIPTION shared(void *at, char (&cookie)[DAT_LMR_COOKIE_SIZE]) {
    DAT_REGION_DESCRIPTION where = {};
    where.for_shared_memory.virtual_address = at;
    where.for_shared_memory.shared_memory_id = &cookie;
    return where;
}

void shared_memory_is_registered_by_its_cookie(void **) {
    adapter on;
    const pages area(MAP_SHARED);
    char cookie[DAT_LMR_COOKIE_SIZE] = "unit";
    const outcome one = make(on, DAT_MEM_TYPE_SHARED_VIRTUAL, shared(area.at, cookie), area.size);
    done(one.result);
    assert_int_equal(ask_all(one.lmr).mem_type, DAT_MEM_TYPE_SHARED_VIRTUAL);
    assert_ptr_equal(ask_all(one.lmr).region_desc.for_shared_memory.shared_memory_id, &cookie);
    const outcome other = make(on, DAT_MEM_TYPE_SHARED_VIRTUAL, shared(area.at, cookie), area.size);
    done(other.result); // once more, with the same meaning
    done(dat().lmr_free_func(one.lmr));
    done(dat().lmr_free_func(other.lmr));
    close(on);
}

void a_cookie_means_one_memory(void **) {
    adapter on;
    const pages area(MAP_SHARED), another(MAP_SHARED);
    char cookie[DAT_LMR_COOKIE_SIZE] = "unit";
    const outcome one = make(on, DAT_MEM_TYPE_SHARED_VIRTUAL, shared(area.at, cookie), area.size);
    done(one.result);
    const auto other = [&](void *at, DAT_VLEN length, char(&id)[DAT_LMR_COOKIE_SIZE]) {
        return make(on, DAT_MEM_TYPE_SHARED_VIRTUAL, shared(at, id), length);
    };
    assert_int_equal(other(another.at, another.size, cookie).result, wrong_state(DAT_NO_SUBTYPE));
    assert_int_equal(other(area.at, 4096, cookie).result, wrong_state(DAT_NO_SUBTYPE));
    // The last of its 40 bytes tells cookies apart, though a string would have ended before.
    char almost[DAT_LMR_COOKIE_SIZE] = "unit";
    almost[DAT_LMR_COOKIE_SIZE - 1] = 1;
    const outcome made = other(another.at, another.size, almost);
    done(made.result);
    done(dat().lmr_free_func(made.lmr));
    done(dat().lmr_free_func(one.lmr));
    const outcome anew =
        other(another.at, another.size, cookie); // Nobody means the first any more.
    done(anew.result);
    done(dat().lmr_free_func(anew.lmr));
    close(on);
}

void memory_of_one_process_is_not_shared(void **) {
    adapter on;
    const pages area(MAP_PRIVATE), both(MAP_SHARED, 12288);
    char cookie[DAT_LMR_COOKIE_SIZE] = "unit";
    assert_int_equal(make(on, DAT_MEM_TYPE_SHARED_VIRTUAL, shared(area.at, cookie), 1).result,
                     wrong_state(DAT_NO_SUBTYPE));
    // Nor is a range with another page in between.
    assert_ptr_not_equal(mmap(static_cast<char *>(both.at) + 4096, 4096, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
                         MAP_FAILED);
    assert_int_equal(make(on, DAT_MEM_TYPE_SHARED_VIRTUAL, shared(both.at, cookie), 12288).result,
                     wrong_state(DAT_NO_SUBTYPE));
    DAT_REGION_DESCRIPTION nameless = shared(both.at, cookie);
    nameless.for_shared_memory.shared_memory_id = nullptr;
    assert_int_equal(make(on, DAT_MEM_TYPE_SHARED_VIRTUAL, nameless, 4096).result,
                     wrong_argument(3));
    close(on);
}

void what_fails_leaves_no_meaning(void **) {
    adapter on;
    const pages area(MAP_SHARED), another(MAP_SHARED);
    char cookie[DAT_LMR_COOKIE_SIZE] = "unit";
    net().wrong.fail_always("ibv_reg_mr", ENOMEM);
    assert_int_equal(
        make(on, DAT_MEM_TYPE_SHARED_VIRTUAL, shared(area.at, cookie), area.size).result,
        error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
    net().wrong.stop();
    const outcome made =
        make(on, DAT_MEM_TYPE_SHARED_VIRTUAL, shared(another.at, cookie), another.size);
    done(made.result);
    done(dat().lmr_free_func(made.lmr));
    close(on);
}

void strong_order_is_a_type_of_its_own(void **) {
    adapter on;
    std::uint64_t word = 0;
    DAT_REGION_DESCRIPTION where = {};
    where.for_va = &word;
    const outcome made = make(on, 3, where, sizeof word); // DAT_MEM_TYPE_SO_VIRTUAL of uDAPL 1.2
    done(made.result);
    assert_int_equal(ask_all(made.lmr).mem_type, 3);
    {
        const entered call;
        assert_int_equal(net().local(made.context)->access & IBV_ACCESS_RELAXED_ORDERING, 0);
    }
    done(dat().lmr_free_func(made.lmr));
    close(on);
}

void each_error_of_registering_has_its_word(void **) {
    const struct {
        int said;
        DAT_RETURN expected;
    } all[] = {
        {ENOMEM, error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY)},
        {ENOSPC, error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY_REGION)},
        {EAGAIN, error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY_REGION)},
        {EFAULT, wrong_argument(3)},
        {EINVAL, wrong_argument(6)},
        {EOPNOTSUPP, error(DAT_MODEL_NOT_SUPPORTED)},
        {EIO, error(DAT_INTERNAL_ERROR)},
    };
    adapter on;
    unsigned char bytes[8];
    DAT_REGION_DESCRIPTION where = {};
    where.for_va = bytes;
    for (const auto &each : all) {
        net().wrong.fail_always("ibv_reg_mr", each.said); // EFAULT is tried again without windows
        DAT_LMR_HANDLE made = bytes;
        assert_int_equal(dat().lmr_create_func(on.ia, DAT_MEM_TYPE_VIRTUAL, where, 8, on.pz,
                                               DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, &made,
                                               nullptr, nullptr, nullptr, nullptr),
                         each.expected);
        assert_ptr_equal(made, bytes);
        net().wrong.stop();
    }
    close(on);
}

// -- windows

struct pair_of_ends {
    explicit pair_of_ends(const char *name = "ib")
        : on(name)
        , one(on)
        , other(on)
        , area(on)
        , peers(on) {
        connect(one, other);
        done(dat().rmr_create_func(on.pz, &rmr));
    }
    void free() {
        done(dat().rmr_free_func(rmr));
        disconnect(one, other);
        one.free();
        other.free();
        area.free();
        peers.free();
        close(on);
    }
    DAT_RETURN bind(DAT_UINT32 privileges, DAT_SEG_LENGTH length, DAT_VA_TYPE va = DAT_VA_TYPE_VA) {
        const DAT_LMR_TRIPLET part = {area.begin + 64, length, area.lmr_context};
        return dat().rmr_bind_func(rmr, length != 0 ? area.lmr : DAT_HANDLE_NULL, &part,
                                   static_cast<DAT_MEM_PRIV_FLAGS>(privileges), va, one.ep,
                                   cookie(0xb1d), DAT_COMPLETION_DEFAULT_FLAG, &context);
    }
    void bound(DAT_DTO_COMPLETION_STATUS status = DAT_DTO_SUCCESS) {
        const DAT_EVENT event = next(one.requests, DAT_RMR_BIND_COMPLETION_EVENT);
        const auto &data = event.event_data.rmr_completion_event_data;
        assert_ptr_equal(data.rmr_handle, rmr);
        assert_int_equal(data.user_cookie.as_64, 0xb1d);
        assert_int_equal(data.status, status);
    }
    /// The peer writes where the window says.
    DAT_DTO_COMPLETION_STATUS write(DAT_VADDR where, DAT_SEG_LENGTH length) {
        const DAT_RMR_TRIPLET there = {where, length, context};
        DAT_LMR_TRIPLET part = peers.part(0, length);
        done(dat().ep_post_rdma_write_func(other.ep, 1, &part, cookie(1), &there,
                                           DAT_COMPLETION_DEFAULT_FLAG));
        const DAT_EVENT event = next(other.requests, DAT_DTO_COMPLETION_EVENT);
        return event.event_data.dto_completion_event_data.status;
    }

    adapter on;
    end one, other;
    memory area, peers;
    DAT_RMR_HANDLE rmr = DAT_HANDLE_NULL;
    DAT_RMR_CONTEXT context = 0;
};

void a_peer_writes_by_a_bound_window(void **) {
    for (const DAT_VA_TYPE va : {DAT_VA_TYPE_VA, DAT_VA_TYPE_ZB}) {
        fresh(nullptr);
        pair_of_ends all;
        all.peers.fill(3);
        done(all.bind(DAT_MEM_PRIV_REMOTE_WRITE_FLAG, 128, va));
        all.bound();
        const DAT_VADDR begin = va == DAT_VA_TYPE_ZB ? 0 : all.area.begin + 64;
        assert_int_equal(all.write(begin, 128), DAT_DTO_SUCCESS);
        assert_memory_equal(all.area.bytes.data() + 64, all.peers.bytes.data(), 128);
        DAT_RMR_PARAM param = {};
        done(dat().rmr_query_func(all.rmr, DAT_RMR_FIELD_ALL, &param));
        assert_int_equal(param.rmr_context, all.context);
        assert_int_equal(param.lmr_triplet.segment_length, 128);
        assert_int_equal(param.mem_priv, DAT_MEM_PRIV_REMOTE_WRITE_FLAG);
        assert_int_equal(param.va_type, va);
        assert_int_equal(param.rmr_scope, DAT_RMR_SCOPE_PZ);
        assert_ptr_equal(param.pz_handle, all.on.pz);
        all.free();
    }
}

void a_window_ends_where_it_was_bound_to_end(void **) {
    pair_of_ends all;
    done(all.bind(DAT_MEM_PRIV_REMOTE_WRITE_FLAG, 128));
    all.bound();
    assert_int_equal(all.write(all.area.begin + 64, 129), DAT_DTO_ERR_REMOTE_ACCESS);
    next(all.other.connections, DAT_CONNECTION_EVENT_BROKEN);
    next(all.one.connections, DAT_CONNECTION_EVENT_DISCONNECTED);
    done(dat().rmr_free_func(all.rmr));
    all.one.free();
    all.other.free();
    all.area.free();
    all.peers.free();
    close(all.on);
}

void an_lmr_with_a_window_stays(void **) {
    pair_of_ends all;
    done(all.bind(DAT_MEM_PRIV_REMOTE_WRITE_FLAG, 128));
    all.bound();
    assert_int_equal(dat().lmr_free_func(all.area.lmr), wrong_state(DAT_INVALID_STATE_LMR_IN_USE));
    done(all.bind(DAT_MEM_PRIV_NONE_FLAG, 0)); // unbound
    all.bound();
    DAT_RMR_PARAM param = {};
    done(dat().rmr_query_func(all.rmr, DAT_RMR_FIELD_ALL, &param));
    assert_int_equal(param.rmr_context, 0);
    all.free();
}

void a_freed_window_lets_its_lmr_go(void **) {
    pair_of_ends all;
    for (int turn = 0; turn != 3; ++turn) { // and is bound again as often as one likes
        done(all.bind(DAT_MEM_PRIV_REMOTE_READ_FLAG, 64));
        all.bound();
    }
    all.free();
}

void a_window_of_an_endpoint(void **) {
    pair_of_ends all;
    done(dat().rmr_free_func(all.rmr));
    done(dat().rmr_create_for_ep_func(all.on.pz, &all.rmr));
    DAT_RMR_PARAM param = {};
    done(dat().rmr_query_func(all.rmr, DAT_RMR_FIELD_ALL, &param));
    assert_int_equal(param.rmr_scope, DAT_RMR_SCOPE_EP);
    DAT_RMR_CONTEXT last = 0;
    for (int turn = 0; turn != 2; ++turn) {
        done(all.bind(DAT_MEM_PRIV_REMOTE_WRITE_FLAG, 64));
        all.bound();
        assert_int_not_equal(all.context, last); // the last one's word is good for nothing
        last = all.context;
        assert_int_equal(all.write(all.area.begin + 64, 64), DAT_DTO_SUCCESS);
        done(all.bind(DAT_MEM_PRIV_NONE_FLAG, 0));
        all.bound();
    }
    all.free();
}

void all_of_a_bind_is_of_one_zone(void **) {
    pair_of_ends all;
    DAT_PZ_HANDLE const zone = all.on.zone();
    DAT_RMR_HANDLE const first = all.rmr;
    done(dat().rmr_create_func(zone, &all.rmr));
    assert_int_equal(all.bind(DAT_MEM_PRIV_REMOTE_READ_FLAG, 64), error(DAT_PRIVILEGES_VIOLATION));
    done(dat().rmr_free_func(all.rmr));
    all.rmr = first;
    done(dat().pz_free_func(zone));
    all.free();
}

void without_windows_there_is_no_bind(void **) {
    net().devices[0].limits.device_cap_flags = 0;
    pair_of_ends all;
    assert_int_equal(all.bind(DAT_MEM_PRIV_REMOTE_READ_FLAG, 64), error(DAT_MODEL_NOT_SUPPORTED));
    all.free(); // and the LMR is not in use
}

} // namespace

#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh, gone)

int main() {
    register_names();
    const CMUnitTest tests[] = {
        TEST(a_zone_tells_its_ia),
        TEST(a_zone_in_use_stays),
        TEST(an_lmr_tells_what_it_is),
        TEST(each_privilege_is_what_verbs_hear),
        TEST(without_windows_verbs_hear_of_none),
        TEST(atomics_need_a_device_that_has_them),
        TEST(a_zero_based_one_begins_at_zero),
        TEST(one_lmr_lies_in_another_with_all_its_length),
        TEST(shared_memory_is_registered_by_its_cookie),
        TEST(a_cookie_means_one_memory),
        TEST(memory_of_one_process_is_not_shared),
        TEST(what_fails_leaves_no_meaning),
        TEST(strong_order_is_a_type_of_its_own),
        TEST(each_error_of_registering_has_its_word),
        TEST(a_peer_writes_by_a_bound_window),
        TEST(a_window_ends_where_it_was_bound_to_end),
        TEST(an_lmr_with_a_window_stays),
        TEST(a_freed_window_lets_its_lmr_go),
        TEST(a_window_of_an_endpoint),
        TEST(all_of_a_bind_is_of_one_zone),
        TEST(without_windows_there_is_no_bind),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
