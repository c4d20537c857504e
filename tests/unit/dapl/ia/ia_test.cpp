// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "fake/consumer.hpp"

#include <cerrno>
#include <sys/resource.h>
#include <vector>

using namespace fake;

namespace {

void connected_eps_transfer_on_both_devices(void **) {
    for (const char *ia_name : {"roce", "iwarp"}) {
        ia_fixture ia(ia_name);
        ep_fixture ep(ia), peer_ep(ia);
        memory local_memory(ia), remote_memory(ia);
        local_memory.fill(1);
        connect(ep, peer_ep);
        DAT_LMR_TRIPLET recv_iov = remote_memory.lmr_triplet(0, 4096),
                        send_iov = local_memory.lmr_triplet(0, 4096);
        assert_int_equal(dat().ep_post_recv_func(peer_ep.handle, 1, &recv_iov, cookie(7),
                                                 DAT_COMPLETION_DEFAULT_FLAG),
                         DAT_SUCCESS);
        assert_int_equal(dat().ep_post_send_func(ep.handle, 1, &send_iov, cookie(8),
                                                 DAT_COMPLETION_DEFAULT_FLAG),
                         DAT_SUCCESS);
        wait_event(ep.request_evd, DAT_DTO_COMPLETION_EVENT);
        wait_event(peer_ep.recv_evd, DAT_DTO_COMPLETION_EVENT);
        assert_memory_equal(local_memory.bytes.data(), remote_memory.bytes.data(), 4096);
        disconnect(ep, peer_ep);
    }
}

DAT_RETURN open_ia(char *name, DAT_COUNT qlen) {
    DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = &async;
    const DAT_RETURN result = dat().ia_open_func(name, qlen, &async, &ia);
    assert_ptr_equal(ia, &async);
    return result;
}

/// As many as the registry has handles for.
void as_many_ias_open_as_handles_exist(void **) {
    constexpr std::size_t max_ias = 4095;
    constexpr std::size_t other_files = 100; // an IA has one
    rlimit files;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = files.rlim_max; // 1024 by default
    if (files.rlim_max < max_ias + other_files || setrlimit(RLIMIT_NOFILE, &files) != 0) {
        print_message("# skipped: ulimit -Hn is below %zu\n", max_ias + other_files);
        skip();
    }
    char name[] = "roce";
    std::vector<DAT_IA_HANDLE> ias(max_ias);
    DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL; // of the first IA, for all
    for (DAT_IA_HANDLE &ia : ias)
        assert_success(dat().ia_open_func(name, 8, &async_evd, &ia));
    for (std::size_t i = ias.size(); i-- != 0;)
        assert_success(dat().ia_close_func(ias[i], DAT_CLOSE_GRACEFUL_FLAG));
}

// A registry rejects most of these arguments itself.
void ia_open_bad_arguments_rejected(void **) {
    char known[] = "roce", unknown[] = "unknown";
    assert_int_equal(open_ia(nullptr, 8), invalid_parameter(1));
    assert_int_equal(open_ia(unknown, 8),
                     dat_error(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED));
    assert_int_equal(open_ia(known, 0), invalid_parameter(2));
    assert_int_equal(open_ia(known, -1), invalid_parameter(2));
}

/// As libcoherdma says of a device whose queues no call can sync, or of a CPU without cache
/// instructions; also if only the LMRs' memory cannot be synced.
void device_that_no_sync_helps_not_opened(void **) {
    char name[] = "roce";
    get_fabric().sync_required = 1;
    for (const unsigned nth : {1U, 2U}) {
        get_fabric().injected.fail("coherdma_open_device", EOPNOTSUPP, nth);
        assert_int_equal(open_ia(name, 8), dat_error(DAT_INTERNAL_ERROR));
        assert_string_equal(get_fabric().injected.failed_call().c_str(), "coherdma_open_device");
        get_fabric().injected.fail_none();
    }
    get_fabric().injected.fail("coherdma_query_device", EINVAL);
    assert_int_equal(open_ia(name, 8), dat_error(DAT_INTERNAL_ERROR));
    get_fabric().injected.fail_none();
    const ia_fixture ia; // when they succeed
}

DAT_PROVIDER_ATTR query_provider(const ia_fixture &ia) {
    DAT_PROVIDER_ATTR attr = {};
    assert_success(
        dat().ia_query_func(ia.handle, nullptr, 0, nullptr, DAT_PROVIDER_FIELD_ALL, &attr));
    return attr;
}

void attributes_name_both_rmr_scopes(void **) {
    ia_fixture ia;
    DAT_RMR_HANDLE pz_rmr, ep_rmr;
    assert_success(dat().rmr_create_func(ia.pz, &pz_rmr));
    assert_success(dat().rmr_create_for_ep_func(ia.pz, &ep_rmr));
    assert_int_equal(query_provider(ia).rmr_scope_supported, DAT_RMR_SCOPE_ANY);
    assert_success(dat().rmr_free_func(pz_rmr));
    assert_success(dat().rmr_free_func(ep_rmr));
}

/// 0x111: DAT_SRQ_LOW_WATERMARK, soft and hard high watermark, if the device has SRQs.
void attributes_name_all_watermarks(void **) {
    {
        ia_fixture ia;
        DAT_SRQ_HANDLE const srq = ia.create_srq();
        {
            ep_fixture ep(ia, nullptr, srq);
            assert_success(dat().srq_set_lw_func(srq, 1));
            assert_success(dat().ep_set_watermark_func(ep.handle, 1, 2));
            assert_int_equal(query_provider(ia).srq_watermarks_supported, 0x111);
        }
        assert_success(dat().srq_free_func(srq));
    }
    get_fabric().devices[0].attr.max_srq = 0;
    const ia_fixture ia;
    assert_int_equal(query_provider(ia).srq_watermarks_supported, 0);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        TEST(connected_eps_transfer_on_both_devices), TEST(as_many_ias_open_as_handles_exist),
        TEST(ia_open_bad_arguments_rejected),         TEST(device_that_no_sync_helps_not_opened),
        TEST(attributes_name_both_rmr_scopes),        TEST(attributes_name_all_watermarks),
    };
    return run_cases(tests);
}
