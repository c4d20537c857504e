// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A program, and in place of the interposer, libibverbs and the device what its tests need of them.
#pragma once

#include "../cmocka.hpp"
#include "interposer/observer.hpp"
#include "late/program_bytes.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

extern "C" coherdma::interposer::observer *coherdma_make_observer_9();
extern "C" bool coherdma_late_holds(const coherdma::interposer::request &);

namespace {

using namespace coherdma::interposer;

// What the module has registered.
std::atomic<int> num_registered = 0, num_attempts = 0;
std::mutex mrs_mutex;
std::list<ibv_mr> registered_mrs;
std::atomic<bool> is_memory_locked_up = false; ///< none can be registered
std::atomic<std::uint32_t> next_key = 0x1000;
std::uint32_t max_sges = 4;

} // namespace

extern "C" {

#undef ibv_reg_mr
ibv_mr *ibv_reg_mr(ibv_pd *pd, void *addr, std::size_t length, int access) {
    assert_true((access & IBV_ACCESS_LOCAL_WRITE) != 0);
    ++num_attempts;
    if (is_memory_locked_up) {
        errno = ENOMEM;
        return nullptr;
    }
    ++num_registered;
    const std::uint32_t key = next_key++;
    const std::lock_guard guard(mrs_mutex);
    return &registered_mrs.emplace_back(ibv_mr{.context = pd->context,
                                               .pd = pd,
                                               .addr = addr,
                                               .length = length,
                                               .handle = 0,
                                               .lkey = key,
                                               .rkey = key});
}
int ibv_dereg_mr(ibv_mr *mr) {
    --num_registered;
    const std::lock_guard guard(mrs_mutex);
    registered_mrs.remove_if([=](const ibv_mr &registered) { return &registered == mr; });
    return 0;
}
int ibv_query_qp(ibv_qp *, ibv_qp_attr *, int, ibv_qp_init_attr *init) {
    init->cap.max_send_sge = init->cap.max_recv_sge = max_sges;
    return 0;
}
int ibv_query_srq(ibv_srq *, ibv_srq_attr *) {
    return EOPNOTSUPP; // as siw of rdma-core
}

} // extern "C"

namespace {

std::uint64_t last_number = 0; ///< of an object or request

std::uintptr_t to_number(const void *addr) {
    return reinterpret_cast<std::uintptr_t>(addr);
}

/// A program with a PD, a QP and memory, and its device.
struct program final : registrar {
    static constexpr std::size_t LENGTH = 256;
    static constexpr std::byte OLD{0x11}, NEW{0x22};

    std::unique_ptr<observer> late{coherdma_make_observer_9()};
    ibv_device device = {};
    ibv_context context = {};
    ibv_pd pd = {};
    ibv_qp qp = {};
    ibv_cq cq = {};
    ibv_mr mr = {};
    std::array<std::byte, LENGTH> memory;
    object context_object, pd_object, qp_object, mr_object;

    explicit program(ibv_transport_type transport = IBV_TRANSPORT_IB,
                     int access = IBV_ACCESS_LOCAL_WRITE) {
        std::strcpy(device.name, "test0");
        device.transport_type = transport;
        context.device = &device;
        pd.context = &context;
        pd.handle = 7;
        qp.context = &context;
        qp.pd = &pd;
        memory.fill(OLD);
        int error = 0;
        assert_true(late->on_open(context, error));
        context_object = create(object_kind::CONTEXT, &context);
        pd_object = create(object_kind::PD, &pd);
        qp_object = create(object_kind::QP, &qp);
        mr_object = register_memory(mr, memory.data(), LENGTH, access);
    }
    ~program() {
        destroy(qp_object);
        destroy(mr_object);
        destroy(pd_object);
        destroy(context_object);
    }

    object create(object_kind kind, const void *handle) {
        const object created = {.kind = kind,
                                .handle = handle,
                                .context = &context,
                                .number = ++last_number,
                                .creation = {}};
        late->on_create(created);
        return created;
    }
    void destroy(const object &ended, int error = 0) {
        late->before_destroy(ended);
        late->on_destroy(ended, error);
    }
    ibv_mr *reg_mr(const registration &) override { return registering; }
    object register_memory(ibv_mr &added, registration asked) {
        added.context = &context;
        added.pd = asked.pd = &pd;
        added.addr = asked.addr;
        added.length = asked.length;
        added.lkey = added.rkey = next_key++;
        registering = &added;
        assert_ptr_equal(late->reg_mr(asked, *this), &added);
        return create(object_kind::MR, &added);
    }
    object register_memory(ibv_mr &added, void *addr, std::size_t length,
                           int access = IBV_ACCESS_LOCAL_WRITE) {
        return register_memory(
            added, {.addr = addr, .length = length, .iova = to_number(addr), .access = access});
    }
    ibv_sge sge(std::size_t offset = 0, std::uint32_t length = LENGTH) const {
        return {.addr = to_number(&memory[offset]), .length = length, .lkey = mr.lkey};
    }
    bool has_only(std::byte value) const {
        return std::all_of(memory.begin(), memory.end(), [=](std::byte b) { return b == value; });
    }
    bool is_changed_to(std::size_t end) const {
        return std::all_of(memory.begin(), memory.begin() + end, [](auto b) { return b == NEW; }) &&
               std::all_of(memory.begin() + end, memory.end(), [](auto b) { return b == OLD; });
    }

    ibv_mr *registering = nullptr;
};

/// A request that the program has posted, as the device has it.
struct posted {
    program &owner;
    std::vector<ibv_sge> program_sges;
    request posted_request;
    std::vector<ibv_sge> sges;

    posted(program &poster, std::vector<ibv_sge> list, std::optional<ibv_wr_opcode> opcode = {},
           unsigned flags = 0)
        : owner(poster)
        , program_sges(std::move(list)) {
        posted_request.number = ++last_number;
        posted_request.queue = &owner.qp;
        posted_request.context = &owner.context;
        posted_request.is_receive = !opcode;
        if (opcode)
            posted_request.opcode = *opcode;
        const auto post = [&](auto wr, auto before) {
            wr.sg_list = program_sges.data();
            wr.num_sge = static_cast<int>(program_sges.size());
            (owner.late.get()->*before)(posted_request, wr);
            assert_int_equal(wr.num_sge, program_sges.size());
            sges.assign(wr.sg_list, wr.sg_list + wr.num_sge);
            assert_int_equal(wr.sg_list != program_sges.data(), is_held());
        };
        if (opcode) {
            ibv_send_wr wr = {};
            wr.opcode = *opcode;
            wr.send_flags = flags;
            post(wr, &observer::before_send);
        } else {
            post(ibv_recv_wr{}, &observer::before_receive);
        }
    }

    bool is_held() const { return coherdma_late_holds(posted_request); }
    /// The device writes to all its memory.
    void write(std::byte value = program::NEW) const {
        for (const ibv_sge &sge : sges)
            std::memset(reinterpret_cast<void *>(sge.addr), std::to_integer<int>(value),
                        sge.length);
    }
    void complete(std::uint32_t byte_len, ibv_wc_status status = IBV_WC_SUCCESS,
                  ibv_wc_opcode opcode = IBV_WC_RECV, bool has_byte_len = true,
                  std::span<const request> silent = {}) {
        ibv_wc wc = {};
        wc.status = status;
        wc.opcode = opcode;
        wc.byte_len = has_byte_len ? byte_len : 0;
        completion polled = {
            .wc = wc, .completed = &posted_request, .has_byte_len = has_byte_len, .silent = silent};
        owner.late->on_completion(owner.cq, polled);
    }
};

} // namespace
