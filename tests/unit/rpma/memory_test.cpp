// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Registration: the access that each usage needs, on-demand paging, and advice.

#include "fake/rdma.hpp"

using namespace fake;

namespace {

char memory[64];

constexpr unsigned LOCAL_WRITE = IBV_ACCESS_LOCAL_WRITE, REMOTE_WRITE = IBV_ACCESS_REMOTE_WRITE,
                   REMOTE_READ = IBV_ACCESS_REMOTE_READ;
#ifdef COHERDMA_HAS_FLUSH
constexpr unsigned FLUSH_TO_VISIBILITY = IBV_ACCESS_FLUSH_GLOBAL,
                   FLUSH_TO_PERSISTENCE = IBV_ACCESS_FLUSH_PERSISTENT;
#else
constexpr unsigned FLUSH_TO_VISIBILITY = 0, FLUSH_TO_PERSISTENCE = 0;
#endif

struct usage_access {
    int usage;
    unsigned access;
    unsigned iwarp_access;  ///< also on iWARP
    unsigned native_access; ///< also on a device with flush
};
const usage_access usages[] = {
    {RPMA_MR_USAGE_READ_SRC, REMOTE_READ, 0, 0},
    // The response of iWARP is a Write by the peer.
    {RPMA_MR_USAGE_READ_DST, LOCAL_WRITE, REMOTE_WRITE, 0},
    {RPMA_MR_USAGE_WRITE_SRC, LOCAL_WRITE, 0, 0},
    {RPMA_MR_USAGE_WRITE_DST, LOCAL_WRITE | REMOTE_WRITE, 0, 0},
    // The peer's device may have no native flush, and read.
    {RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY, REMOTE_READ, 0, FLUSH_TO_VISIBILITY},
    {RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT, REMOTE_READ, 0, FLUSH_TO_PERSISTENCE},
    {RPMA_MR_USAGE_SEND, 0, 0, 0},
    {RPMA_MR_USAGE_RECV, LOCAL_WRITE, 0, 0},
};

unsigned to_access(int usage, bool is_iwarp, bool has_flush) {
    unsigned access = 0;
    for (const usage_access &each : usages)
        if ((usage & each.usage) != 0)
            access |= each.access | (is_iwarp ? each.iwarp_access : 0) |
                      (has_flush ? each.native_access : 0);
    return access;
}

/// Of one registration and its deregistration.
std::vector<unsigned> register_once(rpma_peer *peer, int usage) {
    last.access.clear();
    rpma_mr_local *mr = nullptr;
    assert_int_equal(rpma_mr_reg(peer, memory, sizeof memory, usage, &mr), 0);
    void *ptr = nullptr;
    std::size_t size = 0;
    assert_int_equal(rpma_mr_get_ptr(mr, &ptr), 0);
    assert_int_equal(rpma_mr_get_size(mr, &size), 0);
    assert_ptr_equal(ptr, memory);
    assert_int_equal(size, sizeof memory);
    assert_int_equal(rpma_mr_dereg(&mr), 0);
    assert_null(mr);
    return last.access;
}

void usage_determines_access(void **) {
    for (const bool is_iwarp : {false, true}) {
        // The device has flush only with both types.
        for (const std::uint64_t cap_flags :
             {std::uint64_t{0}, FLUSH_GLOBAL, FLUSH_PERSISTENT, FLUSH_GLOBAL | FLUSH_PERSISTENT}) {
            settings.transport_type = is_iwarp ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
            settings.cap_flags_ex = cap_flags;
            rpma_peer *peer = create_peer();
            const bool has_flush = cap_flags == (FLUSH_GLOBAL | FLUSH_PERSISTENT);
            for (int usage = 1; usage <= 0xff; ++usage) {
                const std::vector<unsigned> access = register_once(peer, usage);
                assert_int_equal(access.size(), 1);
                assert_int_equal(access.front(), to_access(usage, is_iwarp, has_flush));
            }
            assert_int_equal(rpma_peer_delete(&peer), 0);
        }
    }
}

constexpr std::uint32_t RC_ODP_CAPS = IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;

void unpinnable_memory_is_registered_with_on_demand_paging(void **) {
    settings.odp_caps = IBV_ODP_SUPPORT;
    settings.rc_odp_caps = RC_ODP_CAPS | IBV_ODP_SUPPORT_SEND;
    settings.pins_memory = false;
    rpma_peer *peer = create_peer();
    const std::vector<unsigned> access = register_once(peer, RPMA_MR_USAGE_READ_SRC);
    assert_int_equal(access.size(), 2);
    assert_int_equal(access.front(), REMOTE_READ);
    assert_int_equal(access.back(), REMOTE_READ | IBV_ACCESS_ON_DEMAND);
    // Memory that can be pinned is not paged, and other errors are not retried.
    settings.pins_memory = true;
    assert_int_equal(register_once(peer, RPMA_MR_USAGE_READ_SRC).size(), 1);
    for (const int error : {ENOMEM, EOPNOTSUPP}) {
        last.access.clear();
        fail_calls("ibv_reg_mr", error);
        rpma_mr_local *mr = nullptr;
        assert_int_equal(rpma_mr_reg(peer, memory, sizeof memory, RPMA_MR_USAGE_RECV, &mr),
                         RPMA_E_PROVIDER);
        assert_int_equal(errno, error);
        assert_int_equal(last.access.size(), error == EOPNOTSUPP ? 2 : 1);
        assert_null(mr);
        fail_none();
    }
    assert_int_equal(rpma_peer_delete(&peer), 0);
}

void device_without_on_demand_paging_is_not_asked_twice(void **) {
    settings.pins_memory = false;
    for (const auto &[odp_caps, rc_odp_caps] : {std::pair<std::uint64_t, std::uint32_t>{0, 0},
                                                {0, RC_ODP_CAPS},
                                                {IBV_ODP_SUPPORT, IBV_ODP_SUPPORT_READ},
                                                {IBV_ODP_SUPPORT, IBV_ODP_SUPPORT_WRITE},
                                                {IBV_ODP_SUPPORT_IMPLICIT, RC_ODP_CAPS}}) {
        settings.odp_caps = odp_caps;
        settings.rc_odp_caps = rc_odp_caps;
        int is_odp_capable = -1;
        assert_int_equal(rpma_utils_ibv_context_is_odp_capable(context(), &is_odp_capable), 0);
        assert_int_equal(is_odp_capable, 0);
        rpma_peer *peer = create_peer();
        last.access.clear();
        rpma_mr_local *mr = nullptr;
        assert_int_equal(rpma_mr_reg(peer, memory, sizeof memory, RPMA_MR_USAGE_RECV, &mr),
                         RPMA_E_PROVIDER);
        assert_int_equal(errno, EOPNOTSUPP);
        assert_int_equal(last.access.size(), 1);
        assert_int_equal(rpma_peer_delete(&peer), 0);
    }
    settings.odp_caps = IBV_ODP_SUPPORT;
    settings.rc_odp_caps = RC_ODP_CAPS;
    int is_odp_capable = -1;
    assert_int_equal(rpma_utils_ibv_context_is_odp_capable(context(), &is_odp_capable), 0);
    assert_int_equal(is_odp_capable, 1);
    fail_calls("ibv_query_device_ex", EIO);
    assert_int_equal(rpma_utils_ibv_context_is_odp_capable(context(), &is_odp_capable),
                     RPMA_E_PROVIDER);
    assert_int_equal(is_odp_capable, 0);
    assert_int_equal(errno, EIO);
}

void invalid_registration_calls_no_verbs(void **) {
    rpma_peer *peer = create_peer();
    rpma_mr_local *mr = nullptr;
    take_calls();
    const int usage = RPMA_MR_USAGE_RECV;
    assert_int_equal(rpma_mr_reg(nullptr, memory, 8, usage, &mr), RPMA_E_INVAL);
    assert_int_equal(rpma_mr_reg(peer, nullptr, 8, usage, &mr), RPMA_E_INVAL);
    assert_int_equal(rpma_mr_reg(peer, memory, 0, usage, &mr), RPMA_E_INVAL);
    assert_int_equal(rpma_mr_reg(peer, memory, 8, usage, nullptr), RPMA_E_INVAL);
    for (const int bad_usage : {0, 0x100, 0x101, 1 << 30, -1})
        assert_int_equal(rpma_mr_reg(peer, memory, 8, bad_usage, &mr), RPMA_E_INVAL);
    assert_null(mr);
    assert_true(take_calls().empty());
    assert_int_equal(rpma_peer_delete(&peer), 0);
}

void advice_has_range_within_region(void **) {
    rpma_peer *peer = create_peer();
    rpma_mr_local *mr = nullptr;
    auto *const addr = reinterpret_cast<void *>(std::uintptr_t{0x10000});
    const std::size_t size = std::size_t{1} << 33;
    assert_int_equal(rpma_mr_reg(peer, addr, size, RPMA_MR_USAGE_RECV, &mr), 0);
    take_calls();
    for (const auto &[offset, length] : {std::pair<std::size_t, std::size_t>{0, 0},
                                         {0, 1},
                                         {8, UINT32_MAX},
                                         {size - 1, 1},
                                         {size, 0}}) {
        assert_int_equal(rpma_mr_advise(mr, offset, length, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
                                        IBV_ADVISE_MR_FLAG_FLUSH),
                         0);
        assert_int_equal(last.advised.addr, 0x10000 + offset);
        assert_int_equal(last.advised.length, length);
        assert_int_equal(last.advised.lkey, LKEY);
        assert_int_equal(last.advice, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE);
        assert_int_equal(last.advice_flags, IBV_ADVISE_MR_FLAG_FLUSH);
    }
    assert_int_equal(take_calls().size(), 5);
    for (const auto &[offset, length] : {std::pair<std::size_t, std::size_t>{0, size + 1},
                                         {size, 1},
                                         {size + 1, 0},
                                         {SIZE_MAX, 2},
                                         {2, SIZE_MAX},
                                         {0, std::size_t{UINT32_MAX} + 1}})
        assert_int_equal(rpma_mr_advise(mr, offset, length, 0, 0), RPMA_E_INVAL);
    assert_true(take_calls().empty());
    for (const auto &[error, ret] : {std::pair(EOPNOTSUPP, RPMA_E_NOSUPP),
                                     {EFAULT, RPMA_E_INVAL},
                                     {EINVAL, RPMA_E_INVAL},
                                     {ENOMEM, RPMA_E_PROVIDER}}) {
        fail_calls("ibv_advise_mr", error);
        assert_int_equal(rpma_mr_advise(mr, 0, 1, 0, 0), ret);
        assert_int_equal(errno, error);
    }
    fail_none();
    assert_int_equal(rpma_mr_dereg(&mr), 0);
    assert_int_equal(rpma_peer_delete(&peer), 0);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        TEST(usage_determines_access),
        TEST(unpinnable_memory_is_registered_with_on_demand_paging),
        TEST(device_without_on_demand_paging_is_not_asked_twice),
        TEST(invalid_registration_calls_no_verbs),
        TEST(advice_has_range_within_region),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
