// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// churn ADDRESS DEVICE GID_INDEX SECONDS [THREADS]
//
// Threads create, use and destroy objects of all kinds, whose addresses are used again at once, and
// sync all that they must. Exit status 1: data or a completion was wrong. GID_INDEX -1: the device
// is of iWARP, whose QPs are connected by rdma_cm only.

#include "../../lib/modify_qp.hpp"
#include "../../lib/rdmacm_loopback.hpp"

#include <atomic>
#include <chrono>
#include <coherdma/coherdma.h>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

namespace {

using namespace verbs_test;

constexpr std::size_t LINE = 256; // the largest that is emulated
constexpr unsigned ACCESS =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

struct options {
    std::string address, device;
    int gid_index = 0;
    std::chrono::steady_clock::time_point deadline;
};

using rng_type = std::independent_bits_engine<std::mt19937, 32, unsigned>;
using coherdma_handle = unique_handle<coherdma_device, coherdma_close_device>;
using mr_handle = unique_handle<ibv_mr, ibv_dereg_mr>;

/// Lines of its own in memory of the allocator, with an MR.
class buffer {
  public:
    buffer(ibv_pd *pd, std::size_t size, unsigned access)
        : size_(size)
        , bytes_(static_cast<unsigned char *>(std::aligned_alloc(LINE, size)))
        , mr_(check(mr_handle(ibv_reg_mr(pd, bytes_.get(), size, access)), "ibv_reg_mr")) {}

    void fill(unsigned value) const {
        for (std::size_t i = 0; i < size_; ++i)
            bytes_.get()[i] = static_cast<unsigned char>(value + i);
    }
    void expect(unsigned value, const char *operation) const {
        for (std::size_t i = 0; i < size_; ++i)
            if (bytes_.get()[i] != static_cast<unsigned char>(value + i))
                throw failure(concat(operation, ": byte ", i, " of ", size_, " is wrong"));
    }
    [[nodiscard]] coherdma_range range() const { return {.addr = bytes_.get(), .length = size_}; }
    [[nodiscard]] ibv_sge sge() const {
        return {addr(), static_cast<std::uint32_t>(size_), mr_->lkey};
    }
    [[nodiscard]] std::uint64_t addr() const {
        return reinterpret_cast<std::uintptr_t>(bytes_.get());
    }
    [[nodiscard]] ibv_mr *mr() const { return mr_.get(); }

  private:
    std::size_t size_;
    unique_handle<unsigned char, std::free> bytes_;
    mr_handle mr_; ///< ended before its memory is freed
};

ibv_send_wr make_wr(std::uint64_t wr_id, ibv_wr_opcode opcode, ibv_sge &sge) {
    ibv_send_wr wr{};
    wr.wr_id = wr_id;
    wr.opcode = opcode;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.send_flags = IBV_SEND_SIGNALED;
    return wr;
}
void post(ibv_qp *qp, ibv_send_wr &wr) {
    ibv_send_wr *bad_wr = nullptr;
    check(ibv_post_send(qp, &wr, &bad_wr), "ibv_post_send");
}
void expect_completion(ibv_cq *cq, std::uint64_t wr_id, const char *operation) {
    const ibv_wc wc = expect_success(cq, operation);
    if (wc.wr_id != wr_id)
        throw failure(concat(operation, ": wr_id is ", wc.wr_id, ", not ", wr_id));
}

struct queue_pair {
    ibv_pd *pd;
    ibv_qp *qp;
    ibv_cq *send_cq;
};

/// A peer's requests to an owner's memory, of this process: with each sync that is needed.
class exchange {
  public:
    exchange(const queue_pair &requester, ibv_pd *owner_pd, const coherdma_device *device,
             rng_type &rng)
        : requester_(requester)
        , device_(device)
        , rng_(rng)
        , source_(requester.pd, random_size(), IBV_ACCESS_LOCAL_WRITE)
        , owned_(owner_pd, source_.sge().length, ACCESS | IBV_ACCESS_MW_BIND) {}

    void read() {
        const unsigned value = rng_();
        owned_.fill(value);
        sync(coherdma_sync_before_read);
        request(IBV_WR_RDMA_READ, owned_.mr()->rkey, "a Read");
        source_.expect(value, "a Read");
    }
    void write(std::uint32_t rkey, const char *operation) {
        const unsigned value = rng_();
        owned_.fill(value + 1);
        source_.fill(value);
        sync(coherdma_sync_before_write);
        request(IBV_WR_RDMA_WRITE, rkey, operation);
        sync(coherdma_sync_after_write);
        owned_.expect(value, operation);
    }
    [[nodiscard]] const buffer &owned() const { return owned_; }

  private:
    std::size_t random_size() { return LINE << rng_() % 6; }
    void sync(int (*function)(const coherdma_device *, const coherdma_range *, std::size_t)) {
        const coherdma_range range = owned_.range();
        check(function(device_, &range, 1), "a sync");
    }
    void request(ibv_wr_opcode opcode, std::uint32_t rkey, const char *operation) {
        ibv_sge sge = source_.sge();
        const std::uint64_t wr_id = std::uint64_t{rng_()} << 32 | rng_();
        ibv_send_wr wr = make_wr(wr_id, opcode, sge);
        wr.wr.rdma.remote_addr = owned_.addr();
        wr.wr.rdma.rkey = rkey;
        post(requester_.qp, wr);
        expect_completion(requester_.send_cq, wr_id, operation);
    }

    const queue_pair requester_;
    const coherdma_device *device_;
    rng_type &rng_;
    buffer source_, owned_;
};

/// Messages from one QP to another, or to an SRQ; some receives are left when these end.
void exchange_messages(const rdmacm_loopback &loopback, rng_type &rng) {
    const endpoint &sender = loopback.requester, &receiver = loopback.responder;
    const std::size_t count = 1 + rng() % 4, num_left = rng() % 3;
    std::vector<std::unique_ptr<buffer>> sources, sinks;
    std::vector<std::uint64_t> wr_ids;
    for (std::size_t i = 0; i < count + num_left; ++i) {
        sources.push_back(std::make_unique<buffer>(sender.pd.get(), LINE, ACCESS));
        sinks.push_back(std::make_unique<buffer>(receiver.pd.get(), LINE, ACCESS));
        wr_ids.push_back(std::uint64_t{rng()} << 32 | rng());
        ibv_sge sge = sinks.back()->sge();
        ibv_recv_wr wr{wr_ids.back(), nullptr, &sge, 1}, *bad_wr = nullptr;
        check(receiver.srq ? ibv_post_srq_recv(receiver.srq.get(), &wr, &bad_wr)
                           : ibv_post_recv(receiver.qp(), &wr, &bad_wr),
              "post a receive");
    }
    for (std::size_t i = 0; i < count; ++i) {
        sources[i]->fill(static_cast<unsigned>(wr_ids[i]));
        ibv_sge sge = sources[i]->sge();
        ibv_send_wr wr = make_wr(wr_ids[i] + 1, IBV_WR_SEND, sge);
        wr.send_flags = i + 1 == count ? IBV_SEND_SIGNALED : 0;
        post(sender.qp(), wr);
    }
    expect_completion(sender.send_cq.cq.get(), wr_ids[count - 1] + 1, "a Send");
    for (std::size_t i = 0; i < count; ++i) {
        expect_completion(receiver.recv_cq.cq.get(), wr_ids[i], "a receive");
        sinks[i]->expect(static_cast<unsigned>(wr_ids[i]), "a receive");
    }
    // The QPs are destroyed after these buffers: a receive that is left must not use them.
    if (num_left != 0 && !receiver.srq) {
        ibv_qp_attr attr{};
        attr.qp_state = IBV_QPS_ERR;
        check(ibv_modify_qp(receiver.qp(), &attr, IBV_QP_STATE), "to ERR");
    }
}

void use_connection(const options &run, rng_type &rng) {
    qp_options responder;
    responder.use_srq = rng() % 3 == 0;
    const rdmacm_loopback loopback(run.address, {}, responder);
    const endpoint &requester = loopback.requester, &owner = loopback.responder;
    const coherdma_handle device =
        check(coherdma_handle(coherdma_open_device(owner.id->verbs)), "coherdma_open_device");
    for (unsigned i = 0, count = 1 + rng() % 3; i < count; ++i) {
        exchange data({requester.pd.get(), requester.qp(), requester.send_cq.cq.get()},
                      owner.pd.get(), device.get(), rng);
        data.read();
        data.write(data.owned().mr()->rkey, "a Write");
    }
    exchange_messages(loopback, rng);
}

unique_handle<ibv_context, ibv_close_device> open_device(const std::string &name) {
    const unique_handle<ibv_device *, ibv_free_device_list> list(ibv_get_device_list(nullptr));
    for (ibv_device **each = list.get(); *each != nullptr; ++each)
        if (name == ibv_get_device_name(*each))
            return check(unique_handle<ibv_context, ibv_close_device>(ibv_open_device(*each)),
                         "open the device");
    throw failure(concat("no device ", name));
}

void bind_mw(const queue_pair &queues, ibv_mw *mw, const buffer &owned) {
    ibv_mw_bind bind{};
    bind.wr_id = owned.addr();
    bind.send_flags = IBV_SEND_SIGNALED;
    bind.bind_info = {owned.mr(), owned.addr(), owned.sge().length, IBV_ACCESS_REMOTE_WRITE};
    check(ibv_bind_mw(queues.qp, mw, &bind), "ibv_bind_mw");
    expect_completion(queues.send_cq, bind.wr_id, "a bind");
}

/// Objects of a context of its own; with InfiniBand's transport, a QP that is connected to itself.
void use_context(const options &run, rng_type &rng) {
    const auto context = open_device(run.device);
    const unique_handle<ibv_pd, ibv_dealloc_pd> pd =
        check(unique_handle<ibv_pd, ibv_dealloc_pd>(ibv_alloc_pd(context.get())), "a PD");
    const unique_handle<ibv_cq, ibv_destroy_cq> cq =
        check(unique_handle<ibv_cq, ibv_destroy_cq>(
                  ibv_create_cq(context.get(), 64, nullptr, nullptr, 0)),
              "a CQ");
    const buffer data(pd.get(), LINE, ACCESS);
    ibv_srq_init_attr srq_attr{nullptr, {8, 2, 0}};
    const unique_handle<ibv_srq, ibv_destroy_srq> srq = check(
        unique_handle<ibv_srq, ibv_destroy_srq>(ibv_create_srq(pd.get(), &srq_attr)), "an SRQ");
    ibv_sge sge = data.sge();
    ibv_recv_wr recv_wr{1, nullptr, &sge, 1}, *bad_wr = nullptr;
    check(ibv_post_srq_recv(srq.get(), &recv_wr, &bad_wr), "post to an SRQ");
    ibv_qp_init_attr attr{};
    attr.qp_type = IBV_QPT_RC;
    attr.send_cq = attr.recv_cq = cq.get();
    attr.cap = {8, 8, 2, 2, 64};
    const unique_handle<ibv_qp, ibv_destroy_qp> qp =
        check(unique_handle<ibv_qp, ibv_destroy_qp>(ibv_create_qp(pd.get(), &attr)), "a QP");
    if (run.gid_index < 0)
        return;
    union ibv_gid gid;
    check(ibv_query_gid(context.get(), 1, run.gid_index, &gid), "the address");
    modify_qp_to_init(qp.get(), IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
    modify_qp_to_rtr(qp.get(), qp->qp_num, make_loopback_ah_attr(gid, run.gid_index), 1);
    modify_qp_to_rts(qp.get(), 14, 7, 1);
    const coherdma_handle device =
        check(coherdma_handle(coherdma_open_device(context.get())), "coherdma_open_device");
    const queue_pair queues = {pd.get(), qp.get(), cq.get()};
    exchange remote(queues, pd.get(), device.get(), rng);
    remote.read();
    struct mw_deleter { // the verb itself is inline
        void operator()(ibv_mw *mw) const noexcept { ibv_dealloc_mw(mw); }
    };
    const std::unique_ptr<ibv_mw, mw_deleter> mw(ibv_alloc_mw(pd.get(), IBV_MW_TYPE_1));
    check(mw != nullptr ? 0 : -1, "an MW");
    bind_mw(queues, mw.get(), remote.owned());
    remote.write(mw->rkey, "a Write by an MW");
}

} // namespace

int main(int argc, char **argv) {
    if (argc < 5) {
        std::fprintf(stderr, "churn ADDRESS DEVICE GID_INDEX SECONDS [THREADS]\n");
        return 2;
    }
    options run{argv[1], argv[2], std::atoi(argv[3]), {}};
    run.deadline = std::chrono::steady_clock::now() + std::chrono::seconds(std::atoi(argv[4]));
    const unsigned num_threads = argc > 5 ? static_cast<unsigned>(std::atoi(argv[5])) : 16;
    std::atomic<unsigned> num_rounds = 0, num_failures = 0;
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < num_threads; ++i)
        threads.emplace_back([&, i] {
            rng_type rng(i);
            try {
                do {
                    if (rng() % 2 == 0)
                        use_connection(run, rng);
                    else
                        use_context(run, rng);
                    ++num_rounds;
                } while (num_failures == 0 && std::chrono::steady_clock::now() < run.deadline);
            } catch (const failure &e) {
                std::fprintf(stderr, "churn: thread %u: %s\n", i, e.what());
                ++num_failures;
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    std::printf("%u rounds, %u failures\n", num_rounds.load(), num_failures.load());
    return num_failures == 0 ? 0 : 1;
}
