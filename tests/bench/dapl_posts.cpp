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

enum class call { none, write, reap_write, receive, send, reap_send, reap_receive };
constexpr std::pair<call, const char *> calls[] = {
    {call::write, "write: post"},          {call::reap_write, "write: reap"},
    {call::receive, "pair: post receive"}, {call::send, "pair: post send"},
    {call::reap_send, "pair: reap send"},  {call::reap_receive, "pair: reap receive"},
};
constexpr int rounds = 16;
constexpr std::uint32_t length = 8;

class by_verbs {
  public:
    explicit by_verbs(const char *address)
        : loop_(address)
        , piece_(loop_.requester.make_sge(length))
        , where_(loop_.responder.make_sge(length))
        , target_(reinterpret_cast<std::uintptr_t>(loop_.responder.memory.data()))
        , key_(loop_.responder.mr->rkey) {}

    [[gnu::noinline]] bool write() {
        ibv_send_wr wanted, *bad; // no more of it is read than this opcode needs
        wanted.wr.rdma.remote_addr = target_;
        wanted.wr.rdma.rkey = key_;
        return post(wanted, IBV_WR_RDMA_WRITE, bad);
    }
    [[gnu::noinline]] bool send() {
        ibv_send_wr wanted, *bad;
        return post(wanted, IBV_WR_SEND, bad);
    }
    [[gnu::noinline]] bool receive() {
        ibv_recv_wr wanted = {4, nullptr, &where_, 1}, *bad;
        return ibv_post_recv(loop_.responder.qp(), &wanted, &bad) == 0;
    }
    [[gnu::noinline]] bool reap() {
        return ibv_poll_cq(loop_.requester.sent.cq.get(), 1, &last_) == 1;
    }
    [[gnu::noinline]] bool reap_receive() {
        return ibv_poll_cq(loop_.responder.received.cq.get(), 1, &last_) == 1;
    }
    bool good() const { return last_.status == IBV_WC_SUCCESS; }

  private:
    bool post(ibv_send_wr &wanted, ibv_wr_opcode what, ibv_send_wr *&bad) {
        wanted.wr_id = 3;
        wanted.next = nullptr;
        wanted.sg_list = &piece_;
        wanted.num_sge = 1;
        wanted.opcode = what;
        wanted.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE; // as both providers do
        return ibv_post_send(loop_.requester.qp(), &wanted, &bad) == 0;
    }

    rdmacm_loopback loop_;
    ibv_sge piece_, where_;
    std::uint64_t target_;
    std::uint32_t key_;
    ibv_wc last_{};
};

void need(DAT_RETURN status, const char *what) {
    if (status != DAT_SUCCESS)
        throw failure(text(what, ": DAT_RETURN 0x", std::hex, status));
}

/// Two endpoints of one IA, connected. All of it ends with the IA.
class by_dat {
  public:
    explicit by_dat(const char *name) {
        DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
        need(dat_ia_open(const_cast<char *>(name), 8, &async, &ia_), "open the IA");
        need(dat_pz_create(ia_, &zone_), "make a PZ");
        register_memory();
        from_ = make_end();
        to_ = make_end();
        if (!receive())
            throw failure("post the first message's receive");
        connect();
        greet();
    }
    ~by_dat() { dat_ia_close(ia_, DAT_CLOSE_ABRUPT_FLAG); }
    by_dat(const by_dat &) = delete;
    by_dat &operator=(const by_dat &) = delete;

    [[gnu::noinline]] bool write() {
        return dat_ep_post_rdma_write(from_.ep, 1, &piece_, number, &target_,
                                      DAT_COMPLETION_DEFAULT_FLAG) == DAT_SUCCESS;
    }
    [[gnu::noinline]] bool send() {
        return dat_ep_post_send(from_.ep, 1, &piece_, number, DAT_COMPLETION_DEFAULT_FLAG) ==
               DAT_SUCCESS;
    }
    [[gnu::noinline]] bool receive() {
        return dat_ep_post_recv(to_.ep, 1, &where_, number, DAT_COMPLETION_DEFAULT_FLAG) ==
               DAT_SUCCESS;
    }
    [[gnu::noinline]] bool reap() { return dat_evd_dequeue(from_.sent, &last_) == DAT_SUCCESS; }
    [[gnu::noinline]] bool reap_receive() {
        return dat_evd_dequeue(to_.received, &last_) == DAT_SUCCESS;
    }
    bool good() const {
        return last_.event_number == DAT_DTO_COMPLETION_EVENT &&
               last_.event_data.dto_completion_event_data.status == DAT_DTO_SUCCESS;
    }

  private:
    static constexpr DAT_DTO_COOKIE number{.as_64 = 3};
    static constexpr DAT_TIMEOUT patience = 10000000;
    struct endpoint {
        DAT_EVD_HANDLE sent, received, connection;
        DAT_EP_HANDLE ep;
    };

    void register_memory() {
        DAT_REGION_DESCRIPTION where;
        where.for_va = memory_.data();
        DAT_LMR_HANDLE lmr;
        DAT_VLEN size;
        DAT_VADDR start;
        need(dat_lmr_create(ia_, DAT_MEM_TYPE_VIRTUAL, where, memory_.size(), zone_,
                            DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, &lmr, &piece_.lmr_context,
                            &target_.rmr_context, &size, &start),
             "register memory");
        const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
        piece_ = {address, length, piece_.lmr_context};
        where_ = {address + memory_.size() / 2, length, piece_.lmr_context};
        target_ = {where_.virtual_address, length, target_.rmr_context};
    }
    DAT_EVD_HANDLE events(DAT_EVD_FLAGS flags) const {
        DAT_EVD_HANDLE made = DAT_HANDLE_NULL;
        need(dat_evd_create(ia_, 64, DAT_HANDLE_NULL, flags, &made), "make an EVD");
        return made;
    }
    endpoint make_end() const {
        DAT_EP_ATTR wanted{};
        wanted.service_type = DAT_SERVICE_TYPE_RC;
        wanted.max_message_size = wanted.max_rdma_size = 4096;
        wanted.max_recv_dtos = wanted.max_request_dtos = 32;
        wanted.max_recv_iov = wanted.max_request_iov = 2;
        wanted.max_rdma_read_in = wanted.max_rdma_read_out = 1;
        wanted.max_rdma_read_iov = wanted.max_rdma_write_iov = 1;
        endpoint made{events(DAT_EVD_DTO_FLAG), events(DAT_EVD_DTO_FLAG),
                      events(DAT_EVD_CONNECTION_FLAG), DAT_HANDLE_NULL};
        need(
            dat_ep_create(ia_, zone_, made.received, made.sent, made.connection, &wanted, &made.ep),
            "make an EP");
        return made;
    }
    static DAT_EVENT next(DAT_EVD_HANDLE requester, DAT_EVENT_NUMBER wanted) {
        DAT_EVENT event{};
        DAT_COUNT more = 0;
        need(dat_evd_wait(requester, patience, 1, &event, &more), "wait for an event");
        if (event.event_number != wanted)
            throw failure(text("event 0x", std::hex, event.event_number, ", not 0x", wanted));
        return event;
    }
    void connect() {
        constexpr DAT_CONN_QUAL port = 7190;
        DAT_IA_ATTR attributes{};
        need(dat_ia_query(ia_, nullptr, DAT_IA_FIELD_ALL, &attributes, 0, nullptr), "query the IA");
        const DAT_EVD_HANDLE requests = events(DAT_EVD_CR_FLAG);
        DAT_PSP_HANDLE listener;
        need(dat_psp_create(ia_, port, requests, DAT_PSP_CONSUMER_FLAG, &listener), "listen");
        need(dat_ep_connect(from_.ep, attributes.ia_address_ptr, port, patience, 0, nullptr,
                            DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
             "connect");
        const DAT_EVENT request = next(requests, DAT_CONNECTION_REQUEST_EVENT);
        need(dat_cr_accept(request.event_data.cr_arrival_event_data.cr_handle, to_.ep, 0, nullptr),
             "accept");
        next(from_.connection, DAT_CONNECTION_EVENT_ESTABLISHED);
        next(to_.connection, DAT_CONNECTION_EVENT_ESTABLISHED);
    }
    void greet() {
        if (!send())
            throw failure("post the first message");
        next(from_.sent, DAT_DTO_COMPLETION_EVENT);
        next(to_.received, DAT_DTO_COMPLETION_EVENT);
    }

    alignas(4096) std::array<std::byte, 8192> memory_{};
    DAT_IA_HANDLE ia_ = DAT_HANDLE_NULL;
    DAT_PZ_HANDLE zone_ = DAT_HANDLE_NULL;
    DAT_LMR_TRIPLET piece_{}, where_{};
    DAT_RMR_TRIPLET target_{};
    endpoint from_{}, to_{};
    DAT_EVENT last_{};
};

void done(bool is, const char *what) {
    if (!is)
        throw failure(text(what, ": try again"));
}

template <class way>
void round(way &over, const meter<call> &count) {
    const auto reaped = [&](call which, const auto &reap) {
        done(count(which, reap) && over.good(), "reap");
    };
    const auto reap = [&] {
        return over.reap();
    };
    done(count(call::write, [&] { return over.write(); }), "post a write");
    pause_for_completions();
    reaped(call::reap_write, reap);
    done(count(call::receive, [&] { return over.receive(); }), "post a receive");
    done(count(call::send, [&] { return over.send(); }), "post a message");
    pause_for_completions();
    reaped(call::reap_send, reap);
    reaped(call::reap_receive, [&] { return over.reap_receive(); });
}

// Says the name of each account, and how many calls it has; the 1 is what posts says there.
template <class way>
void count(way &over) {
    for (int warm = 0; warm < 2; ++warm)
        round(over, meter(call::none));
    for (const auto &[which, name] : calls) {
        for (int times = 0; times < rounds; ++times)
            round(over, meter(which));
        CALLGRIND_DUMP_STATS_AT(name);
        std::printf("%d 1 %s\n", rounds, name);
    }
}

} // namespace

int main(int argc, char **argv) try {
    const std::vector<std::string_view> words(argv + 1, argv + argc);
    if (words.size() == 2 && words[0] == "dat") {
        by_dat over(argv[2]);
        count(over);
    } else if (words.size() == 2 && words[0] == "verbs") {
        by_verbs over(argv[2]);
        count(over);
    } else {
        throw failure("dapl_posts dat IA | verbs ADDRESS");
    }
    return 0;
} catch (const std::exception &error) {
    std::fprintf(stderr, "dapl_posts: %s\n", error.what());
    return std::string_view(error.what()).ends_with("again") ? 75 : 1;
}
