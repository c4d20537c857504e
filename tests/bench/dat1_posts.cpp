// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What DAT 1.2's face costs above 2.0's: the same work by the provider's two tables, with no
// registry between. Each kind of call has an account for each version, a part of callgrind's
// output.
//
// dat1_posts PROVIDER WORDS     the library, and the words of dat.conf for the device
//
// The program is the registry of both versions. A device talks to itself. Status 75: to be tried
// again, as the machine was too slow.

#include "counted.hpp"
#include "dispatch/dat1_table.hpp"
#include "system/lib/fault_runner.hpp"

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <string>

namespace {

namespace dat1 = coherdma::dapl::dat1;
using verbs_test::concat, verbs_test::failure;

const DAT_PROVIDER *added_provider = nullptr; ///< the last table

enum class call_kind { none, send, receive, write, read, reap, sync_short, sync_long };
constexpr std::pair<call_kind, const char *> counted_kinds[] = {
    {call_kind::send, "post send"},
    {call_kind::receive, "post receive"},
    {call_kind::write, "post write"},
    {call_kind::read, "post read"},
    {call_kind::reap, "reap"},
    {call_kind::sync_short, "sync 8 bytes"},
    {call_kind::sync_long, "sync 8192 bytes"},
};
constexpr int num_rounds = 16, num_warmups = 2;
constexpr DAT_UINT32 length = 8;

void check_dat(DAT_RETURN status, const char *operation) {
    if (status != DAT_SUCCESS)
        throw failure(concat(operation, ": DAT_RETURN 0x", std::hex, status));
}

/// What differs between the versions, and a name for what does not.
struct dat2_version {
    static constexpr DAT_UINT32 major = 2, minor = 0;
    static constexpr const char *name = "2.0";
    using table = DAT_PROVIDER;
    using lmr_triplet = DAT_LMR_TRIPLET;
    using rmr_triplet = DAT_RMR_TRIPLET;
    using event = DAT_EVENT;
    using ia_attr = DAT_IA_ATTR;
    static DAT_RETURN open_ia(const table &functions, char *ia_name, DAT_EVD_HANDLE *async_evd,
                              DAT_IA_HANDLE *ia) {
        return functions.ia_open_func(ia_name, 8, async_evd, ia);
    }
    static DAT_RETURN create_lmr(const table &functions, DAT_IA_HANDLE ia,
                                 DAT_REGION_DESCRIPTION region_desc, DAT_VLEN size,
                                 DAT_PZ_HANDLE pz, DAT_LMR_HANDLE *lmr, DAT_LMR_CONTEXT *lkey,
                                 DAT_RMR_CONTEXT *rkey) {
        return functions.lmr_create_func(ia, DAT_MEM_TYPE_VIRTUAL, region_desc, size, pz,
                                         DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, lmr, lkey, rkey,
                                         nullptr, nullptr);
    }
    static lmr_triplet make_lmr_triplet(DAT_VADDR addr, DAT_LMR_CONTEXT key) {
        return {addr, length, key};
    }
    static rmr_triplet make_rmr_triplet(DAT_VADDR addr, DAT_RMR_CONTEXT key) {
        return {addr, length, key};
    }
};

struct dat1_version {
    static constexpr DAT_UINT32 major = 1, minor = 2;
    static constexpr const char *name = "1.2";
    using table = dat1::provider;
    using lmr_triplet = dat1::lmr_triplet;
    using rmr_triplet = dat1::rmr_triplet;
    using event = dat1::event;
    using ia_attr = dat1::ia_attr;
    static DAT_RETURN open_ia(const table &functions, char *ia_name, DAT_EVD_HANDLE *async_evd,
                              DAT_IA_HANDLE *ia) {
        return functions.ia_open_func(ia_name, 8, async_evd, ia, DAT_FALSE);
    }
    static DAT_RETURN create_lmr(const table &functions, DAT_IA_HANDLE ia,
                                 DAT_REGION_DESCRIPTION region_desc, DAT_VLEN size,
                                 DAT_PZ_HANDLE pz, DAT_LMR_HANDLE *lmr, DAT_LMR_CONTEXT *lkey,
                                 DAT_RMR_CONTEXT *rkey) {
        return functions.lmr_create_func(ia, DAT_MEM_TYPE_VIRTUAL, region_desc, size, pz,
                                         DAT_MEM_PRIV_ALL_FLAG, lmr, lkey, rkey, nullptr, nullptr);
    }
    static lmr_triplet make_lmr_triplet(DAT_VADDR addr, DAT_LMR_CONTEXT key) {
        return {key, 0, addr, length};
    }
    static rmr_triplet make_rmr_triplet(DAT_VADDR addr, DAT_RMR_CONTEXT key) {
        return {key, 0, addr, length};
    }
};

/// Two endpoints of one IA, connected. All of it ends with the IA.
template <class version>
class loopback {
  public:
    loopback(void (*init)(const DAT_PROVIDER_INFO *, const char *), const char *ia_params) {
        DAT_PROVIDER_INFO info = {};
        std::strcpy(info.ia_name, "lab");
        info.dapl_version_major = version::major;
        info.dapl_version_minor = version::minor;
        added_provider = nullptr;
        init(&info, ia_params);
        if (added_provider == nullptr)
            throw failure(concat("the provider has added nothing for DAT ", version::name));
        table_ = reinterpret_cast<const typename version::table *>(added_provider);
        DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
        check_dat(version::open_ia(*table_, info.ia_name, &async_evd, &ia_), "open the IA");
        check_dat(table_->pz_create_func(ia_, &pz_), "make a PZ");
        DAT_REGION_DESCRIPTION region_desc;
        region_desc.for_va = memory_.data();
        DAT_LMR_HANDLE lmr;
        DAT_LMR_CONTEXT lkey;
        DAT_RMR_CONTEXT rkey;
        check_dat(
            version::create_lmr(*table_, ia_, region_desc, memory_.size(), pz_, &lmr, &lkey, &rkey),
            "register memory");
        const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
        short_iov_ = version::make_lmr_triplet(address, lkey);
        remote_iov_ = version::make_rmr_triplet(address + memory_.size() / 2, rkey);
        long_iov_ = short_iov_;
        long_iov_.segment_length = sizeof memory_;
        requester_ = create_endpoint();
        responder_ = create_endpoint();
        if (!post_recv())
            throw failure("post the first message's receive");
        connect();
        if (!post_send())
            throw failure("post the first message");
        wait_event(requester_.request_evd, DAT_DTO_COMPLETION_EVENT);
        wait_event(responder_.recv_evd, DAT_DTO_COMPLETION_EVENT);
    }
    ~loopback() { table_->ia_close_func(ia_, DAT_CLOSE_ABRUPT_FLAG); }
    loopback(const loopback &) = delete;
    loopback &operator=(const loopback &) = delete;

    [[gnu::noinline]] bool post_send() {
        return table_->ep_post_send_func(requester_.ep, 1, &short_iov_, cookie, default_flags) ==
               DAT_SUCCESS;
    }
    [[gnu::noinline]] bool post_recv() {
        return table_->ep_post_recv_func(responder_.ep, 1, &short_iov_, cookie, default_flags) ==
               DAT_SUCCESS;
    }
    [[gnu::noinline]] bool post_rdma_write() {
        return table_->ep_post_rdma_write_func(requester_.ep, 1, &short_iov_, cookie, &remote_iov_,
                                               default_flags) == DAT_SUCCESS;
    }
    [[gnu::noinline]] bool post_rdma_read() {
        return table_->ep_post_rdma_read_func(requester_.ep, 1, &short_iov_, cookie, &remote_iov_,
                                              default_flags) == DAT_SUCCESS;
    }
    [[gnu::noinline]] bool reap_request() {
        return table_->evd_dequeue_func(requester_.request_evd, &event_) == DAT_SUCCESS;
    }
    [[gnu::noinline]] bool reap_receive() {
        return table_->evd_dequeue_func(responder_.recv_evd, &event_) == DAT_SUCCESS;
    }
    [[gnu::noinline]] bool sync_short() { return sync_rdma_write(short_iov_); }
    [[gnu::noinline]] bool sync_long() { return sync_rdma_write(long_iov_); }
    bool is_success() const {
        return event_.event_number == DAT_DTO_COMPLETION_EVENT &&
               event_.event_data.dto_completion_event_data.status == DAT_DTO_SUCCESS;
    }

  private:
    static constexpr DAT_DTO_COOKIE cookie{.as_64 = 3};
    static constexpr DAT_COMPLETION_FLAGS default_flags = DAT_COMPLETION_DEFAULT_FLAG;
    static constexpr DAT_TIMEOUT timeout_us = 10000000;
    struct endpoint {
        DAT_EVD_HANDLE request_evd, recv_evd, connect_evd;
        DAT_EP_HANDLE ep;
    };

    bool sync_rdma_write(const typename version::lmr_triplet &iov) const {
        return table_->lmr_sync_rdma_write_func(ia_, &iov, 1) == DAT_SUCCESS;
    }
    DAT_EVD_HANDLE create_evd(DAT_EVD_FLAGS flags) const {
        DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
        check_dat(table_->evd_create_func(ia_, 64, DAT_HANDLE_NULL, flags, &evd), "make an EVD");
        return evd;
    }
    endpoint create_endpoint() const {
        endpoint created{create_evd(DAT_EVD_DTO_FLAG), create_evd(DAT_EVD_DTO_FLAG),
                         create_evd(DAT_EVD_CONNECTION_FLAG), DAT_HANDLE_NULL};
        check_dat(table_->ep_create_func(ia_, pz_, created.recv_evd, created.request_evd,
                                         created.connect_evd, nullptr, &created.ep),
                  "make an EP");
        return created;
    }
    typename version::event wait_event(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER expected) const {
        typename version::event event;
        DAT_COUNT nmore = 0;
        check_dat(table_->evd_wait_func(evd, timeout_us, 1, &event, &nmore), "wait for an event");
        if (event.event_number != expected)
            throw failure(concat("event 0x", std::hex, event.event_number, ", not 0x", expected));
        return event;
    }
    void connect() const {
        typename version::ia_attr ia_attr;
        check_dat(
            table_->ia_query_func(ia_, nullptr, DAT_IA_FIELD_IA_ADDRESS_PTR, &ia_attr, 0, nullptr),
            "query the IA");
        const DAT_EVD_HANDLE cr_evd = create_evd(DAT_EVD_CR_FLAG);
        DAT_CONN_QUAL conn_qual = 0;
        DAT_PSP_HANDLE psp;
        check_dat(table_->psp_create_any_func(ia_, &conn_qual, cr_evd, DAT_PSP_CONSUMER_FLAG, &psp),
                  "listen");
        check_dat(table_->ep_connect_func(requester_.ep, ia_attr.ia_address_ptr, conn_qual,
                                          timeout_us, 0, nullptr, DAT_QOS_BEST_EFFORT,
                                          DAT_CONNECT_DEFAULT_FLAG),
                  "connect");
        const auto cr_event = wait_event(cr_evd, DAT_CONNECTION_REQUEST_EVENT);
        check_dat(table_->cr_accept_func(cr_event.event_data.cr_arrival_event_data.cr_handle,
                                         responder_.ep, 0, nullptr),
                  "accept");
        wait_event(requester_.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        wait_event(responder_.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    }

    alignas(4096) std::array<std::byte, 8192> memory_{};
    const typename version::table *table_ = nullptr;
    DAT_IA_HANDLE ia_ = DAT_HANDLE_NULL;
    DAT_PZ_HANDLE pz_ = DAT_HANDLE_NULL;
    typename version::lmr_triplet short_iov_{}, long_iov_{};
    typename version::rmr_triplet remote_iov_{};
    endpoint requester_{}, responder_{};
    typename version::event event_{};
};

/// Throws an error on which the program ends with status 75 if a call has not succeeded, such as a
/// reap without a completion: costs.py tries again with longer pauses.
void require(bool succeeded, const char *operation) {
    if (!succeeded)
        throw failure(concat(operation, ": try again"));
}

/// A message, a Write and a Read, posted and reaped, and two syncs. measure counts one kind of the
/// calls.
template <class version>
void run_round(loopback<version> &loop, const meter<call_kind> &measure) {
    const auto reap_request = [&] {
        pause_for_completions();
        require(measure(call_kind::reap, [&] { return loop.reap_request(); }) && loop.is_success(),
                "reap");
    };
    require(measure(call_kind::receive, [&] { return loop.post_recv(); }), "post a receive");
    require(measure(call_kind::send, [&] { return loop.post_send(); }), "post a message");
    reap_request();
    require(loop.reap_receive() && loop.is_success(), "reap the message");
    require(measure(call_kind::write, [&] { return loop.post_rdma_write(); }), "post a write");
    reap_request();
    require(measure(call_kind::read, [&] { return loop.post_rdma_read(); }), "post a read");
    reap_request();
    require(measure(call_kind::sync_short, [&] { return loop.sync_short(); }), "sync");
    require(measure(call_kind::sync_long, [&] { return loop.sync_long(); }), "sync");
}

// Makes the calls of each kind in num_rounds rounds. Each kind has a part of callgrind's output by
// the DAT version and its name; prints "CALLS REQUESTS_OF_A_CALL NAME" for dat1_costs.py.
template <class version>
void count_calls(loopback<version> &loop) {
    for (int warmup = 0; warmup < num_warmups; ++warmup)
        run_round(loop, meter(call_kind::none));
    for (const auto &[kind, name] : counted_kinds) {
        for (int repetition = 0; repetition < num_rounds; ++repetition)
            run_round(loop, meter(kind));
        const std::string account = concat(version::name, " ", name);
        CALLGRIND_DUMP_STATS_AT(account.c_str());
        constexpr int reaps_per_round = 3;
        std::printf("%d 1 %s\n",
                    kind == call_kind::reap ? num_rounds * reaps_per_round : num_rounds,
                    account.c_str());
    }
}

} // namespace

extern "C" {

// The provider finds these by their names.
[[gnu::visibility("default")]] DAT_RETURN dat_registry_add_provider(const DAT_PROVIDER *provider,
                                                                    const DAT_PROVIDER_INFO *) {
    added_provider = provider;
    return DAT_SUCCESS;
}
[[gnu::visibility("default")]] DAT_RETURN dats_get_ia_handle(DAT_IA_HANDLE, DAT_IA_HANDLE *) {
    return DAT_CLASS_ERROR | DAT_INVALID_HANDLE;
}
}

int main(int argc, char **argv) try {
    if (argc != 3)
        throw failure("dat1_posts PROVIDER WORDS");
    void *const provider = dlopen(argv[1], RTLD_NOW);
    if (provider == nullptr)
        throw failure(dlerror());
    auto *const init = reinterpret_cast<void (*)(const DAT_PROVIDER_INFO *, const char *)>(
        dlsym(provider, "dat_provider_init"));
    if (init == nullptr)
        throw failure("no provider");
    {
        loopback<dat2_version> loop(init, argv[2]);
        count_calls(loop);
    }
    loopback<dat1_version> loop(init, argv[2]);
    count_calls(loop);
    return 0;
} catch (const std::exception &error) {
    std::fprintf(stderr, "dat1_posts: %s\n", error.what());
    return std::string_view(error.what()).ends_with("again") ? 75 : 1;
}
