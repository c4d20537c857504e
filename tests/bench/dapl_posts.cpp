// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What uDAPL costs above verbs: a device talks to itself, and each kind of call has an account, a
// part of callgrind's output. The same work by uDAPL and by verbs themselves.
//
// dapl_posts dat IA          by the libdat2 and the provider that it is run with
// dapl_posts verbs ADDRESS   by libibverbs
//
// A request is described again for each call, as programs do; the segments stand ready. What is
// reaped has come before: no call is in vain. Status 75: to be tried again, as the machine was too
// slow.

#include "counted.hpp"
#include "system/lib/rdmacm_loopback.hpp"

#include <dat2/udat.h>
#include <string_view>
#include <vector>

namespace {

using namespace verbs_test;

enum class call_kind { none, write, reap_write, receive, send, reap_send, reap_receive };
constexpr std::pair<call_kind, const char *> counted_kinds[] = {
    {call_kind::write, "write: post"},
    {call_kind::reap_write, "write: reap"},
    {call_kind::receive, "send_recv: post receive"},
    {call_kind::send, "send_recv: post send"},
    {call_kind::reap_send, "send_recv: reap send"},
    {call_kind::reap_receive, "send_recv: reap receive"},
};
constexpr int num_rounds = 16, num_warmups = 2;
constexpr std::uint32_t length = 8;

class verbs_loopback {
  public:
    explicit verbs_loopback(const char *address)
        : loop_(address)
        , send_sge_(loop_.requester.make_sge(length))
        , recv_sge_(loop_.responder.make_sge(length))
        , remote_addr_(reinterpret_cast<std::uintptr_t>(loop_.responder.memory.data()))
        , rkey_(loop_.responder.mr->rkey) {}

    [[gnu::noinline]] bool post_write() {
        ibv_send_wr wr, *bad_wr; // no more of it is read than this opcode needs
        wr.wr.rdma.remote_addr = remote_addr_;
        wr.wr.rdma.rkey = rkey_;
        return post_signaled(wr, IBV_WR_RDMA_WRITE, bad_wr);
    }
    [[gnu::noinline]] bool post_send() {
        ibv_send_wr wr, *bad_wr;
        return post_signaled(wr, IBV_WR_SEND, bad_wr);
    }
    [[gnu::noinline]] bool post_recv() {
        ibv_recv_wr wr = {4, nullptr, &recv_sge_, 1}, *bad_wr;
        return ibv_post_recv(loop_.responder.qp(), &wr, &bad_wr) == 0;
    }
    [[gnu::noinline]] bool reap_request() {
        return ibv_poll_cq(loop_.requester.send_cq.cq.get(), 1, &wc_) == 1;
    }
    [[gnu::noinline]] bool reap_receive() {
        return ibv_poll_cq(loop_.responder.recv_cq.cq.get(), 1, &wc_) == 1;
    }
    bool is_success() const { return wc_.status == IBV_WC_SUCCESS; }

  private:
    bool post_signaled(ibv_send_wr &wr, ibv_wr_opcode opcode, ibv_send_wr *&bad_wr) {
        wr.wr_id = 3;
        wr.next = nullptr;
        wr.sg_list = &send_sge_;
        wr.num_sge = 1;
        wr.opcode = opcode;
        wr.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE; // as both providers do
        return ibv_post_send(loop_.requester.qp(), &wr, &bad_wr) == 0;
    }

    rdmacm_loopback loop_;
    ibv_sge send_sge_, recv_sge_;
    std::uint64_t remote_addr_;
    std::uint32_t rkey_;
    ibv_wc wc_{};
};

void check_dat(DAT_RETURN status, const char *operation) {
    if (status != DAT_SUCCESS)
        throw failure(concat(operation, ": DAT_RETURN 0x", std::hex, status));
}

/// Two endpoints of one IA, connected. All of it ends with the IA.
class dat_loopback {
  public:
    explicit dat_loopback(const char *name) {
        DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
        check_dat(dat_ia_open(const_cast<char *>(name), 8, &async_evd, &ia_), "open the IA");
        check_dat(dat_pz_create(ia_, &pz_), "make a PZ");
        register_memory();
        requester_ = create_endpoint();
        responder_ = create_endpoint();
        if (!post_recv())
            throw failure("post the first message's receive");
        connect();
        send_first_message();
    }
    ~dat_loopback() { dat_ia_close(ia_, DAT_CLOSE_ABRUPT_FLAG); }
    dat_loopback(const dat_loopback &) = delete;
    dat_loopback &operator=(const dat_loopback &) = delete;

    [[gnu::noinline]] bool post_write() {
        return dat_ep_post_rdma_write(requester_.ep, 1, &local_iov_, cookie, &remote_iov_,
                                      DAT_COMPLETION_DEFAULT_FLAG) == DAT_SUCCESS;
    }
    [[gnu::noinline]] bool post_send() {
        return dat_ep_post_send(requester_.ep, 1, &local_iov_, cookie,
                                DAT_COMPLETION_DEFAULT_FLAG) == DAT_SUCCESS;
    }
    [[gnu::noinline]] bool post_recv() {
        return dat_ep_post_recv(responder_.ep, 1, &recv_iov_, cookie,
                                DAT_COMPLETION_DEFAULT_FLAG) == DAT_SUCCESS;
    }
    [[gnu::noinline]] bool reap_request() {
        return dat_evd_dequeue(requester_.request_evd, &event_) == DAT_SUCCESS;
    }
    [[gnu::noinline]] bool reap_receive() {
        return dat_evd_dequeue(responder_.recv_evd, &event_) == DAT_SUCCESS;
    }
    bool is_success() const {
        return event_.event_number == DAT_DTO_COMPLETION_EVENT &&
               event_.event_data.dto_completion_event_data.status == DAT_DTO_SUCCESS;
    }

  private:
    static constexpr DAT_DTO_COOKIE cookie{.as_64 = 3};
    static constexpr DAT_TIMEOUT timeout_us = 10000000;
    struct endpoint {
        DAT_EVD_HANDLE request_evd, recv_evd, connect_evd;
        DAT_EP_HANDLE ep;
    };

    void register_memory() {
        DAT_REGION_DESCRIPTION region_desc;
        region_desc.for_va = memory_.data();
        DAT_LMR_HANDLE lmr;
        DAT_VLEN size;
        DAT_VADDR start;
        check_dat(dat_lmr_create(ia_, DAT_MEM_TYPE_VIRTUAL, region_desc, memory_.size(), pz_,
                                 DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, &lmr,
                                 &local_iov_.lmr_context, &remote_iov_.rmr_context, &size, &start),
                  "register memory");
        const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
        local_iov_ = {address, length, local_iov_.lmr_context};
        recv_iov_ = {address + memory_.size() / 2, length, local_iov_.lmr_context};
        remote_iov_ = {recv_iov_.virtual_address, length, remote_iov_.rmr_context};
    }
    DAT_EVD_HANDLE create_evd(DAT_EVD_FLAGS flags) const {
        DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
        check_dat(dat_evd_create(ia_, 64, DAT_HANDLE_NULL, flags, &evd), "make an EVD");
        return evd;
    }
    endpoint create_endpoint() const {
        DAT_EP_ATTR attr{};
        attr.service_type = DAT_SERVICE_TYPE_RC;
        attr.max_message_size = attr.max_rdma_size = 4096;
        attr.max_recv_dtos = attr.max_request_dtos = 32;
        attr.max_recv_iov = attr.max_request_iov = 2;
        attr.max_rdma_read_in = attr.max_rdma_read_out = 1;
        attr.max_rdma_read_iov = attr.max_rdma_write_iov = 1;
        endpoint created{create_evd(DAT_EVD_DTO_FLAG), create_evd(DAT_EVD_DTO_FLAG),
                         create_evd(DAT_EVD_CONNECTION_FLAG), DAT_HANDLE_NULL};
        check_dat(dat_ep_create(ia_, pz_, created.recv_evd, created.request_evd,
                                created.connect_evd, &attr, &created.ep),
                  "make an EP");
        return created;
    }
    static DAT_EVENT wait_event(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER expected) {
        DAT_EVENT event{};
        DAT_COUNT nmore = 0;
        check_dat(dat_evd_wait(evd, timeout_us, 1, &event, &nmore), "wait for an event");
        if (event.event_number != expected)
            throw failure(concat("event 0x", std::hex, event.event_number, ", not 0x", expected));
        return event;
    }
    void connect() {
        constexpr DAT_CONN_QUAL conn_qual = 7190;
        DAT_IA_ATTR ia_attr{};
        check_dat(dat_ia_query(ia_, nullptr, DAT_IA_FIELD_ALL, &ia_attr, 0, nullptr),
                  "query the IA");
        const DAT_EVD_HANDLE cr_evd = create_evd(DAT_EVD_CR_FLAG);
        DAT_PSP_HANDLE psp;
        check_dat(dat_psp_create(ia_, conn_qual, cr_evd, DAT_PSP_CONSUMER_FLAG, &psp), "listen");
        check_dat(dat_ep_connect(requester_.ep, ia_attr.ia_address_ptr, conn_qual, timeout_us, 0,
                                 nullptr, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
                  "connect");
        const DAT_EVENT cr_event = wait_event(cr_evd, DAT_CONNECTION_REQUEST_EVENT);
        check_dat(dat_cr_accept(cr_event.event_data.cr_arrival_event_data.cr_handle, responder_.ep,
                                0, nullptr),
                  "accept");
        wait_event(requester_.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        wait_event(responder_.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    }
    void send_first_message() {
        if (!post_send())
            throw failure("post the first message");
        wait_event(requester_.request_evd, DAT_DTO_COMPLETION_EVENT);
        wait_event(responder_.recv_evd, DAT_DTO_COMPLETION_EVENT);
    }

    alignas(4096) std::array<std::byte, 8192> memory_{};
    DAT_IA_HANDLE ia_ = DAT_HANDLE_NULL;
    DAT_PZ_HANDLE pz_ = DAT_HANDLE_NULL;
    DAT_LMR_TRIPLET local_iov_{}, recv_iov_{};
    DAT_RMR_TRIPLET remote_iov_{};
    endpoint requester_{}, responder_{};
    DAT_EVENT event_{};
};

/// Throws an error on which the program ends with status 75 if a call has not succeeded, such as a
/// reap without a completion: costs.py tries again with longer pauses.
void require(bool succeeded, const char *operation) {
    if (!succeeded)
        throw failure(concat(operation, ": try again"));
}

/// One Write and one message, posted and reaped. loopback: dat_loopback or verbs_loopback; measure
/// counts one kind of the calls.
template <class loopback>
void run_round(loopback &loop, const meter<call_kind> &measure) {
    const auto measure_reap = [&](call_kind kind, const auto &reap_request) {
        require(measure(kind, reap_request) && loop.is_success(), "reap");
    };
    const auto reap_request = [&] {
        return loop.reap_request();
    };
    require(measure(call_kind::write, [&] { return loop.post_write(); }), "post a write");
    pause_for_completions();
    measure_reap(call_kind::reap_write, reap_request);
    require(measure(call_kind::receive, [&] { return loop.post_recv(); }), "post a receive");
    require(measure(call_kind::send, [&] { return loop.post_send(); }), "post a message");
    pause_for_completions();
    measure_reap(call_kind::reap_send, reap_request);
    measure_reap(call_kind::reap_receive, [&] { return loop.reap_receive(); });
}

// Makes num_rounds calls of each kind. Each kind has a part of callgrind's output by its name;
// prints "CALLS REQUESTS_OF_A_CALL NAME" for dapl_costs.py.
template <class loopback>
void count_calls(loopback &loop) {
    for (int warmup = 0; warmup < num_warmups; ++warmup)
        run_round(loop, meter(call_kind::none));
    for (const auto &[kind, name] : counted_kinds) {
        for (int repetition = 0; repetition < num_rounds; ++repetition)
            run_round(loop, meter(kind));
        CALLGRIND_DUMP_STATS_AT(name);
        std::printf("%d 1 %s\n", num_rounds, name);
    }
}

} // namespace

int main(int argc, char **argv) try {
    const std::vector<std::string_view> args(argv + 1, argv + argc);
    if (args.size() == 2 && args[0] == "dat") {
        dat_loopback loop(argv[2]);
        count_calls(loop);
    } else if (args.size() == 2 && args[0] == "verbs") {
        verbs_loopback loop(argv[2]);
        count_calls(loop);
    } else {
        throw failure("dapl_posts dat IA | verbs ADDRESS");
    }
    return 0;
} catch (const std::exception &error) {
    std::fprintf(stderr, "dapl_posts: %s\n", error.what());
    return std::string_view(error.what()).ends_with("again") ? 75 : 1;
}
