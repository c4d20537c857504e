// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// fork() with registered memory. Kernels that copy it at fork() are the rule by now.

#include "../cmocka.hpp"
#include "check/rules.hpp"

#include <cerrno>

extern "C" int ibv_query_qp(ibv_qp *, ibv_qp_attr *, int, ibv_qp_init_attr *) {
    return ENOSYS;
}

namespace {

using namespace coherdma::check;

void add_mr(process_books &books, object_number number, std::uintptr_t memory) {
    known_mr added;
    added.number = number;
    added.memory = memory;
    books.mrs.emplace(number, added);
}

findings fork_of(const process_books &books) {
    findings results;
    check_fork(books, results);
    return results;
}

void fork_without_memory_is_right(void **) {
    process_books books;
    assert_int_equal(fork_of(books).size(), 0);
    add_mr(books, 1, 0); // of a device
    assert_int_equal(fork_of(books).size(), 0);
}

void fork_with_memory_needs_support(void **) {
    process_books books;
    add_mr(books, 1, 0);
    add_mr(books, 3, 8192);
    add_mr(books, 2, 4096);
    const findings results = fork_of(books);
    assert_int_equal(results.size(), 1);
    assert_true(results[0].kind == finding_kind::FORK_UNSAFE);
    assert_string_equal(
        results[0].title.c_str(),
        "fork() is called with 2 MRs of the process's memory, and without ibv_fork_init()");
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(fork_without_memory_is_right),
        cmocka_unit_test(fork_with_memory_needs_support),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
