// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// One process posts requests on memory of another. Its QP is in the error state: the driver accepts
// requests, and flushes them. A request with too many SGEs is refused.
//
//     peers DEVICE GID_INDEX SCENARIO
//
// Exit status: 0; 2 error; 77 the device cannot do it. The processes write their findings to
// owner.json and requester.json.

#include "../../lib/connected_qps.hpp"

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string_view>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

namespace {

using namespace verbs_test;

constexpr int UNSUPPORTED = 77;
constexpr unsigned TIMEOUT = 240; // seconds: it ends a hang
constexpr std::size_t PAGE = 4096;

struct remote_key {
    std::uint64_t addr;
    std::uint32_t rkey, index;
};

/// What the requester asks the owner to do. Each is answered by a key.
enum class command : char {
    DIRTY,      ///< change the registered memory
    MANY,       ///< register NUM_MRS pages, and change them: so many answers
    BIND,       ///< bind an MW
    LOCAL_INV,  ///< invalidate it by a request of the owner
    REMOTE_INV, ///< by a Send with invalidate
    FREE_MW,
    END_QP, ///< destroy the QP that it is bound to
};
/// More than a process could publish in earlier versions; WHOLE=1: ten thousand.
const std::size_t NUM_MRS = std::getenv("WHOLE") != nullptr ? 10000 : 2000;

void change(endpoint &end) {
    end.memory[0] = static_cast<std::byte>(std::to_integer<unsigned>(end.memory[0]) + 1);
}

/// Waits for a completion, which must be a success, by ibv_start_poll() if the CQ is extended.
void expect_completion(const endpoint &end, bool is_extended) {
    if (!is_extended) {
        end.expect_success("the request");
        return;
    }
    ibv_poll_cq_attr attr{};
    while (const int error = ibv_start_poll(end.cq_ex(), &attr)) {
        check(error == ENOENT ? 0 : error, "poll");
        std::this_thread::sleep_for(milliseconds(1));
    }
    const ibv_wc_status status = end.cq_ex()->status;
    ibv_end_poll(end.cq_ex());
    if (status != IBV_WC_SUCCESS)
        throw failure(ibv_wc_status_str(status));
}

class owner {
  public:
    /// is_extended: the CQ of the QP that has the MW.
    owner(const device &dev, int socket, bool is_extended)
        : socket_(socket)
        , is_extended_(is_extended)
        , sender_(dev)
        , receiver_(dev, {.extended = is_extended})
        , mw_(ibv_alloc_mw(receiver_.pd.get(), IBV_MW_TYPE_2)) {
        connect(sender_, receiver_);
        check(mw_ != nullptr ? 0 : -1, "memory window");
    }
    void run() {
        for (command asked; read(socket_, &asked, sizeof asked) == sizeof asked;)
            run_command(asked);
    }

  private:
    void run_command(command asked) {
        switch (asked) {
        case command::DIRTY:
            change(receiver_);
            return answer(receiver_.memory.data(), receiver_.mr->rkey);
        case command::MANY:
            return register_many();
        case command::BIND: {
            ibv_send_wr wr = receiver_.make_wr(IBV_WR_BIND_MW);
            wr.bind_mw.mw = mw_.get();
            wr.bind_mw.rkey = ibv_inc_rkey(mw_->rkey);
            wr.bind_mw.bind_info = {receiver_.mr.get(),
                                    reinterpret_cast<std::uintptr_t>(receiver_.memory.data()),
                                    receiver_.memory.size(), IBV_ACCESS_REMOTE_READ};
            post(receiver_, wr, is_extended_);
            mw_->rkey = wr.bind_mw.rkey;
            change(receiver_);
            return answer(receiver_.memory.data(), mw_->rkey);
        }
        case command::LOCAL_INV: {
            ibv_send_wr wr = receiver_.make_wr(IBV_WR_LOCAL_INV);
            wr.invalidate_rkey = mw_->rkey;
            post(receiver_, wr, is_extended_);
            break;
        }
        case command::REMOTE_INV: {
            receiver_.post_recv(1);
            ibv_sge sge = sender_.make_sge(8);
            ibv_send_wr wr = sender_.make_wr(IBV_WR_SEND_WITH_INV, sge);
            wr.invalidate_rkey = mw_->rkey;
            post(sender_, wr, false);
            expect_completion(receiver_, is_extended_);
            break;
        }
        case command::FREE_MW:
            mw_.reset();
            break;
        case command::END_QP:
            receiver_.qp.reset();
            break;
        }
        answer(nullptr, 0);
    }
    static void post(const endpoint &end, ibv_send_wr &wr, bool is_extended) {
        ibv_send_wr *bad_wr = nullptr;
        check(ibv_post_send(end.qp.get(), &wr, &bad_wr), "post");
        expect_completion(end, is_extended);
    }
    void register_many() {
        auto *const memory = static_cast<char *>(std::aligned_alloc(PAGE, NUM_MRS * PAGE));
        for (std::uint32_t i = 0; i < NUM_MRS; ++i) {
            many_.emplace_back(check(ibv_reg_mr(receiver_.pd.get(), memory + i * PAGE, PAGE,
                                                static_cast<int>(default_mr_access)),
                                     "register memory"));
            memory[i * PAGE] = 1;
            answer(memory + i * PAGE, many_.back()->rkey);
        }
    }
    void answer(const void *addr, std::uint32_t rkey) const {
        const remote_key key = {reinterpret_cast<std::uintptr_t>(addr), rkey, 0};
        if (write(socket_, &key, sizeof key) != sizeof key)
            throw failure("the requester is gone");
    }

    const int socket_;
    const bool is_extended_;
    endpoint sender_, receiver_;
    unique_handle<ibv_mw, ibv_dealloc_mw> mw_;
    std::vector<unique_handle<ibv_mr, ibv_dereg_mr>> many_;
};

class requester {
  public:
    requester(const device &dev, int socket)
        : socket_(socket)
        , dev_(dev)
        , end_(dev) {
        end_.to_init();
        end_.to_error();
    }
    void run(const std::string &scenario) {
        const auto it = SCENARIOS.find(scenario);
        if (it == SCENARIOS.end())
            throw failure("no such scenario");
        it->second(*this);
    }

  private:
    static const std::map<std::string, void (*)(requester &)> SCENARIOS;
    static void invalidate_remotely(requester &);

    remote_key ask(command asked) const {
        if (write(socket_, &asked, sizeof asked) != sizeof asked)
            throw failure("the owner is gone");
        return next_answer();
    }
    remote_key next_answer() const {
        remote_key key;
        if (recv(socket_, &key, sizeof key, MSG_WAITALL) != sizeof key)
            throw failure("the owner is gone");
        return key;
    }
    remote_key change_own_memory() {
        change(end_);
        return {reinterpret_cast<std::uintptr_t>(end_.memory.data()), end_.mr->rkey, 0};
    }
    /// Posts these requests by one call; the last one is refused if is_refused.
    void post(ibv_wr_opcode opcode, remote_key target, int count, bool is_refused) {
        constexpr int TOO_MANY_SGES = 30;
        std::vector<ibv_sge> sges(TOO_MANY_SGES, end_.make_sge(8));
        for (ibv_sge &sge : sges)
            sge.addr += 1024; // not the line that is changed
        std::vector<ibv_send_wr> wrs(static_cast<std::size_t>(count));
        for (std::size_t i = 0; i < wrs.size(); ++i) {
            const bool is_last = i + 1 == wrs.size();
            wrs[i] = end_.make_wr(opcode);
            wrs[i].sg_list = sges.data();
            wrs[i].num_sge = is_last && is_refused ? TOO_MANY_SGES : 1;
            wrs[i].wr.rdma.remote_addr = target.addr;
            wrs[i].wr.rdma.rkey = target.rkey;
            wrs[i].next = is_last ? nullptr : &wrs[i + 1];
        }
        ibv_send_wr *bad_wr = nullptr;
        const int error = ibv_post_send(end_.qp.get(), wrs.data(), &bad_wr);
        if ((error != 0) != is_refused || (is_refused && bad_wr != &wrs.back()))
            throw failure(concat("the post returned ", error));
        const int num_posted = is_refused ? count - 1 : count;
        for (int i = 0; i < num_posted; ++i)
            if (!end_.wait_completion(trial_timeout()))
                throw failure("no completion");
    }
    void read(remote_key target) { post(IBV_WR_RDMA_READ, target, 1, false); }

    /// By ibv_wr_*, of which the program discards the second one.
    void atomic_write(remote_key target) {
        constexpr endpoint_options OPTIONS = {.extended = true,
                                              .extra_send_ops = IBV_QP_EX_WITH_ATOMIC_WRITE};
        std::unique_ptr<endpoint> end;
        try {
            end = std::make_unique<endpoint>(dev_, OPTIONS);
        } catch (const failure &problem) {
            std::printf("%s\n", problem.what());
            std::exit(UNSUPPORTED);
        }
        end->to_init();
        end->to_error();
        ibv_qp_ex *const qp = ibv_qp_to_qp_ex(end->qp.get());
        const std::uint64_t data = 1;
        for (const bool is_posted : {true, false}) {
            ibv_wr_start(qp);
            qp->wr_flags = IBV_SEND_SIGNALED;
            ibv_wr_atomic_write(qp, target.rkey, target.addr, &data);
            if (is_posted)
                check(ibv_wr_complete(qp), "post");
            else
                ibv_wr_abort(qp);
        }
    }
    void read_all(std::size_t count) {
        read(ask(command::MANY));
        for (std::size_t i = 1; i < count; ++i)
            read(next_answer());
    }

    const int socket_;
    const device &dev_;
    endpoint end_;
};

void requester::invalidate_remotely(requester &self) {
    const remote_key mw = self.ask(command::BIND);
    self.read(mw);
    self.ask(command::REMOTE_INV);
    self.read(mw);
}

/// The number of findings that is expected is in emulation_peers.bats.
const std::map<std::string, void (*)(requester &)> requester::SCENARIOS = {
    {"posted",
     [](requester &self) {
         self.read(self.ask(command::DIRTY));
     }},
    {"refused",
     [](requester &self) {
         self.post(IBV_WR_RDMA_READ, self.ask(command::DIRTY), 1, true);
     }},
    {"refused-write",
     [](requester &self) {
         self.post(IBV_WR_RDMA_WRITE, self.ask(command::DIRTY), 1, true);
     }},
    {"list",
     [](requester &self) {
         self.post(IBV_WR_RDMA_READ, self.ask(command::DIRTY), 3, true);
     }},
    {"own-posted",
     [](requester &self) {
         self.read(self.change_own_memory());
     }},
    {"own-refused",
     [](requester &self) {
         self.post(IBV_WR_RDMA_READ, self.change_own_memory(), 1, true);
     }},
    {"own-list",
     [](requester &self) {
         self.post(IBV_WR_RDMA_READ, self.change_own_memory(), 3, true);
     }},
    {"atomic-write",
     [](requester &self) {
         self.atomic_write(self.ask(command::DIRTY));
     }},
    {"many",
     [](requester &self) {
         self.read_all(NUM_MRS);
     }},
    // An MW gives access until it is invalidated.
    {"local-inv",
     [](requester &self) {
         const remote_key mw = self.ask(command::BIND);
         self.read(mw);
         self.ask(command::LOCAL_INV);
         self.read(mw);
     }},
    {"remote-inv", invalidate_remotely},
    {"remote-inv-extended", invalidate_remotely},
    {"rebind",
     [](requester &self) {
         const remote_key mw = self.ask(command::BIND);
         self.read(mw);
         self.ask(command::LOCAL_INV);
         self.ask(command::BIND);
         self.read(mw);
     }},
    {"free-mw",
     [](requester &self) {
         const remote_key mw = self.ask(command::BIND);
         self.read(mw);
         self.ask(command::FREE_MW);
         self.read(mw);
     }},
    {"end-qp",
     [](requester &self) {
         const remote_key mw = self.ask(command::BIND);
         self.read(mw);
         self.ask(command::END_QP);
         self.read(mw);
     }},
};

} // namespace

int main(int argc, char **argv) try {
    if (argc != 4) {
        std::fputs("usage: peers DEVICE GID_INDEX SCENARIO\n", stderr);
        return 2;
    }
    int sockets[2];
    check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), "socket pair");
    const pid_t child = fork();
    check(child < 0 ? -1 : 0, "fork");
    close(sockets[child == 0 ? 0 : 1]);
    alarm(TIMEOUT);
    setenv("COHERDMA_EMULATE_LOG", child == 0 ? "owner.json" : "requester.json", 1);
    const device dev = open_device(argv[1], std::atoi(argv[2]));
    if (child == 0) {
        const bool is_extended = std::string_view(argv[3]).ends_with("-extended");
        owner(dev, sockets[1], is_extended).run();
        return 0;
    }
    {
        requester self(dev, sockets[0]);
        self.run(argv[3]);
    }
    close(sockets[0]);
    int status = 0;
    check(waitpid(child, &status, 0) == child ? 0 : -1, "wait");
    return status == 0 ? 0 : 2;
} catch (const std::exception &problem) {
    std::fprintf(stderr, "peers: %s\n", problem.what());
    return 2;
}
