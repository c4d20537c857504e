// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// When the program gets the data of its requests, and what the device gets in place of its memory.

#include "../captured_stderr.hpp"
#include "program.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <vector>

namespace {

void receive_is_delivered_at_its_completion(void **) {
    program checked;
    posted receive(checked, {checked.sge()});
    assert_true(receive.is_held());
    receive.write();
    assert_true(checked.has_only(program::OLD));
    constexpr std::uint32_t BYTE_LEN = 100;
    receive.complete(BYTE_LEN);
    assert_true(checked.is_changed_to(BYTE_LEN));
    assert_false(receive.is_held());
}

void receive_is_scattered_in_the_order_of_its_sges(void **) {
    program checked;
    posted receive(checked, {checked.sge(100, 50), checked.sge(60, 0), checked.sge(0, 100)});
    assert_true(receive.is_held());
    receive.write();
    receive.complete(60);
    const auto &memory = checked.memory;
    assert_true(memory[99] == program::OLD && memory[100] == program::NEW &&
                memory[149] == program::NEW && memory[150] == program::OLD);
    assert_true(memory[0] == program::NEW && memory[9] == program::NEW &&
                memory[10] == program::OLD);
}

void buffer_begins_with_the_programs_bytes(void **) {
    program checked;
    checked.memory[3] = std::byte{0x33};
    posted receive(checked, {checked.sge()});
    const auto *const bytes = reinterpret_cast<const std::byte *>(receive.sges[0].addr);
    assert_memory_equal(bytes, checked.memory.data(), program::LENGTH);
    assert_int_equal(receive.sges[0].addr % 64, to_number(checked.memory.data()) % 64);
    std::memset(reinterpret_cast<void *>(receive.sges[0].addr), 0x22, 2);
    constexpr bool HAS_BYTE_LEN = false;
    receive.complete(0, IBV_WC_SUCCESS, IBV_WC_RECV, HAS_BYTE_LEN);
    assert_true(checked.memory[1] == program::NEW && checked.memory[3] == std::byte{0x33});
}

void data_of_a_write_with_immediate_are_elsewhere(void **) {
    program checked;
    posted receive(checked, {checked.sge()});
    receive.write();
    receive.complete(100, IBV_WC_SUCCESS, IBV_WC_RECV_RDMA_WITH_IMM);
    assert_true(checked.has_only(program::OLD));
}

void read_and_atomics_are_delivered_at_their_completion(void **) {
    program checked;
    posted read(checked, {checked.sge(0, 100)}, IBV_WR_RDMA_READ);
    assert_true(read.is_held());
    read.write();
    assert_true(checked.has_only(program::OLD));
    read.complete(0, IBV_WC_SUCCESS, IBV_WC_RDMA_READ);
    assert_true(checked.is_changed_to(100));
    for (const auto opcode : {IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
        checked.memory.fill(program::OLD);
        posted atomic(checked, {checked.sge(0, 16)}, opcode);
        assert_true(atomic.is_held());
        atomic.write();
        assert_true(checked.has_only(program::OLD));
        atomic.complete(0, IBV_WC_SUCCESS, IBV_WC_FETCH_ADD);
        assert_true(checked.is_changed_to(8));
    }
}

void sources_are_the_programs(void **) {
    program checked;
    for (const auto opcode : {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_SEND_WITH_IMM,
                              IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND_WITH_INV})
        assert_false(posted(checked, {checked.sge()}, opcode).is_held());
    assert_false(posted(checked, {checked.sge()}, IBV_WR_RDMA_READ, IBV_SEND_INLINE).is_held());
}

/// A fence has the device wait for the Read: the program need not.
void fenced_send_sends_what_a_read_brings(void **) {
    program checked;
    std::optional<posted> read;
    read.emplace(checked, std::vector{checked.sge(0, 100)}, IBV_WR_RDMA_READ);
    read->write();
    assert_false(posted(checked, {checked.sge(10, 20)}, IBV_WR_SEND).is_held());
    assert_false(posted(checked, {checked.sge(90, 20)}, IBV_WR_SEND, IBV_SEND_FENCE).is_held());
    assert_false(posted(checked, {checked.sge(10, 20)}, IBV_WR_BIND_MW, IBV_SEND_FENCE).is_held());
    posted send(checked, {checked.sge(200, 8), checked.sge(10, 20)}, IBV_WR_SEND, IBV_SEND_FENCE);
    assert_true(send.is_held());
    assert_int_equal(send.sges[0].addr, checked.sge(200, 8).addr);
    assert_int_equal(send.sges[0].lkey, checked.mr.lkey);
    assert_int_equal(send.sges[1].addr, read->sges[0].addr + 10);
    assert_int_equal(send.sges[1].lkey, read->sges[0].lkey);
    read->complete(0, IBV_WC_SUCCESS, IBV_WC_RDMA_READ);
    // The buffer is in use until the send is complete.
    posted other(checked, {checked.sge(0, 100)}, IBV_WR_RDMA_READ);
    assert_int_not_equal(other.sges[0].addr, read->sges[0].addr);
    send.complete(0, IBV_WC_SUCCESS, IBV_WC_SEND);
    assert_true(checked.is_changed_to(100));
    posted last(checked, {checked.sge(0, 100)}, IBV_WR_RDMA_READ);
    assert_int_equal(last.sges[0].addr, read->sges[0].addr);
    // A fence does not wait for receives.
    posted receive(checked, {checked.sge(128, 100)});
    assert_false(posted(checked, {checked.sge(128, 8)}, IBV_WR_SEND, IBV_SEND_FENCE).is_held());
}

void unsignaled_read_is_delivered_with_the_next_completion(void **) {
    program checked;
    posted read(checked, {checked.sge(0, 100)}, IBV_WR_RDMA_READ);
    posted send(checked, {checked.sge(100, 10)}, IBV_WR_SEND);
    read.write();
    const std::array silent{read.posted_request};
    constexpr bool HAS_BYTE_LEN = true;
    send.complete(0, IBV_WC_SUCCESS, IBV_WC_SEND, HAS_BYTE_LEN, silent);
    assert_true(checked.is_changed_to(100));
}

void failed_or_refused_request_delivers_nothing(void **) {
    program checked;
    posted failed(checked, {checked.sge()});
    failed.write();
    failed.complete(program::LENGTH, IBV_WC_LOC_LEN_ERR);
    posted refused(checked, {checked.sge()}, IBV_WR_RDMA_READ);
    refused.write();
    checked.late->on_refuse(refused.posted_request);
    posted aborted(checked, {checked.sge()}, IBV_WR_RDMA_READ);
    aborted.write();
    checked.late->on_abort(aborted.posted_request);
    assert_true(!failed.is_held() && !refused.is_held() && !aborted.is_held());
    assert_true(checked.has_only(program::OLD));
    // All have used one buffer.
    assert_int_equal(failed.sges[0].addr, refused.sges[0].addr);
    assert_int_equal(failed.sges[0].addr, aborted.sges[0].addr);
}

void invalid_request_is_left_to_the_device(void **) {
    program checked;
    ibv_sge wrong_key = checked.sge();
    wrong_key.lkey += 0x01000000;
    assert_false(posted(checked, {checked.sge(), wrong_key}).is_held());
    ibv_sge outside = checked.sge(1);
    assert_false(posted(checked, {outside}).is_held());
    outside = checked.sge(0, 1);
    outside.addr -= 1;
    assert_false(posted(checked, {outside}).is_held());
    outside.addr = UINT64_MAX;
    assert_false(posted(checked, {outside}).is_held());
    assert_true(posted(checked, {checked.sge(255, 1)}).is_held());
    // The driver does not read the SGEs of such a request, which may not exist.
    assert_true(posted(checked, std::vector(max_sges, checked.sge(0, 1))).is_held());
    assert_false(posted(checked, std::vector(max_sges + 1, checked.sge(0, 1))).is_held());
    assert_false(posted(checked, {}).is_held());
    assert_false(posted(checked, {checked.sge(0, 0)}).is_held());
}

void mr_that_the_device_would_refuse_is_left_to_it(void **) {
    program checked(IBV_TRANSPORT_IB, IBV_ACCESS_REMOTE_READ);
    assert_false(posted(checked, {checked.sge()}).is_held());
    program other_pd;
    other_pd.pd.handle = 8;
    assert_false(posted(other_pd, {other_pd.sge()}).is_held());
}

void iwarp_read_needs_remote_write(void **) {
    program without(IBV_TRANSPORT_IWARP);
    assert_true(posted(without, {without.sge()}).is_held());
    assert_false(posted(without, {without.sge()}, IBV_WR_RDMA_READ).is_held());
    program with_access(IBV_TRANSPORT_IWARP, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    assert_true(posted(with_access, {with_access.sge()}, IBV_WR_RDMA_READ).is_held());
}

void mr_of_other_memory_is_left_to_the_device(void **) {
    program checked;
    ibv_mr mr = {};
    for (const auto kind : {memory_kind::DMABUF, memory_kind::DEVICE, memory_kind::NO_MEMORY,
                            memory_kind::IMPORTED, memory_kind::OTHER}) {
        const object added = checked.register_memory(mr, {.kind = kind,
                                                          .addr = checked.memory.data(),
                                                          .length = program::LENGTH,
                                                          .iova = to_number(checked.memory.data()),
                                                          .access = IBV_ACCESS_LOCAL_WRITE});
        ibv_sge sge = checked.sge();
        sge.lkey = mr.lkey;
        assert_false(posted(checked, {sge}).is_held());
        checked.destroy(added);
    }
    const object all = checked.register_memory(mr, nullptr, SIZE_MAX);
    ibv_sge sge = checked.sge();
    sge.lkey = mr.lkey;
    assert_false(posted(checked, {sge}).is_held());
    checked.destroy(all);
}

void addresses_are_the_mrs(void **) {
    program checked;
    constexpr std::uint64_t IOVA = 0x10000;
    for (const bool is_zero_based : {false, true}) {
        checked.memory.fill(program::OLD);
        ibv_mr mr = {};
        const object added = checked.register_memory(
            mr, {.addr = checked.memory.data(),
                 .length = program::LENGTH,
                 .iova = is_zero_based ? to_number(checked.memory.data()) : IOVA,
                 .access = IBV_ACCESS_LOCAL_WRITE | (is_zero_based ? IBV_ACCESS_ZERO_BASED : 0)});
        posted receive(checked,
                       {{.addr = is_zero_based ? 0 : IOVA, .length = 100, .lkey = mr.lkey}});
        assert_true(receive.is_held());
        receive.write();
        receive.complete(100);
        assert_true(checked.is_changed_to(100));
        checked.destroy(added);
    }
}

/// The checker gives the program another lkey, and the device's back when the request is posted.
void key_is_the_devices(void **) {
    program checked;
    const std::uint32_t device_lkey = next_key;
    ibv_mr mr = {};
    mr.context = &checked.context;
    mr.pd = &checked.pd;
    mr.lkey = next_key++;
    checked.registering = &mr;
    assert_non_null(checked.late->reg_mr({.pd = &checked.pd,
                                          .addr = checked.memory.data(),
                                          .length = program::LENGTH,
                                          .iova = to_number(checked.memory.data()),
                                          .access = IBV_ACCESS_LOCAL_WRITE},
                                         checked));
    mr.lkey = 0x80000000;
    const object added = checked.create(object_kind::MR, &mr);
    ibv_sge sge = checked.sge();
    sge.lkey = device_lkey;
    assert_true(posted(checked, {sge}).is_held());
    sge.lkey = mr.lkey;
    assert_false(posted(checked, {sge}).is_held());
    checked.destroy(added);
}

void changed_mr_is_left_to_the_device(void **) {
    program checked;
    posted before(checked, {checked.sge()});
    assert_int_equal(checked.late->before_rereg_mr(checked.mr, IBV_REREG_MR_CHANGE_ACCESS), 0);
    assert_false(posted(checked, {checked.sge()}).is_held());
    before.write();
    before.complete(100);
    assert_true(checked.is_changed_to(100));
}

void deregistered_memory_is_not_written(void **) {
    program checked;
    ibv_mr mr = {};
    const object added = checked.register_memory(mr, checked.memory.data(), 100);
    ibv_sge sge = checked.sge(0, 100);
    sge.lkey = mr.lkey;
    posted receive(checked, {sge, checked.sge(100, 100)});
    assert_true(receive.is_held());
    receive.write();
    checked.destroy(added, EBUSY);
    assert_true(posted(checked, {sge}).is_held());
    checked.destroy(added);
    assert_false(posted(checked, {sge}).is_held());
    receive.complete(200);
    assert_true(checked.memory[99] == program::OLD && checked.memory[100] == program::NEW);
}

/// Two pages of anonymous memory, as an MR.
struct pages {
    static constexpr std::size_t PAGE = 4096, LENGTH = 2 * PAGE;
    program &owner;
    std::byte *const memory = static_cast<std::byte *>(
        mmap(nullptr, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ibv_mr mr = {};
    object added = owner.register_memory(mr, memory, LENGTH);

    explicit pages(program &poster)
        : owner(poster) {}
    ~pages() {
        owner.destroy(added);
        munmap(memory, LENGTH);
    }
    pages(const pages &) = delete;
    pages &operator=(const pages &) = delete;
    ibv_sge sge() const { return {.addr = to_number(memory), .length = LENGTH, .lkey = mr.lkey}; }
};

void memory_that_cannot_be_read_is_left_to_the_device(void **) {
    program checked;
    pages area(checked);
    munmap(area.memory + pages::PAGE, pages::PAGE);
    assert_false(posted(checked, {area.sge()}).is_held());
}

void unmapped_memory_is_skipped(void **) {
    program checked;
    pages area(checked);
    posted receive(checked, {area.sge()});
    receive.write();
    munmap(area.memory + pages::PAGE, pages::PAGE);
    receive.complete(pages::LENGTH);
    assert_true(area.memory[pages::PAGE - 1] == program::NEW);
}

/// As the checker protects it, and lends it.
void protected_memory_is_read_and_written(void **) {
    static pages *protected_pages = nullptr;
    program checked;
    pages area(checked);
    protected_pages = &area;
    coherdma::late::lend = [](std::uintptr_t begin, std::uintptr_t end, void (*copy)(void *),
                              void *arg) {
        assert_true(begin == to_number(protected_pages->memory) && begin < end);
        mprotect(protected_pages->memory, pages::LENGTH, PROT_READ | PROT_WRITE);
        copy(arg);
        mprotect(protected_pages->memory, pages::LENGTH, PROT_NONE);
        return true;
    };
    std::memset(area.memory, 0x33, pages::LENGTH);
    assert_int_equal(mprotect(area.memory, pages::LENGTH, PROT_NONE), 0);
    posted receive(checked, {area.sge()});
    assert_true(receive.is_held());
    assert_true(*reinterpret_cast<std::byte *>(receive.sges[0].addr) == std::byte{0x33});
    receive.write();
    receive.complete(pages::PAGE);
    coherdma::late::lend = nullptr;
    assert_int_equal(mprotect(area.memory, pages::LENGTH, PROT_READ), 0);
    assert_true(area.memory[0] == program::NEW && area.memory[pages::PAGE - 1] == program::NEW &&
                area.memory[pages::PAGE] == std::byte{0x33});
}

void freed_memory_is_not_written(void **) {
    program checked;
    assert_true(checked.late->wants_memory_events());
    pages area(checked);
    posted receive(checked, {area.sge(), checked.sge(0, 100)});
    receive.write();
    checked.late->before_free(area.memory + pages::PAGE, pages::PAGE, "munmap");
    receive.complete(pages::LENGTH + 100);
    assert_true(area.memory[0] == std::byte{} && checked.is_changed_to(100));
}

void end_of_a_queue_gives_buffers_back(void **) {
    program checked;
    posted reset(checked, {checked.sge()});
    assert_int_equal(num_registered, 1);
    checked.destroy(checked.pd_object, EBUSY); // the QP is there
    assert_int_equal(num_registered, 1);
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_ERR;
    checked.late->on_modify_qp(checked.qp, attr, IBV_QP_STATE);
    assert_true(reset.is_held());
    attr.qp_state = IBV_QPS_RESET;
    checked.late->on_modify_qp(checked.qp, attr, IBV_QP_STATE);
    assert_false(reset.is_held());
    posted dropped(checked, {checked.sge()});
    checked.destroy(checked.qp_object, EBUSY);
    assert_true(dropped.is_held());
    dropped.write();
    checked.destroy(checked.qp_object);
    assert_false(dropped.is_held());
    dropped.complete(100);
    assert_true(checked.has_only(program::OLD));
    checked.late->before_destroy(checked.pd_object);
    assert_int_equal(num_registered, 0);
}

/// The driver has freed a QP, and another thread gets one with its address before that is known.
void qp_with_the_address_of_another_keeps_its_requests(void **) {
    program checked;
    posted former(checked, {checked.sge(0, 8)});
    const object later = checked.create(object_kind::QP, &checked.qp);
    assert_false(former.is_held());
    posted receive(checked, {checked.sge()});
    checked.late->on_destroy(checked.qp_object, 0);
    assert_true(receive.is_held());
    checked.destroy(later);
    assert_false(receive.is_held());
}

void receives_of_an_srq_are_delivered(void **) {
    program checked;
    ibv_srq srq = {};
    srq.context = &checked.context;
    srq.pd = &checked.pd;
    const object added = checked.create(object_kind::SRQ, &srq);
    std::array sges{checked.sge()};
    request receive;
    receive.number = ++last_number;
    receive.queue = &srq;
    receive.context = &checked.context;
    receive.is_receive = true;
    ibv_recv_wr wr = {};
    wr.sg_list = sges.data();
    wr.num_sge = 1;
    checked.late->before_receive(receive, wr);
    assert_true(coherdma_late_holds(receive));
    std::memset(reinterpret_cast<void *>(wr.sg_list[0].addr), 0x22, 100);
    ibv_wc wc = {};
    wc.byte_len = 100;
    wc.opcode = IBV_WC_RECV;
    completion polled = {.wc = wc, .completed = &receive, .has_byte_len = true, .silent = {}};
    checked.late->on_completion(checked.cq, polled);
    assert_true(checked.is_changed_to(100));
    checked.destroy(added);
}

void closed_device_ends_all(void **) {
    auto checked = std::make_unique<program>();
    posted receive(*checked, {checked->sge()});
    checked->destroy(checked->context_object, EBUSY);
    assert_true(receive.is_held());
    checked->destroy(checked->context_object);
    assert_false(receive.is_held());
    // Its MR was the device's, which is closed.
    assert_int_equal(num_registered, 1);
    num_registered = 0;
    assert_false(posted(*checked, {checked->sge()}).is_held());
}

void without_memory_the_device_gets_the_programs(void **) {
    const std::string text = captured_stderr([] {
        program checked;
        is_memory_locked_up = true;
        num_attempts = 0;
        for (int i = 0; i < 2; ++i)
            assert_false(posted(checked, {checked.sge()}).is_held());
        assert_int_equal(num_attempts, 1);
    });
    assert_string_equal(
        text.c_str(),
        "coherdma: test0: the device delivers the data of some requests at once, and not late: no "
        "more memory is registered: Cannot allocate memory\n");
}

void many_buffers_do_not_overlap(void **) {
    program checked;
    std::vector<std::unique_ptr<posted>> receives;
    constexpr std::size_t NUM_REQUESTS = 2000;
    for (std::size_t i = 0; i < NUM_REQUESTS; ++i) {
        receives.push_back(std::make_unique<posted>(
            checked, std::vector{checked.sge(0, static_cast<std::uint32_t>(1 + i % 256))}));
        assert_true(receives.back()->is_held());
    }
    const auto check_distances = [&] {
        std::vector<const ibv_sge *> sges;
        for (const auto &receive : receives)
            if (receive != nullptr)
                sges.push_back(receive->sges.data());
        std::sort(sges.begin(), sges.end(),
                  [](const auto *a, const auto *b) { return a->addr < b->addr; });
        for (std::size_t i = 1; i < sges.size(); ++i)
            assert_true(sges[i - 1]->addr + sges[i - 1]->length <= sges[i]->addr);
    };
    check_distances();
    for (std::size_t i = 0; i < NUM_REQUESTS; i += 3) {
        receives[i]->complete(0);
        receives[i].reset();
    }
    const int num_chunks = num_registered;
    for (std::size_t i = 0; i < NUM_REQUESTS; i += 3)
        receives[i] = std::make_unique<posted>(
            checked, std::vector{checked.sge(0, static_cast<std::uint32_t>(1 + i % 256))});
    check_distances();
    assert_int_equal(num_registered, num_chunks);
    for (const auto &receive : receives)
        receive->complete(0);
}

void buffers_that_are_given_back_become_a_larger_one(void **) {
    program checked;
    constexpr std::size_t CHUNK = 65536, SMALL = CHUNK / 64;
    std::vector<std::byte> memory(CHUNK + 64);
    auto *const begin = memory.data() + (64 - to_number(memory.data()) % 64) % 64;
    ibv_mr mr = {};
    const object added = checked.register_memory(mr, begin, CHUNK);
    std::vector<std::unique_ptr<posted>> receives;
    for (std::size_t i = 0; i < CHUNK / SMALL; ++i)
        receives.push_back(std::make_unique<posted>(
            checked,
            std::vector{ibv_sge{.addr = to_number(begin), .length = SMALL, .lkey = mr.lkey}}));
    assert_int_equal(num_registered, 1);
    for (const std::size_t step : {std::size_t{2}, std::size_t{1}})
        for (std::size_t i = 0; i < receives.size(); i += step)
            if (receives[i]->is_held())
                receives[i]->complete(0);
    const posted large(checked,
                       {ibv_sge{.addr = to_number(begin), .length = CHUNK, .lkey = mr.lkey}});
    assert_true(large.is_held());
    assert_int_equal(num_registered, 1);
    checked.destroy(added);
}

void threads_post_and_poll_at_the_same_time(void **) {
    program checked;
    constexpr int NUM_THREADS = 4, NUM_REQUESTS = 2000;
    std::atomic<bool> is_correct = true;
    std::vector<std::thread> threads;
    std::atomic<std::uint64_t> number = last_number;
    for (std::size_t i = 0; i < NUM_THREADS; ++i)
        threads.emplace_back([&, i] {
            constexpr std::uint32_t LENGTH = program::LENGTH / NUM_THREADS;
            for (int k = 0; k < NUM_REQUESTS; ++k) {
                ibv_sge sge = checked.sge(i * LENGTH, LENGTH);
                request receive;
                receive.number = ++number;
                receive.queue = &checked.qp;
                receive.context = &checked.context;
                receive.is_receive = true;
                ibv_recv_wr wr = {};
                wr.sg_list = &sge;
                wr.num_sge = 1;
                checked.late->before_receive(receive, wr);
                std::memset(reinterpret_cast<void *>(wr.sg_list[0].addr), k, LENGTH);
                ibv_wc wc = {};
                wc.byte_len = LENGTH;
                completion polled = {
                    .wc = wc, .completed = &receive, .has_byte_len = true, .silent = {}};
                checked.late->on_completion(checked.cq, polled);
                const auto *const bytes = &checked.memory[i * LENGTH];
                if (wr.sg_list == &sge || !std::all_of(bytes, bytes + LENGTH, [=](std::byte b) {
                        return b == static_cast<std::byte>(k);
                    }))
                    is_correct = false;
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    last_number = number;
    assert_true(is_correct);
}

void child_of_fork_holds_nothing(void **) {
    program checked;
    posted receive(checked, {checked.sge()});
    assert_string_equal(captured_stderr([&] {
                            checked.late->before_fork();
                            checked.late->on_fork();
                            assert_false(receive.is_held());
                            receive.complete(100);
                            assert_true(checked.has_only(program::OLD));
                            program opened; // by the child
                            assert_true(posted(opened, {opened.sge()}).is_held());
                        }).c_str(),
                        "");
    assert_true(receive.is_held());
}

void emulated_device_is_refused(void **) {
    const std::string text = captured_stderr([] {
        ibv_device device = {};
        std::strcpy(device.name, "test0");
        ibv_context context = {};
        context.device = &device;
        const std::unique_ptr<observer> late(coherdma_make_observer_9());
        int error = 0;
        setenv("COHERDMA_EMULATE", "off", 1);
        assert_true(late->on_open(context, error));
        setenv("COHERDMA_EMULATE", "stale", 1);
        assert_false(late->on_open(context, error));
        assert_int_equal(error, EINVAL);
    });
    assert_non_null(std::strstr(text.c_str(), "while COHERDMA_EMULATE is set"));
}

void sends_are_delayed(void **) {
    program checked;
    assert_int_equal(checked.late->delay_of_sends(checked.qp_object).count(), 1000);
}

/// Each program has deregistered all.
int no_memory_is_left(void **) {
    const int left = num_registered.exchange(0);
    return left == 0 ? 0 : -1;
}

} // namespace

int main() {
    const auto test = [](const char *name, CMUnitTestFunction function) {
        return CMUnitTest{name, function, nullptr, no_memory_is_left, nullptr};
    };
#define TEST(function) test(#function, function)
    const CMUnitTest tests[] = {
        TEST(receive_is_delivered_at_its_completion),
        TEST(receive_is_scattered_in_the_order_of_its_sges),
        TEST(buffer_begins_with_the_programs_bytes),
        TEST(data_of_a_write_with_immediate_are_elsewhere),
        TEST(read_and_atomics_are_delivered_at_their_completion),
        TEST(sources_are_the_programs),
        TEST(fenced_send_sends_what_a_read_brings),
        TEST(unsignaled_read_is_delivered_with_the_next_completion),
        TEST(failed_or_refused_request_delivers_nothing),
        TEST(invalid_request_is_left_to_the_device),
        TEST(mr_that_the_device_would_refuse_is_left_to_it),
        TEST(iwarp_read_needs_remote_write),
        TEST(mr_of_other_memory_is_left_to_the_device),
        TEST(addresses_are_the_mrs),
        TEST(key_is_the_devices),
        TEST(changed_mr_is_left_to_the_device),
        TEST(deregistered_memory_is_not_written),
        TEST(memory_that_cannot_be_read_is_left_to_the_device),
        TEST(unmapped_memory_is_skipped),
        TEST(protected_memory_is_read_and_written),
        TEST(freed_memory_is_not_written),
        TEST(end_of_a_queue_gives_buffers_back),
        TEST(qp_with_the_address_of_another_keeps_its_requests),
        TEST(receives_of_an_srq_are_delivered),
        TEST(closed_device_ends_all),
        TEST(without_memory_the_device_gets_the_programs),
        TEST(many_buffers_do_not_overlap),
        TEST(buffers_that_are_given_back_become_a_larger_one),
        TEST(threads_post_and_poll_at_the_same_time),
        TEST(child_of_fork_holds_nothing),
        TEST(emulated_device_is_refused),
        TEST(sends_are_delayed),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
