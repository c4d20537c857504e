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
using verbs_test::failure, verbs_test::text;

const DAT_PROVIDER *added = nullptr; ///< the last table

enum class call { none, send, receive, write, read, reap, sync_short, sync_long };
constexpr std::pair<call, const char *> calls[] = {
    {call::send, "post send"},
    {call::receive, "post receive"},
    {call::write, "post write"},
    {call::read, "post read"},
    {call::reap, "reap"},
    {call::sync_short, "sync 8 bytes"},
    {call::sync_long, "sync 8192 bytes"},
};
constexpr int rounds = 16;
constexpr DAT_UINT32 length = 8;

void need(DAT_RETURN status, const char *what) {
    if (status != DAT_SUCCESS)
        throw failure(text(what, ": DAT_RETURN 0x", std::hex, status));
}

/// What differs between the versions, and a name for what does not.
struct of_2 {
    static constexpr DAT_UINT32 major = 2, minor = 0;
    static constexpr const char *name = "2.0";
    using table = DAT_PROVIDER;
    using segment = DAT_LMR_TRIPLET;
    using target = DAT_RMR_TRIPLET;
    using event = DAT_EVENT;
    using attributes = DAT_IA_ATTR;
    static DAT_RETURN open(const table &functions, char *ia_name, DAT_EVD_HANDLE *async,
                           DAT_IA_HANDLE *ia) {
        return functions.ia_open_func(ia_name, 8, async, ia);
    }
    static DAT_RETURN enroll(const table &functions, DAT_IA_HANDLE ia, DAT_REGION_DESCRIPTION where,
                             DAT_VLEN size, DAT_PZ_HANDLE pz, DAT_LMR_HANDLE *lmr,
                             DAT_LMR_CONTEXT *lkey, DAT_RMR_CONTEXT *rkey) {
        return functions.lmr_create_func(ia, DAT_MEM_TYPE_VIRTUAL, where, size, pz,
                                         DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, lmr, lkey, rkey,
                                         nullptr, nullptr);
    }
    static segment piece(DAT_VADDR addr, DAT_LMR_CONTEXT key) { return {addr, length, key}; }
    static target place(DAT_VADDR addr, DAT_RMR_CONTEXT key) { return {addr, length, key}; }
};

struct of_1 {
    static constexpr DAT_UINT32 major = 1, minor = 2;
    static constexpr const char *name = "1.2";
    using table = dat1::provider;
    using segment = dat1::lmr_triplet;
    using target = dat1::rmr_triplet;
    using event = dat1::event;
    using attributes = dat1::ia_attr;
    static DAT_RETURN open(const table &functions, char *ia_name, DAT_EVD_HANDLE *async,
                           DAT_IA_HANDLE *ia) {
        return functions.ia_open_func(ia_name, 8, async, ia, DAT_FALSE);
    }
    static DAT_RETURN enroll(const table &functions, DAT_IA_HANDLE ia, DAT_REGION_DESCRIPTION where,
                             DAT_VLEN size, DAT_PZ_HANDLE pz, DAT_LMR_HANDLE *lmr,
                             DAT_LMR_CONTEXT *lkey, DAT_RMR_CONTEXT *rkey) {
        return functions.lmr_create_func(ia, DAT_MEM_TYPE_VIRTUAL, where, size, pz,
                                         DAT_MEM_PRIV_ALL_FLAG, lmr, lkey, rkey, nullptr, nullptr);
    }
    static segment piece(DAT_VADDR addr, DAT_LMR_CONTEXT key) { return {key, 0, addr, length}; }
    static target place(DAT_VADDR addr, DAT_RMR_CONTEXT key) { return {key, 0, addr, length}; }
};

/// Two endpoints of one IA, connected. All of it ends with the IA.
template <class version>
class talk {
  public:
    talk(void (*init)(const DAT_PROVIDER_INFO *, const char *), const char *words) {
        DAT_PROVIDER_INFO info = {};
        std::strcpy(info.ia_name, "lab");
        info.dapl_version_major = version::major;
        info.dapl_version_minor = version::minor;
        added = nullptr;
        init(&info, words);
        if (added == nullptr)
            throw failure(text("the provider has added nothing for DAT ", version::name));
        by_ = reinterpret_cast<const typename version::table *>(added);
        DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
        need(version::open(*by_, info.ia_name, &async, &ia_), "open the IA");
        need(by_->pz_create_func(ia_, &zone_), "make a PZ");
        DAT_REGION_DESCRIPTION where;
        where.for_va = memory_.data();
        DAT_LMR_HANDLE lmr;
        DAT_LMR_CONTEXT lkey;
        DAT_RMR_CONTEXT rkey;
        need(version::enroll(*by_, ia_, where, memory_.size(), zone_, &lmr, &lkey, &rkey),
             "register memory");
        const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
        piece_ = version::piece(address, lkey);
        target_ = version::place(address + memory_.size() / 2, rkey);
        all_ = piece_;
        all_.segment_length = sizeof memory_;
        from_ = make_end();
        to_ = make_end();
        if (!receive())
            throw failure("post the first message's receive");
        connect();
        if (!send())
            throw failure("post the first message");
        next(from_.sent, DAT_DTO_COMPLETION_EVENT);
        next(to_.received, DAT_DTO_COMPLETION_EVENT);
    }
    ~talk() { by_->ia_close_func(ia_, DAT_CLOSE_ABRUPT_FLAG); }
    talk(const talk &) = delete;
    talk &operator=(const talk &) = delete;

    [[gnu::noinline]] bool send() {
        return by_->ep_post_send_func(from_.ep, 1, &piece_, number, plain) == DAT_SUCCESS;
    }
    [[gnu::noinline]] bool receive() {
        return by_->ep_post_recv_func(to_.ep, 1, &piece_, number, plain) == DAT_SUCCESS;
    }
    [[gnu::noinline]] bool write() {
        return by_->ep_post_rdma_write_func(from_.ep, 1, &piece_, number, &target_, plain) ==
               DAT_SUCCESS;
    }
    [[gnu::noinline]] bool read() {
        return by_->ep_post_rdma_read_func(from_.ep, 1, &piece_, number, &target_, plain) ==
               DAT_SUCCESS;
    }
    [[gnu::noinline]] bool reap() {
        return by_->evd_dequeue_func(from_.sent, &last_) == DAT_SUCCESS;
    }
    [[gnu::noinline]] bool reap_receive() {
        return by_->evd_dequeue_func(to_.received, &last_) == DAT_SUCCESS;
    }
    [[gnu::noinline]] bool sync_short() { return sync(piece_); }
    [[gnu::noinline]] bool sync_long() { return sync(all_); }
    bool good() const {
        return last_.event_number == DAT_DTO_COMPLETION_EVENT &&
               last_.event_data.dto_completion_event_data.status == DAT_DTO_SUCCESS;
    }

  private:
    static constexpr DAT_DTO_COOKIE number{.as_64 = 3};
    static constexpr DAT_COMPLETION_FLAGS plain = DAT_COMPLETION_DEFAULT_FLAG;
    static constexpr DAT_TIMEOUT patience = 10000000;
    struct end {
        DAT_EVD_HANDLE sent, received, connection;
        DAT_EP_HANDLE ep;
    };

    bool sync(const typename version::segment &what) const {
        return by_->lmr_sync_rdma_write_func(ia_, &what, 1) == DAT_SUCCESS;
    }
    DAT_EVD_HANDLE events(DAT_EVD_FLAGS flags) const {
        DAT_EVD_HANDLE made = DAT_HANDLE_NULL;
        need(by_->evd_create_func(ia_, 64, DAT_HANDLE_NULL, flags, &made), "make an EVD");
        return made;
    }
    end make_end() const {
        end made{events(DAT_EVD_DTO_FLAG), events(DAT_EVD_DTO_FLAG),
                 events(DAT_EVD_CONNECTION_FLAG), DAT_HANDLE_NULL};
        need(by_->ep_create_func(ia_, zone_, made.received, made.sent, made.connection, nullptr,
                                 &made.ep),
             "make an EP");
        return made;
    }
    typename version::event next(DAT_EVD_HANDLE evd, DAT_EVENT_NUMBER wanted) const {
        typename version::event event;
        DAT_COUNT more = 0;
        need(by_->evd_wait_func(evd, patience, 1, &event, &more), "wait for an event");
        if (event.event_number != wanted)
            throw failure(text("event 0x", std::hex, event.event_number, ", not 0x", wanted));
        return event;
    }
    void connect() const {
        typename version::attributes attributes;
        need(by_->ia_query_func(ia_, nullptr, DAT_IA_FIELD_IA_ADDRESS_PTR, &attributes, 0, nullptr),
             "query the IA");
        const DAT_EVD_HANDLE requests = events(DAT_EVD_CR_FLAG);
        DAT_CONN_QUAL port = 0;
        DAT_PSP_HANDLE listener;
        need(by_->psp_create_any_func(ia_, &port, requests, DAT_PSP_CONSUMER_FLAG, &listener),
             "listen");
        need(by_->ep_connect_func(from_.ep, attributes.ia_address_ptr, port, patience, 0, nullptr,
                                  DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
             "connect");
        const auto request = next(requests, DAT_CONNECTION_REQUEST_EVENT);
        need(by_->cr_accept_func(request.event_data.cr_arrival_event_data.cr_handle, to_.ep, 0,
                                 nullptr),
             "accept");
        next(from_.connection, DAT_CONNECTION_EVENT_ESTABLISHED);
        next(to_.connection, DAT_CONNECTION_EVENT_ESTABLISHED);
    }

    alignas(4096) std::array<std::byte, 8192> memory_{};
    const typename version::table *by_ = nullptr;
    DAT_IA_HANDLE ia_ = DAT_HANDLE_NULL;
    DAT_PZ_HANDLE zone_ = DAT_HANDLE_NULL;
    typename version::segment piece_{}, all_{};
    typename version::target target_{};
    end from_{}, to_{};
    typename version::event last_{};
};

void done(bool is, const char *what) {
    if (!is)
        throw failure(text(what, ": try again"));
}

template <class version>
void round(talk<version> &over, const meter<call> &count) {
    const auto reap = [&] {
        pause_for_completions();
        done(count(call::reap, [&] { return over.reap(); }) && over.good(), "reap");
    };
    done(count(call::receive, [&] { return over.receive(); }), "post a receive");
    done(count(call::send, [&] { return over.send(); }), "post a message");
    reap();
    done(over.reap_receive() && over.good(), "reap the message");
    done(count(call::write, [&] { return over.write(); }), "post a write");
    reap();
    done(count(call::read, [&] { return over.read(); }), "post a read");
    reap();
    done(count(call::sync_short, [&] { return over.sync_short(); }), "sync");
    done(count(call::sync_long, [&] { return over.sync_long(); }), "sync");
}

// Says the name of each account, and how many calls it has; the 1 is what posts says there.
template <class version>
void count(talk<version> &over) {
    for (int warm = 0; warm < 2; ++warm)
        round(over, meter(call::none));
    for (const auto &[which, name] : calls) {
        for (int times = 0; times < rounds; ++times)
            round(over, meter(which));
        const std::string account = text(version::name, " ", name);
        CALLGRIND_DUMP_STATS_AT(account.c_str());
        std::printf("%d 1 %s\n", which == call::reap ? rounds * 3 : rounds, account.c_str());
    }
}

} // namespace

extern "C" {

// The provider finds these by their names.
[[gnu::visibility("default")]] DAT_RETURN dat_registry_add_provider(const DAT_PROVIDER *provider,
                                                                    const DAT_PROVIDER_INFO *) {
    added = provider;
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
        talk<of_2> over(init, argv[2]);
        count(over);
    }
    talk<of_1> over(init, argv[2]);
    count(over);
    return 0;
} catch (const std::exception &error) {
    std::fprintf(stderr, "dat1_posts: %s\n", error.what());
    return std::string_view(error.what()).ends_with("again") ? 75 : 1;
}
