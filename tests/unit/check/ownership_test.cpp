// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Memory that changes between the post of a request and its completion.

#include "../cmocka.hpp"
#include "check/books.hpp"
#include "check/rules.hpp"

#include <array>

namespace {

using namespace coherdma::check;

/// Books with a QP, and memory that its requests name.
struct program {
    process_books books;
    known_qp *qp = nullptr;
    std::array<std::byte, 64> memory{};

    program() {
        known_qp added;
        added.kind = object_kind::QP;
        added.handle = this;
        added.name = "QP 17";
        added.state = IBV_QPS_RTS;
        qp = &books.qps.emplace(this, added).first->second;
        books.owned.start(nullptr);
    }
    /// As the checker of a program does that is run with late.
    posted_request &post(std::uint64_t number, std::size_t begin, std::size_t end,
                         bool is_receive = true) {
        posted_request added;
        added.wr_id = number;
        added.is_receive = is_receive;
        const auto base = reinterpret_cast<std::uintptr_t>(memory.data());
        added.memory = {{.mr = 0, .begin = base + begin, .end = base + end}};
        if (!is_receive || !shares_target(books, added))
            copy_memory(added);
        books.add_request(*qp, number, std::move(added));
        return (is_receive ? qp->receives : qp->sends).at(number);
    }
    findings check(const posted_request &request) {
        findings result;
        check_change(*qp, request, result);
        return result;
    }
};

void changed_target_is_accessed_early(void **) {
    program checked;
    const posted_request &receive = checked.post(7, 0, 16);
    assert_true(checked.check(receive).empty());
    checked.memory[16] = std::byte{1}; // not of it
    assert_true(checked.check(receive).empty());
    checked.memory[3] = std::byte{5};
    const findings result = checked.check(receive);
    assert_int_equal(result.size(), 1);
    assert_true(result[0].kind == finding_kind::EARLY_ACCESS);
    assert_string_equal(result[0].title.c_str(),
                        "the target of a receive, wr_id 0x7, changed before its completion was "
                        "polled: byte 3 from 0x0 to 0x5");
}

void changed_source_is_a_source(void **) {
    program checked;
    constexpr bool IS_RECEIVE = false;
    const posted_request &send = checked.post(7, 0, 16, IS_RECEIVE);
    checked.memory[3] = std::byte{5};
    const findings result = checked.check(send);
    assert_int_equal(result.size(), 1);
    assert_true(result[0].kind == finding_kind::SOURCE_CHANGED);
}

/// What one of them delivers changes the other.
void targets_in_common_are_not_compared(void **) {
    program checked;
    const posted_request &first = checked.post(1, 0, 16), &alone = checked.post(2, 32, 48),
                         &second = checked.post(3, 8, 24);
    for (std::byte &byte : checked.memory)
        byte = std::byte{9};
    assert_true(checked.check(first).empty() && checked.check(second).empty());
    assert_int_equal(checked.check(alone).size(), 1);
    const posted_request &later = checked.post(4, 48, 64);
    checked.memory[63] = std::byte{1};
    assert_int_equal(checked.check(later).size(), 1);
}

/// A Read into memory of a Send changes what the Send sends, and not the other way round.
void target_in_a_source_is_compared(void **) {
    program checked;
    constexpr bool IS_RECEIVE = false;
    checked.post(1, 0, 16, IS_RECEIVE);
    const posted_request &receive = checked.post(2, 0, 16);
    checked.memory[0] = std::byte{1};
    assert_int_equal(checked.check(receive).size(), 1);
}

/// The fence holds the Write back until the Read is complete.
void fenced_send_expects_what_a_read_brings(void **) {
    program checked;
    constexpr bool IS_RECEIVE = false;
    posted_request read;
    read.opcode = IBV_WR_RDMA_READ;
    const auto base = reinterpret_cast<std::uintptr_t>(checked.memory.data());
    read.memory = {{.mr = 0, .begin = base, .end = base + 16}};
    checked.books.add_request(*checked.qp, 1, read);
    posted_request write = read;
    write.opcode = IBV_WR_RDMA_WRITE;
    for (const bool is_fenced : {false, true}) {
        write.is_fenced = is_fenced;
        findings overlaps;
        check_overlap(checked.books, *checked.qp, write, overlaps);
        assert_int_equal(overlaps.size(), is_fenced ? 0 : 1);
        assert_true((find_earlier_target(checked.books, *checked.qp, write) != nullptr) ==
                    is_fenced);
    }
    known_qp other;
    assert_null(find_earlier_target(checked.books, other, write)); // a fence is of its QP
    checked.books.remove_request(*checked.qp, 1, IS_RECEIVE);
    assert_null(find_earlier_target(checked.books, *checked.qp, write));
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(changed_target_is_accessed_early),
        cmocka_unit_test(changed_source_is_a_source),
        cmocka_unit_test(targets_in_common_are_not_compared),
        cmocka_unit_test(target_in_a_source_is_compared),
        cmocka_unit_test(fenced_send_expects_what_a_read_brings),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
