// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A program that uses the fake device, with or without the interposer: what its calls return and
// the completions that it polls are the same. To the file TALLY_FILE it writes what it did, as
// lines "NAME NUMBER", as the observer that counts does.

#include "cases.hpp"
#include "device.hpp"

#include <cstdio>
#include <cstdlib>

namespace {

void write_tally(const char *path) {
    std::FILE *const file = std::fopen(path, "w");
    if (file == nullptr)
        return;
    const struct {
        const char *name;
        unsigned long count;
    } objects[] = {{"context", counted.contexts}, {"pd", counted.pds}, {"mr", counted.mrs},
                   {"mw", counted.mws},           {"cq", counted.cqs}, {"srq", counted.srqs},
                   {"qp", counted.qps},           {"ah", counted.ahs}};
    for (const auto &[name, count] : objects)
        std::fprintf(file, "%s.created %lu\n%s.destroyed %lu\n", name, count, name, count);
    std::fprintf(
        file,
        "sends %lu\nreceives %lu\nsend_bytes %lu\nrefused %lu\ncompletions %lu\nfailed %lu\n"
        "unknown %lu\nsilent %lu\n",
        counted.sends.load(), counted.receives.load(), counted.send_bytes.load(),
        counted.refused.load(), counted.completions.load(), counted.failed.load(),
        counted.unknown.load(), counted.silent.load());
    std::fclose(file);
}

} // namespace

int main() {
    const CMUnitTest cases[] = {
        cmocka_unit_test(each_wr_id_comes_back_once),
        cmocka_unit_test(each_extended_cq_is_polled_by_its_functions),
        cmocka_unit_test(requests_of_an_srq_come_back),
        cmocka_unit_test(data_of_a_receive_come_with_its_completion),
        cmocka_unit_test(unsignaled_requests_have_no_completion),
        cmocka_unit_test(failure_flushes_all_requests),
        cmocka_unit_test(bad_wr_is_the_first_refused),
        cmocka_unit_test(refusal_without_bad_wr),
        cmocka_unit_test(bad_wr_is_not_wanted),
        cmocka_unit_test(depth_and_limits_are_the_drivers),
        cmocka_unit_test(object_in_use_survives_destroy),
        cmocka_unit_test(bind_mw_by_ibv_post_send),
        cmocka_unit_test(bind_mw_by_internal_function),
        cmocka_unit_test(refused_bind_mw),
        cmocka_unit_test(mw_of_type_2),
        cmocka_unit_test(completion_outlives_its_qp),
        cmocka_unit_test(address_of_a_qp_is_used_again),
        cmocka_unit_test(qp_is_reset_and_used_again),
        cmocka_unit_test(threads_use_addresses_again),
        cmocka_unit_test(address_of_a_cq_is_used_again_at_once),
        cmocka_unit_test(address_of_a_qp_is_used_again_at_once),
        cmocka_unit_test(cq_is_polled_while_destroy_fails),
        cmocka_unit_test(completion_outlives_its_srq),
        cmocka_unit_test(wr_functions_and_ibv_post_send),
        cmocka_unit_test(qp_of_a_function_of_the_driver),
        cmocka_unit_test(aborted_requests_do_not_exist),
        cmocka_unit_test(failed_batch_posts_nothing),
        cmocka_unit_test(all_opcodes_of_wr_functions),
        cmocka_unit_test(datagrams_by_both_interfaces),
    };
    const int status = cmocka_run_group_tests(cases, nullptr, nullptr);
    if (const char *const path = std::getenv("TALLY_FILE"))
        write_tally(path);
    return status;
}
