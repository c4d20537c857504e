// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What an rkey names, and lkeys that differ from it.

#include "../cmocka.hpp"
#include "check/rules.hpp"

#include <array>
#include <cerrno>
#include <cstring>

extern "C" int ibv_query_qp(ibv_qp *, ibv_qp_attr *, int, ibv_qp_init_attr *) {
    return ENOSYS;
}

namespace {

using namespace coherdma::check;
using coherdma::interposer::memory_kind;
using coherdma::interposer::object;

constexpr std::uint32_t KEY = 0x1234, PD_HANDLE = 5;
constexpr std::uint64_t IOVA = 0x10000, LENGTH = 4096;

/// A QP that is connected to another one, and an MR of that side.
struct fixture {
    fixture() {
        std::strcpy(device.name, "rxe0");
        context.device = &device;
        pd.context = &context;
        pd.handle = PD_HANDLE;
        mr.context = &context;
        mr.pd = &pd;
        mr.lkey = mr.rkey = KEY;
        add_qp(qp, 17, 18);
        add_qp(peer, 18, 17);
        books.qps.at(&peer).pd_handle = PD_HANDLE;
    }

    void add_qp(ibv_qp &added, std::uint32_t number, std::uint32_t peer_number) {
        known_qp known;
        known.kind = object_kind::QP;
        known.handle = &added;
        known.context = &context;
        known.device = "rxe0";
        known.type = IBV_QPT_RC;
        known.qp_num = number;
        known.local_peer = peer_number;
        books.qps.emplace(&added, known);
    }
    object mr_object() {
        object made;
        made.kind = object_kind::MR;
        made.handle = &mr;
        made.context = &context;
        made.number = 2;
        return made;
    }
    void register_memory(int access, memory_kind kind = memory_kind::PROGRAM) {
        books.add_mr(mr_object(), {.pd = &pd,
                                   .kind = kind,
                                   .addr = memory.data(),
                                   .length = LENGTH,
                                   .iova = IOVA,
                                   .access = access});
    }

    struct remote_range {
        std::uint64_t addr = IOVA, length = LENGTH;
    };
    std::vector<finding_kind> kinds_of(ibv_wr_opcode opcode, std::uint32_t rkey,
                                       remote_range range) {
        findings results;
        check_remote(books, books.qps.at(&qp), {.opcode = opcode}, rkey, range.addr, range.length,
                     results);
        std::vector<finding_kind> kinds;
        for (const finding &each : results)
            kinds.push_back(each.kind);
        return kinds;
    }
    std::vector<finding_kind> kinds_of(ibv_wr_opcode opcode, std::uint32_t rkey = KEY) {
        return kinds_of(opcode, rkey, {});
    }

    ibv_device device = {};
    ibv_context context = {};
    ibv_pd pd = {};
    ibv_mr mr = {};
    ibv_qp qp = {}, peer = {};
    std::array<char, LENGTH> memory{};
    process_books books;
};

using kinds = std::vector<finding_kind>;

void range_of_remote_memory(void **) {
    fixture f;
    f.register_memory(IBV_ACCESS_REMOTE_WRITE);
    const kinds outside = {finding_kind::REMOTE_RANGE};
    assert_true(f.kinds_of(IBV_WR_RDMA_WRITE).empty());
    assert_true(f.kinds_of(IBV_WR_RDMA_WRITE, KEY, {IOVA + 1, LENGTH}) == outside);
    assert_true(f.kinds_of(IBV_WR_RDMA_WRITE, KEY, {IOVA - 1, 1}) == outside);
    assert_true(f.kinds_of(IBV_WR_RDMA_WRITE, KEY, {UINT64_MAX, 2}) == outside);
    assert_true(f.kinds_of(IBV_WR_RDMA_WRITE, KEY, {0, 0}).empty());
}

void access_to_remote_memory(void **) {
    fixture f;
    f.register_memory(IBV_ACCESS_REMOTE_READ);
    const kinds refused = {finding_kind::REMOTE_ACCESS};
    assert_true(f.kinds_of(IBV_WR_RDMA_READ).empty());
    assert_true(f.kinds_of(IBV_WR_RDMA_WRITE) == refused);
    assert_true(f.kinds_of(IBV_WR_ATOMIC_CMP_AND_SWP) == refused);
    fixture imported; // its access is not known
    imported.register_memory(0, memory_kind::IMPORTED);
    assert_true(imported.kinds_of(IBV_WR_RDMA_WRITE).empty());
}

void pd_of_remote_memory(void **) {
    fixture f;
    f.register_memory(IBV_ACCESS_REMOTE_WRITE);
    f.books.qps.at(&f.peer).pd_handle = PD_HANDLE + 1;
    assert_true(f.kinds_of(IBV_WR_RDMA_WRITE) == kinds{finding_kind::REMOTE_PD});
}

void peer_of_another_process_is_not_known(void **) {
    fixture f;
    f.register_memory(0);
    f.books.qps.at(&f.qp).local_peer = 19;
    assert_true(f.kinds_of(IBV_WR_RDMA_WRITE).empty());
    f.books.qps.at(&f.qp).local_peer.reset();
    assert_true(f.kinds_of(IBV_WR_RDMA_WRITE).empty());
}

void lkey_differs_from_rkey(void **) {
    fixture f;
    f.register_memory(IBV_ACCESS_REMOTE_WRITE);
    f.books.change_lkey(*f.books.find_mr(2));
    assert_int_not_equal(f.mr.lkey, KEY);
    assert_int_equal(f.mr.rkey, KEY);
    assert_null(f.books.find_mr(&f.context, KEY));
    assert_int_equal(f.books.find_mr(&f.context, f.mr.lkey)->device_lkey, KEY);
    assert_true(f.kinds_of(IBV_WR_RDMA_WRITE).empty());
    assert_true(f.kinds_of(IBV_WR_RDMA_WRITE, f.mr.lkey) == kinds{finding_kind::REMOTE_KEY});
}

/// The lkey that the device gives to the second MR is the one that the program has of the first.
void device_lkey_that_another_mr_has(void **) {
    fixture f;
    f.register_memory(0);
    f.books.change_lkey(*f.books.find_mr(2));
    ibv_mr second = f.mr; // with the same lkey
    object added = f.mr_object();
    added.handle = &second;
    added.number = 3;
    f.books.add_mr(added, {.pd = &f.pd, .addr = f.memory.data(), .length = LENGTH});
    f.books.change_lkey(*f.books.find_mr(3));
    assert_int_not_equal(second.lkey, f.mr.lkey);
    assert_true(f.books.find_mr(&f.context, f.mr.lkey) == f.books.find_mr(2));
    assert_true(f.books.find_mr(&f.context, second.lkey) == f.books.find_mr(3));
}

void lkey_that_a_driver_reads(void **) {
    fixture f;
    f.register_memory(IBV_ACCESS_REMOTE_WRITE);
    f.books.change_lkey(*f.books.find_mr(2));
    const std::uint32_t lkey = f.mr.lkey;
    f.books.show_device_lkey(*f.books.find_mr(2));
    assert_int_equal(f.mr.lkey, KEY);
    f.books.hide_device_lkey(*f.books.find_mr(2));
    assert_int_equal(f.mr.lkey, lkey);
    assert_non_null(f.books.find_mr(&f.context, lkey));
    assert_non_null(f.books.find_mr(&f.context, KEY)); // the program may have read it
    f.books.remove(f.mr_object(), {});
    assert_true(f.books.mr_of_lkey.empty());
}

void key_of_no_mr(void **) {
    fixture f;
    f.register_memory(IBV_ACCESS_REMOTE_WRITE);
    assert_true(f.kinds_of(IBV_WR_RDMA_WRITE, 1).empty()); // of memory that the books do not have
    f.books.remove(f.mr_object(), {});
    const kinds unknown = {finding_kind::REMOTE_KEY};
    assert_true(f.kinds_of(IBV_WR_RDMA_WRITE) == unknown);
    known_object mw;
    mw.kind = object_kind::MW;
    mw.context = &f.context;
    f.books.others.emplace(9, mw); // which may have the key
    assert_true(f.kinds_of(IBV_WR_RDMA_WRITE).empty());
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(range_of_remote_memory),
        cmocka_unit_test(access_to_remote_memory),
        cmocka_unit_test(pd_of_remote_memory),
        cmocka_unit_test(peer_of_another_process_is_not_known),
        cmocka_unit_test(lkey_differs_from_rkey),
        cmocka_unit_test(device_lkey_that_another_mr_has),
        cmocka_unit_test(lkey_that_a_driver_reads),
        cmocka_unit_test(key_of_no_mr),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
