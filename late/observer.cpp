// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The observer that the interposer loads: which memory the device gets, and when the program gets
// the data.

#include "interposer/observer.hpp"

#include "check/registered_bounds.hpp"
#include "check/sanitizer_runtimes.hpp"
#include "program_bytes.hpp"
#include "requests.hpp"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

namespace coherdma::late {
namespace {

using namespace interposer;

constexpr std::size_t NOTHING = 0, ALL = SIZE_MAX;
constexpr std::chrono::microseconds SEND_DELAY = std::chrono::milliseconds(1);

/// Never destroyed: other threads call verbs while one is in exit(). nullptr: no device was opened.
std::atomic<late_requests *> current_requests = nullptr;
late_requests *inherited_requests = nullptr;
check::registered_bounds all_registered;

/// Calls func(requests). Without memory the device gets the request as it is.
template <class function>
void with_requests(function func) noexcept {
    // Acquire: sees what its maker has made.
    late_requests *const requests = current_requests.load(std::memory_order_acquire);
    try {
        // Locked: a signal handler has interrupted this thread there, and calls exit().
        if (requests != nullptr && !late_requests::is_locked_here())
            func(*requests);
    } catch (const std::bad_alloc &) {
    }
}

void make_requests() {
    auto *made = new late_requests;
    late_requests *expected = nullptr;
    // Release: see with_requests().
    if (!current_requests.compare_exchange_strong(expected, made, std::memory_order_acq_rel))
        delete made;
}

/// Whether the emulation of a non-coherent device is asked for.
bool is_emulated() noexcept {
    const char *const mode = secure_getenv("COHERDMA_EMULATE");
    return mode != nullptr && *mode != '\0' && std::string_view(mode) != "off";
}

/// What the device says of a queue, if it does: siw of rdma-core says nothing of an SRQ.
std::size_t limit_of(std::uint32_t max_sges) noexcept {
    return max_sges != 0 ? max_sges : ALL;
}

known_queue describe_qp(const object &created) {
    auto &qp = *static_cast<ibv_qp *>(const_cast<void *>(created.handle)); // it is no constant
    known_queue queue = {.number = created.number,
                         .context = created.context,
                         .pd_handle = qp.pd != nullptr ? qp.pd->handle : 0,
                         .held = {}};
    ibv_qp_attr attr = {};
    ibv_qp_init_attr init = {};
    if (ibv_query_qp(&qp, &attr, IBV_QP_CAP, &init) == 0) {
        queue.max_send_sges = limit_of(init.cap.max_send_sge);
        queue.max_receive_sges = limit_of(init.cap.max_recv_sge);
    }
    return queue;
}

known_queue describe_srq(const object &created) {
    auto &srq = *static_cast<ibv_srq *>(const_cast<void *>(created.handle));
    known_queue queue = {.number = created.number,
                         .context = created.context,
                         .pd_handle = srq.pd->handle,
                         .held = {}};
    ibv_srq_attr attr = {};
    if (ibv_query_srq(&srq, &attr) == 0)
        queue.max_receive_sges = limit_of(attr.max_sge);
    return queue;
}

/// What the memory that a send names must allow for the device to write to it; 0: it does not.
int access_of_target(const ibv_send_wr &wr, const ibv_context &context) noexcept {
    switch (wr.opcode) {
    case IBV_WR_RDMA_READ:
        return IBV_ACCESS_LOCAL_WRITE |
               (context.device->transport_type == IBV_TRANSPORT_IWARP ? IBV_ACCESS_REMOTE_WRITE
                                                                      : 0);
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return IBV_ACCESS_LOCAL_WRITE;
    default:
        return 0;
    }
}

/// Whether its SGEs name what it sends.
bool has_source(ibv_wr_opcode opcode) noexcept {
    return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ||
           opcode == IBV_WR_SEND_WITH_INV || opcode == IBV_WR_RDMA_WRITE ||
           opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

/// Of a request that is complete without an error.
std::size_t num_bytes_of_send(ibv_wr_opcode opcode) noexcept {
    constexpr std::size_t ATOMIC_LENGTH = 8;
    return opcode == IBV_WR_RDMA_READ ? ALL : ATOMIC_LENGTH;
}

std::size_t num_bytes_written(const completion &polled) noexcept {
    if (polled.wc.status != IBV_WC_SUCCESS)
        return NOTHING;
    if (!polled.completed->is_receive)
        return num_bytes_of_send(polled.completed->opcode);
    if (polled.wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM)
        return NOTHING; // the data are where the peer has written them
    return polled.has_byte_len ? polled.wc.byte_len : ALL;
}

class late_observer final : public observer {
  public:
    bool on_open(ibv_context &context, int &error) override try {
        if (is_emulated()) {
            std::fprintf(stderr,
                         "coherdma: %s: data cannot be delivered late while COHERDMA_EMULATE is "
                         "set: the device writes to other memory than the emulation looks at\n",
                         ibv_get_device_name(context.device));
            error = EINVAL;
            return false;
        }
        make_requests();
        return true;
    } catch (const std::bad_alloc &) {
        error = ENOMEM;
        return false;
    }

    std::chrono::microseconds delay_of_sends(const object &) override { return SEND_DELAY; }

    ibv_mr *reg_mr(const registration &asked, registrar &next) override {
        ibv_mr *mr = next.reg_mr(asked);
        if (mr == nullptr && errno == ENOMEM) { // RLIMIT_MEMLOCK: the program comes first
            with_requests(
                [&](late_requests &requests) { requests.release_memory(asked.pd->context); });
            mr = next.reg_mr(asked);
        }
        // The checker may change the lkey that the program gets, before on_create().
        last_registration = asked;
        last_lkey = mr != nullptr ? mr->lkey : 0;
        return mr;
    }
    void on_create(const object &created) override {
        with_requests([&](late_requests &requests) {
            if (created.kind == object_kind::QP)
                requests.add_queue(created.handle, describe_qp(created));
            if (created.kind == object_kind::SRQ)
                requests.add_queue(created.handle, describe_srq(created));
            if (created.kind == object_kind::MR)
                add_mr(requests, created);
        });
    }
    void before_destroy(const object &ended) override {
        with_requests([&](late_requests &requests) {
            if (ended.kind == object_kind::PD)
                requests.release_memory(static_cast<const ibv_pd *>(ended.handle));
            if (ended.kind == object_kind::CONTEXT)
                requests.release_memory(ended.context);
        });
    }
    void on_destroy(const object &ended, int error) override {
        if (error != 0)
            return;
        with_requests([&](late_requests &requests) {
            if (ended.kind == object_kind::QP || ended.kind == object_kind::SRQ)
                requests.remove_queue(ended.handle, ended.number);
            if (ended.kind == object_kind::MR)
                requests.remove_mr(ended.context, ended.number);
            if (ended.kind == object_kind::CONTEXT)
                requests.remove_context(ended.context);
        });
    }
    int before_rereg_mr(const ibv_mr &mr, int) override {
        with_requests([&](late_requests &requests) { requests.leave_mr(mr); });
        return 0;
    }
    void on_modify_qp(ibv_qp &qp, const ibv_qp_attr &attr, int mask) override {
        if ((mask & IBV_QP_STATE) != 0 && attr.qp_state == IBV_QPS_RESET)
            with_requests([&](late_requests &requests) { requests.reset_queue(&qp); });
    }

    void before_send(const request &sent, ibv_send_wr &wr) override {
        const int access = access_of_target(wr, *sent.context);
        if ((wr.send_flags & IBV_SEND_INLINE) != 0)
            return;
        with_requests([&](late_requests &requests) {
            if (access != 0)
                requests.hold(sent, wr.sg_list, wr.num_sge, access);
            else if ((wr.send_flags & IBV_SEND_FENCE) != 0 && has_source(wr.opcode))
                requests.forward(sent, wr.sg_list, wr.num_sge);
        });
    }
    void before_receive(const request &receive, ibv_recv_wr &wr) override {
        with_requests([&](late_requests &requests) {
            requests.hold(receive, wr.sg_list, wr.num_sge, IBV_ACCESS_LOCAL_WRITE);
        });
    }
    void on_refuse(const request &refused) override {
        with_requests([&](late_requests &requests) { requests.deliver(refused, NOTHING); });
    }
    void on_completion(ibv_cq &, completion &polled) override {
        with_requests([&](late_requests &requests) {
            for (const request &silent : polled.silent) // they had no error: that has a completion
                requests.deliver(silent, num_bytes_of_send(silent.opcode));
            if (polled.completed != nullptr)
                requests.deliver(*polled.completed, num_bytes_written(polled));
        });
    }

    bool wants_memory_events() override { return true; }
    void before_free(const void *addr, std::size_t length, const char *) override {
        const auto begin = reinterpret_cast<std::uintptr_t>(addr);
        if (all_registered.overlap(begin, begin + length))
            with_requests(
                [&](late_requests &requests) { requests.forget_memory(begin, begin + length); });
    }

    /// The parent's objects are not observed in the child, and it does not have the buffers.
    void on_fork() override {
        if (late_requests *const parents = current_requests.exchange(nullptr))
            parents->parents = std::exchange(inherited_requests, parents);
    }

  private:
    static void add_mr(late_requests &requests, const object &created) {
        const registration &asked = last_registration;
        if (asked.kind != memory_kind::PROGRAM || asked.length == SIZE_MAX) // or all memory
            return;
        const auto *const mr = static_cast<const ibv_mr *>(created.handle);
        const auto memory = reinterpret_cast<std::uintptr_t>(asked.addr);
        const bool is_zero_based = (asked.access & IBV_ACCESS_ZERO_BASED) != 0;
        all_registered.add(memory, memory + asked.length);
        requests.add_mr({.number = created.number,
                         .handle = mr,
                         .pd = mr->pd,
                         .lkey = last_lkey,
                         .begin = is_zero_based ? 0 : asked.iova,
                         .length = asked.length,
                         .memory = memory,
                         .access = asked.access},
                        created.context);
    }

    /// From a registration to on_create() of its MR, which come on one thread.
    /// initial-exec: as in check/observer.cpp.
    [[gnu::tls_model("initial-exec")]] static inline thread_local registration last_registration;
    [[gnu::tls_model("initial-exec")]] static inline thread_local std::uint32_t last_lkey = 0;
};

} // namespace
} // namespace coherdma::late

using coherdma::late::with_requests;

/// Whether the device has other memory in place of what the program has posted the request with:
/// until its completion, the device writes nothing there. For the checker.
extern "C" [[gnu::visibility("default")]] bool
coherdma_late_holds(const coherdma::interposer::request &posted) {
    bool is_held = false;
    with_requests(
        [&](coherdma::late::late_requests &requests) { is_held = requests.holds(posted); });
    return is_held;
}

extern "C" [[gnu::visibility("default")]] coherdma::interposer::observer *
coherdma_make_observer_9() {
    using namespace coherdma;
    static const std::optional<check::tsan_runtime> tsan = check::find_tsan();
    if (tsan)
        check::unseen_scope::runtime = &*tsan;
    if (void *const checker = dlopen("libcoherdma-check.so", RTLD_NOW | RTLD_NOLOAD))
        late::lend = reinterpret_cast<late::lend_function *>(dlsym(checker, "coherdma_check_lend"));
    return new (std::nothrow) late::late_observer;
}
