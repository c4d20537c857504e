// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "consumer.hpp"

using namespace played;

namespace {

void two_are_connected_and_talk(void **) {
    for (const char *name : {"ib", "iw"}) {
        adapter on(name);
        end one(on), other(on);
        memory here(on), there(on);
        here.fill(1);
        connect(one, other);
        DAT_LMR_TRIPLET to = there.part(0, 4096), from = here.part(0, 4096);
        assert_int_equal(
            dat().ep_post_recv_func(other.ep, 1, &to, cookie(7), DAT_COMPLETION_DEFAULT_FLAG),
            DAT_SUCCESS);
        assert_int_equal(
            dat().ep_post_send_func(one.ep, 1, &from, cookie(8), DAT_COMPLETION_DEFAULT_FLAG),
            DAT_SUCCESS);
        next(one.requests, DAT_DTO_COMPLETION_EVENT);
        next(other.receives, DAT_DTO_COMPLETION_EVENT);
        assert_memory_equal(here.bytes.data(), there.bytes.data(), 4096);
        disconnect(one, other);
        one.free();
        other.free();
        here.free();
        there.free();
        assert_int_equal(dat().pz_free_func(on.pz), DAT_SUCCESS);
        on.close(DAT_CLOSE_GRACEFUL_FLAG);
    }
}

} // namespace

int main() {
    register_names();
    const CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(two_are_connected_and_talk, fresh, gone),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
