// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Memory that the program frees, and requests that end: which requests name what.

#include "../cmocka.hpp"
#include "check/books.hpp"
#include "check/rules.hpp"

#include <algorithm>
#include <array>

namespace {

using namespace coherdma::check;
using coherdma::interposer::memory_kind;
using coherdma::interposer::object;
using coherdma::interposer::registration;

/// Books with a QP, and MRs of its PD.
struct program {
    static constexpr std::uint64_t NUM_MRS = 3;

    process_books books;
    ibv_pd pd{};
    ibv_cq cq{};
    std::array<ibv_mr, NUM_MRS> mrs{};
    std::array<std::array<std::byte, 64>, NUM_MRS> memory{};
    known_qp *qp = nullptr;

    program() {
        known_qp added;
        added.kind = object_kind::QP;
        added.handle = this;
        added.name = "QP 17";
        added.recv_cq = added.send_cq = &cq;
        added.state = IBV_QPS_RTS;
        qp = &books.qps.emplace(this, added).first->second;
        known_cq added_cq;
        added_cq.handle = &cq;
        books.cqs.emplace(&cq, added_cq);
    }
    object mr_object(std::uint64_t index) const {
        return {.kind = object_kind::MR,
                .handle = &mrs[index],
                .context = nullptr,
                .number = 1 + index,
                .creation = {}};
    }
    void add_mr(std::uint64_t index, memory_kind kind, int access) {
        mrs[index].pd = &pd;
        mrs[index].lkey = mrs[index].rkey = static_cast<std::uint32_t>(100 + index);
        registration asked;
        asked.pd = &pd;
        asked.kind = kind;
        asked.access = access;
        if (kind == memory_kind::PROGRAM) {
            asked.addr = memory[index].data();
            asked.length = memory[index].size();
            asked.iova = reinterpret_cast<std::uintptr_t>(asked.addr);
        }
        books.add_mr(mr_object(index), asked);
    }
    /// A receive of all memory of the MR.
    findings post_receive(std::uint64_t number, std::uint64_t index) {
        const ibv_sge sge = {.addr = reinterpret_cast<std::uintptr_t>(memory[index].data()),
                             .length = static_cast<std::uint32_t>(memory[index].size()),
                             .lkey = mrs[index].lkey};
        findings result;
        posted_request receive;
        receive.is_receive = true;
        receive.memory = check_sges(books, *qp, 0, receive, {&sge, 1}, result);
        books.add_request(*qp, number, receive);
        return result;
    }
    /// Whether requests name the MR.
    bool is_busy(std::uint64_t index) const {
        return std::find(books.busy_mrs.begin(), books.busy_mrs.end(), 1 + index) !=
               books.busy_mrs.end();
    }
};

void mr_of_unknown_access_is_written(void **) {
    program checked;
    checked.add_mr(0, memory_kind::NO_MEMORY, 0);
    checked.add_mr(1, memory_kind::IMPORTED, 0);
    checked.add_mr(2, memory_kind::PROGRAM, 0);
    assert_true(checked.post_receive(1, 0).empty());
    assert_true(checked.post_receive(2, 1).empty());
    const findings result = checked.post_receive(3, 2);
    assert_int_equal(result.size(), 1);
    assert_true(result[0].kind == finding_kind::LOCAL_ACCESS);
}

void busy_mrs_are_those_that_requests_name(void **) {
    program checked;
    for (std::uint64_t i = 0; i < program::NUM_MRS; ++i)
        checked.add_mr(i, memory_kind::PROGRAM, IBV_ACCESS_LOCAL_WRITE);
    for (std::uint64_t number = 1; number <= 2 * program::NUM_MRS; ++number)
        checked.post_receive(number, number % program::NUM_MRS);
    assert_int_equal(checked.books.busy_mrs.size(), program::NUM_MRS);
    constexpr bool IS_RECEIVE = true;
    checked.books.remove_request(*checked.qp, 1, IS_RECEIVE); // of two
    assert_true(checked.is_busy(1));
    checked.books.remove_request(*checked.qp, 4, IS_RECEIVE);
    assert_true(checked.is_busy(0) && !checked.is_busy(1) && checked.is_busy(2));
    checked.books.remove(checked.mr_object(0), {});
    assert_true(!checked.is_busy(0) && checked.is_busy(2));
    checked.books.drop_requests(*checked.qp);
    assert_true(checked.books.busy_mrs.empty());
    checked.post_receive(7, 1);
    assert_true(checked.is_busy(1));
}

void send_may_ask_for_a_receive(void **) {
    program checked;
    checked.add_mr(0, memory_kind::PROGRAM, IBV_ACCESS_LOCAL_WRITE);
    checked.post_receive(1, 0);
    checked.books.arm(checked.cq, {});
    const known_cq &cq = *checked.books.find_cq(&checked.cq);
    assert_int_equal(cq.num_receives_at_arm, 1);
    checked.books.add_request(*checked.qp, 2, posted_request{});
    assert_int_equal(cq.num_receives_at_arm, 0);
}

void requests_end_with_their_context(void **) {
    program checked;
    ibv_context context{};
    checked.qp->context = &context;
    checked.add_mr(0, memory_kind::PROGRAM, IBV_ACCESS_LOCAL_WRITE);
    checked.books.add_request(*checked.qp, 1, [&] {
        posted_request receive;
        receive.is_receive = true;
        receive.memory = {{.mr = 1, .begin = 0, .end = 1}};
        return receive;
    }());
    known_object known;
    known.kind = object_kind::CONTEXT;
    known.number = 50;
    known.handle = known.context = &context;
    checked.books.others.emplace(known.number, known);
    assert_true(checked.is_busy(0));
    checked.books.remove({.kind = object_kind::CONTEXT,
                          .handle = &context,
                          .context = &context,
                          .number = known.number,
                          .creation = {}},
                         {});
    assert_false(checked.is_busy(0));
    assert_true(checked.qp->receives.empty());
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(mr_of_unknown_access_is_written),
        cmocka_unit_test(busy_mrs_are_those_that_requests_name),
        cmocka_unit_test(send_may_ask_for_a_receive),
        cmocka_unit_test(requests_end_with_their_context),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
