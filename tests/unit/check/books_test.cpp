// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The books of the checker, and the rules that need no device.

#include "../cmocka.hpp"
#include "check/rules.hpp"

#include <array>
#include <cerrno>
#include <cstring>

/// libibverbs' would ask the device.
extern "C" int ibv_query_qp(ibv_qp *, ibv_qp_attr *, int, ibv_qp_init_attr *) {
    return ENOSYS;
}

namespace {

using namespace coherdma::check;
using coherdma::interposer::object;
using coherdma::interposer::registration;

constexpr std::size_t LENGTH = 4096;
constexpr std::uint32_t LKEY = 0x1234, RKEY = 0x5678, PD_HANDLE = 5, OTHER_PD_HANDLE = 6;

/// A device, its objects as the program has them, and the books of them.
struct fixture {
    fixture() {
        std::strcpy(device.name, "rxe0");
        context.device = &device;
        pd.context = &context;
        pd.handle = PD_HANDLE;
        mr.context = &context;
        mr.pd = &pd;
        mr.lkey = LKEY;
        mr.rkey = RKEY;
        cq.context = &context;
        cq.cqe = 4;
        qp.context = &context;
        qp.qp_num = 17;
        known_qp added;
        added.kind = object_kind::QP;
        added.handle = &qp;
        added.context = &context;
        added.device = "rxe0";
        added.name = "QP 17";
        added.pd_handle = PD_HANDLE;
        added.send_cq = added.recv_cq = &cq;
        added.state = IBV_QPS_RTS;
        added.max_sends = 2;
        books.qps.emplace(&qp, added);
        books.add(cq_object());
    }

    object object_of(object_kind kind, const void *handle, object_number number) {
        object made;
        made.kind = kind;
        made.handle = handle;
        made.context = &context;
        made.number = number;
        return made;
    }
    object cq_object() { return object_of(object_kind::CQ, &cq, 1); }
    object mr_object() { return object_of(object_kind::MR, &mr, 2); }

    void register_memory(int access) {
        books.add_mr(mr_object(), {.pd = &pd,
                                   .addr = memory.data(),
                                   .length = memory.size(),
                                   .iova = address(),
                                   .access = access});
    }
    std::uint64_t address() const { return reinterpret_cast<std::uintptr_t>(memory.data()); }

    /// The kinds of the findings of a request with this SGE.
    std::vector<finding_kind> kinds_of(const posted_request &request, const ibv_sge &sge) {
        findings results;
        check_sges(books, books.qps.at(&qp), PD_HANDLE, request, {&sge, 1}, results);
        std::vector<finding_kind> kinds;
        for (const finding &each : results)
            kinds.push_back(each.kind);
        return kinds;
    }
    findings post(bool is_signaled, bool is_receive = false) {
        findings results;
        posted_request added;
        added.opcode = IBV_WR_SEND;
        added.is_receive = is_receive;
        added.is_signaled = is_signaled;
        const posted_request &kept = books.add_request(books.qps.at(&qp), ++last_request, added);
        check_capacity(books, books.qps.at(&qp), kept, results);
        return results;
    }

    ibv_device device = {};
    ibv_context context = {};
    ibv_pd pd = {};
    ibv_mr mr = {};
    ibv_cq cq = {};
    ibv_qp qp = {};
    std::array<char, LENGTH> memory{};
    process_books books;
    std::uint64_t last_request = 100;
};

const posted_request WRITE = {.opcode = IBV_WR_RDMA_WRITE};
const posted_request READ = {.opcode = IBV_WR_RDMA_READ};

void assert_kinds(const std::vector<finding_kind> &kinds,
                  const std::vector<finding_kind> &expected) {
    assert_true(kinds == expected);
}

void sge_of_its_mr_is_right(void **) {
    fixture f;
    f.register_memory(IBV_ACCESS_LOCAL_WRITE);
    assert_kinds(f.kinds_of(READ, {.addr = f.address(), .length = LENGTH, .lkey = LKEY}), {});
    assert_kinds(f.kinds_of(WRITE, {.addr = 0, .length = 0, .lkey = 0}), {}); // no data
}

void range_ends_with_the_mr(void **) {
    fixture f;
    f.register_memory(IBV_ACCESS_LOCAL_WRITE);
    const auto is_outside = [&](std::uint64_t addr, std::uint32_t length) {
        return f.kinds_of(WRITE, {.addr = addr, .length = length, .lkey = LKEY}) ==
               std::vector{finding_kind::LOCAL_RANGE};
    };
    assert_true(is_outside(f.address() + 1, LENGTH));
    assert_true(is_outside(f.address() - 1, 1));
    assert_true(is_outside(UINT64_MAX, 2)); // its end is before its begin
    assert_false(is_outside(f.address() + LENGTH - 1, 1));
}

void key_of_no_mr_and_rkey(void **) {
    fixture f;
    f.register_memory(IBV_ACCESS_LOCAL_WRITE);
    const std::vector unknown = {finding_kind::LOCAL_KEY};
    assert_kinds(f.kinds_of(WRITE, {.addr = f.address(), .length = 8, .lkey = 1}), unknown);
    findings results;
    const ibv_sge sge = {.addr = f.address(), .length = 8, .lkey = RKEY};
    check_sges(f.books, f.books.qps.at(&f.qp), PD_HANDLE, WRITE, {&sge, 1}, results);
    assert_string_equal(results.at(0).title.c_str(),
                        "0x5678 is the rkey of an MR; its lkey is 0x1234");
    f.books.remove(f.mr_object(), {});
    results.clear();
    const ibv_sge ended = {.addr = f.address(), .length = 8, .lkey = LKEY};
    check_sges(f.books, f.books.qps.at(&f.qp), PD_HANDLE, WRITE, {&ended, 1}, results);
    assert_string_equal(results.at(0).title.c_str(),
                        "lkey 0x1234 is of an MR that was deregistered");
}

void access_and_pd_of_an_mr(void **) {
    fixture f;
    f.register_memory(0);
    const ibv_sge sge = {.addr = f.address(), .length = 8, .lkey = LKEY};
    assert_kinds(f.kinds_of(WRITE, sge), {});
    assert_kinds(f.kinds_of(READ, sge), {finding_kind::LOCAL_ACCESS});
    assert_kinds(f.kinds_of({.is_receive = true}, sge), {finding_kind::LOCAL_ACCESS});
    f.pd.handle = OTHER_PD_HANDLE;
    f.books.change_mr(f.mr, IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS,
                      IBV_ACCESS_LOCAL_WRITE);
    assert_kinds(f.kinds_of(READ, sge), {finding_kind::LOCAL_PD});
}

void mr_counts_its_requests(void **) {
    fixture f;
    f.register_memory(IBV_ACCESS_LOCAL_WRITE);
    posted_request read = READ;
    read.memory = {{.mr = 2}};
    f.books.add_request(f.books.qps.at(&f.qp), 7, read);
    assert_int_equal(f.books.mrs.at(2).num_requests, 1);
    f.books.remove_request(f.books.qps.at(&f.qp), 7, false);
    f.books.remove_request(f.books.qps.at(&f.qp), 7, false); // it has none of this number
    assert_int_equal(f.books.mrs.at(2).num_requests, 0);
}

void freed_memory_of_a_request(void **) {
    fixture f;
    f.register_memory(IBV_ACCESS_LOCAL_WRITE);
    findings results;
    check_free(f.books, f.address(), f.address() + LENGTH, "free", results);
    assert_int_equal(results.size(), 0);
}

void cq_overflows_once(void **) {
    fixture f;
    for (int i = 0; i < 3; ++i)
        assert_int_equal(f.post(true, true).size(), 0);
    assert_int_equal(f.post(true).size(), 0);
    const findings results = f.post(true);
    assert_int_equal(results.size(), 1);
    assert_true(results.at(0).kind == finding_kind::CQ_OVERFLOW);
    assert_string_equal(results.at(0).title.c_str(),
                        "5 completions can come before one is polled, and CQ 0 has 4 entries");
    assert_int_equal(f.post(true).size(), 0);
}

// The driver refuses it, or another thread is polling a completion.
void request_beyond_the_queue_does_not_overflow_the_cq(void **) {
    fixture f;
    f.cq.cqe = 2;
    for (int i = 0; i < 3; ++i) // the QP has two sends
        assert_true(f.post(true).empty());
    f.books.qps.at(&f.qp).max_sends = 4;
    assert_int_equal(f.post(true).size(), 1);
}

// Its receives were posted before the QP was created.
void receives_of_an_srq_fill_the_cq(void **) {
    fixture f;
    known_srq srq;
    srq.handle = &f.mr; // an address
    for (std::uint64_t number = 1; number <= 3; ++number)
        srq.receives.emplace(number, posted_request{.is_receive = true});
    f.books.srqs.emplace(srq.handle, srq);
    assert_true(f.post(true).empty()); // they are of other QPs
    f.books.qps.at(&f.qp).srq = srq.handle;
    const findings result = f.post(true);
    assert_int_equal(result.size(), 1);
    assert_non_null(std::strstr(result[0].title.c_str(), "5 completions can come"));
}

// Its completion makes the event.
void send_after_the_cq_was_armed_ends_the_wait(void **) {
    fixture f;
    f.post(true);
    f.books.arm(f.cq, {});
    assert_int_equal(f.books.cqs.at(&f.cq).num_sends_at_arm, 1);
    f.post(false);
    assert_int_equal(f.books.cqs.at(&f.cq).num_sends_at_arm, 1);
    f.post(true);
    assert_int_equal(f.books.cqs.at(&f.cq).num_sends_at_arm, 0);
}

void resized_cq_does_not_overflow(void **) {
    fixture f;
    f.cq.cqe = 5;
    for (int i = 0; i < 5; ++i)
        assert_int_equal(f.post(true, true).size(), 0);
}

void send_queue_without_signal_is_stuck(void **) {
    fixture f;
    assert_int_equal(f.post(false).size(), 0);
    const findings results = f.post(false);
    assert_int_equal(results.size(), 1);
    assert_true(results.at(0).kind == finding_kind::SEND_QUEUE_STUCK);
    fixture other;
    assert_int_equal(other.post(true).size(), 0);
    assert_int_equal(other.post(false).size(), 0);
}

void destroyed_object_is_known_until_its_address_is_used(void **) {
    fixture f;
    findings results;
    assert_false(check_destroyed(f.books, object_kind::CQ, &f.cq, "ibv_poll_cq", results));
    f.books.remove(f.cq_object(), {});
    assert_false(check_destroyed(f.books, object_kind::QP, &f.cq, "ibv_post_send", results));
    assert_true(check_destroyed(f.books, object_kind::CQ, &f.cq, "ibv_poll_cq", results));
    assert_string_equal(results.at(0).title.c_str(),
                        "ibv_poll_cq() is called with CQ 0, which was destroyed");
    f.books.add(f.object_of(object_kind::CQ, &f.cq, 9));
    assert_false(check_destroyed(f.books, object_kind::CQ, &f.cq, "ibv_poll_cq", results));
}

void qp_at_the_address_of_another_has_no_requests_of_it(void **) {
    fixture f;
    f.register_memory(IBV_ACCESS_LOCAL_WRITE);
    posted_request read = READ;
    read.memory = {{.mr = f.mr_object().number}};
    f.books.add_request(f.books.qps.at(&f.qp), ++f.last_request, read);
    assert_int_equal(f.books.find_cq(&f.cq)->num_expected, 1);
    f.qp.send_cq = f.qp.recv_cq = &f.cq;
    f.books.add(f.object_of(object_kind::QP, &f.qp, 50));
    assert_int_equal(f.books.find_cq(&f.cq)->num_expected, 0);
    assert_int_equal(f.books.mrs.at(f.mr_object().number).num_requests, 0);
}

void late_end_of_a_replaced_object_keeps_the_new_one(void **) {
    fixture f;
    f.books.add(f.object_of(object_kind::CQ, &f.cq, 9));
    f.books.remove(f.cq_object(), {});
    assert_non_null(f.books.find_cq(&f.cq));
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(sge_of_its_mr_is_right),
        cmocka_unit_test(range_ends_with_the_mr),
        cmocka_unit_test(key_of_no_mr_and_rkey),
        cmocka_unit_test(access_and_pd_of_an_mr),
        cmocka_unit_test(mr_counts_its_requests),
        cmocka_unit_test(freed_memory_of_a_request),
        cmocka_unit_test(cq_overflows_once),
        cmocka_unit_test(request_beyond_the_queue_does_not_overflow_the_cq),
        cmocka_unit_test(receives_of_an_srq_fill_the_cq),
        cmocka_unit_test(send_after_the_cq_was_armed_ends_the_wait),
        cmocka_unit_test(resized_cq_does_not_overflow),
        cmocka_unit_test(send_queue_without_signal_is_stuck),
        cmocka_unit_test(destroyed_object_is_known_until_its_address_is_used),
        cmocka_unit_test(qp_at_the_address_of_another_has_no_requests_of_it),
        cmocka_unit_test(late_end_of_a_replaced_object_keeps_the_new_one),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
