// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Sends that the driver gets later. The program's calls are the interposer's; behind them are a
// driver and a libibverbs of the test (held_posts_driver.hpp).

#include "../cmocka.hpp"
#include "held_posts_driver.hpp"
#include "interposer/observers.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace coherdma::interposer;
using namespace std::chrono_literals;

namespace {

constexpr std::chrono::microseconds LONG_DELAY = 1h, SHORT_DELAY = 20ms;

call_log events;

class delaying_observer : public observer {
  public:
    bool on_open(ibv_context &, int &) override { return true; }
    std::chrono::microseconds delay_of_sends(const object &) override { return delay; }
    void on_post(const request &posted, const ibv_send_wr &) override {
        if (writes_posts)
            events.add("on_post " + std::to_string(posted.wr_id));
    }
    void on_refuse(const request &refused) override {
        events.add("on_refuse " + std::to_string(refused.wr_id));
    }
    std::chrono::microseconds delay = LONG_DELAY;
};
delaying_observer asked;

} // namespace

namespace coherdma::interposer {

const std::vector<observer *> &loaded_observers() noexcept {
    static const std::vector<observer *> observers = {&asked};
    return observers;
}

} // namespace coherdma::interposer

namespace {

// --- The program ---

struct program {
    struct options {
        std::chrono::microseconds delay = LONG_DELAY;
        std::uint32_t depth = 64;
        bool has_thread_domain = false;
        bool is_iwarp = false;
        bool has_wr_functions = false;
        ibv_qp_state state = IBV_QPS_RTS;
    };

    program()
        : program(options{}) {}
    explicit program(const options &chosen) {
        answer = nullptr;
        asked.delay = chosen.delay;
        device.transport_type = chosen.is_iwarp ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
        std::strcpy(device.name, "fake0");
        assert_ptr_equal(ibv_open_device(&device), &context);
        pd = domain = ibv_alloc_pd(&context);
        if (chosen.has_thread_domain) {
            ibv_td td = {.context = &context};
            ibv_parent_domain_init_attr attr = {};
            attr.pd = pd;
            attr.td = &td;
            domain = ibv_alloc_parent_domain(&context, &attr);
        }
        mr = ibv_reg_mr(pd, memory.data(), memory.size(), 0);
        mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
        cq = ibv_create_cq(&context, 100, nullptr, nullptr, 0);
        create_qp(chosen);
        called.take();
        events.take();
        posted_wr_ids.clear();
    }
    ~program() {
        destroy_qp();
        ibv_destroy_cq(cq);
        if (mw != nullptr)
            ibv_dealloc_mw(mw);
        if (mr != nullptr)
            ibv_dereg_mr(mr);
        if (domain != pd)
            ibv_dealloc_pd(domain);
        ibv_dealloc_pd(pd);
        ibv_close_device(&context);
        called.take();
    }
    program(const program &) = delete;
    program &operator=(const program &) = delete;

    void create_qp(const options &chosen) {
        ibv_qp_init_attr_ex attr = {};
        attr.send_cq = attr.recv_cq = cq;
        attr.qp_type = IBV_QPT_RC;
        attr.cap = {.max_send_wr = chosen.depth,
                    .max_recv_wr = 1,
                    .max_send_sge = 2,
                    .max_recv_sge = 1,
                    .max_inline_data = 16};
        attr.pd = domain;
        attr.comp_mask = IBV_QP_INIT_ATTR_PD;
        if (chosen.has_wr_functions) {
            attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
            attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
        }
        qp = ibv_create_qp_ex(&context, &attr);
        assert_non_null(qp);
        set_state(chosen.state);
    }
    void destroy_qp() {
        if (qp != nullptr)
            assert_int_equal(ibv_destroy_qp(std::exchange(qp, nullptr)), 0);
    }
    void set_state(ibv_qp_state state) {
        ibv_qp_attr attr = {};
        attr.qp_state = state;
        assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
    }

    ibv_send_wr make_wr(std::uint64_t number) {
        sge = {.addr = reinterpret_cast<std::uintptr_t>(memory.data()), .length = 8, .lkey = 1};
        ibv_send_wr wr = {};
        wr.wr_id = number;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        wr.opcode = IBV_WR_RDMA_WRITE;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.wr.rdma.remote_addr = number;
        return wr;
    }
    int post(std::uint64_t number) {
        ibv_send_wr wr = make_wr(number), *bad_wr = nullptr;
        const int error = ibv_post_send(qp, &wr, &bad_wr);
        assert_true(error == 0 || bad_wr == &wr);
        return error;
    }

    std::array<char, 64> memory{};
    ibv_sge sge = {};
    ibv_pd *pd = nullptr, *domain = nullptr;
    ibv_mr *mr = nullptr;
    ibv_mw *mw = nullptr;
    ibv_cq *cq = nullptr;
    ibv_qp *qp = nullptr;
};

using lines = std::vector<std::string>;
void expect(const lines &actual, const lines &expected) {
    if (actual == expected)
        return;
    for (const std::string &line : actual)
        print_error("is: %s\n", line.c_str());
    fail();
}
bool wait_for(const std::function<bool()> &is_true) {
    for (int i = 0; i < 10000 && !is_true(); ++i)
        std::this_thread::sleep_for(1ms);
    return is_true();
}

// --- Cases ---

void driver_gets_sends_after_the_delay_and_in_order(void **) {
    program prog({.delay = SHORT_DELAY});
    const auto start = std::chrono::steady_clock::now();
    for (std::uint64_t i = 0; i < 5; ++i)
        assert_int_equal(prog.post(i), 0);
    expect(events.take(), {"on_post 0", "on_post 1", "on_post 2", "on_post 3", "on_post 4"});
    assert_true(wait_for([] { return called.size() == 5; }));
    assert_true(std::chrono::steady_clock::now() - start >= SHORT_DELAY);
    expect(called.take(), {"post 0 8", "post 1 8", "post 2 8", "post 3 8", "post 4 8"});
    assert_false(pthread_equal(posting_thread, pthread_self()));
    // The thread sleeps until the next post is due.
    assert_int_equal(prog.post(5), 0);
    assert_true(wait_for([] { return called.size() == 1; }));
}

void list_is_one_call_of_the_driver(void **) {
    program prog;
    ibv_send_wr first = prog.make_wr(1), second = prog.make_wr(2), *bad_wr = &second;
    first.next = &second;
    assert_int_equal(ibv_post_send(prog.qp, &first, &bad_wr), 0);
    assert_ptr_equal(bad_wr, &second); // as the driver leaves it
    first = second = {};
    prog.sge = {};
    prog.set_state(IBV_QPS_RTS);
    expect(called.take(), {"post 1 8", "post 2 8", "modify_qp"});
}

void completion_has_the_wr_id_of_its_request(void **) {
    program prog({.delay = SHORT_DELAY});
    assert_int_equal(prog.post(7), 0);
    assert_true(wait_for([] { return called.size() == 1; }));
    completions.push_back({});
    completions.back().wr_id = posted_wr_ids.at(0);
    assert_true(posted_wr_ids[0] != 7);
    ibv_wc wc;
    assert_int_equal(ibv_poll_cq(prog.cq, 1, &wc), 1);
    assert_int_equal(wc.wr_id, 7);
}

/// The call comes after what was held before.
void expect_release(const char *call, const std::function<void(program &)> &make_call,
                    const program::options &options = {}) {
    program prog(options);
    assert_int_equal(prog.post(1), 0);
    assert_int_equal(prog.post(2), 0);
    expect(called.take(), {});
    make_call(prog);
    expect(called.take(), {"post 1 8", "post 2 8", call});
    assert_true(pthread_equal(posting_thread, pthread_self()));
}

void modify_qp_releases(void **) {
    expect_release("modify_qp", [](program &prog) { prog.set_state(IBV_QPS_ERR); });
}
void destroy_qp_releases(void **) {
    expect_release("destroy_qp", [](program &prog) { prog.destroy_qp(); });
}
void bind_mw_releases(void **) {
    expect_release("bind_mw", [](program &prog) {
        ibv_mw_bind bind = {};
        prog.mw->pd = prog.pd;
        prog.mr->pd = prog.pd;
        bind.bind_info.mr = prog.mr;
        assert_int_equal(prog.qp->context->ops.bind_mw(prog.qp, prog.mw, &bind), 0);
    });
}
void dereg_mr_releases(void **) {
    expect_release("dereg_mr", [](program &prog) {
        assert_int_equal(ibv_dereg_mr(std::exchange(prog.mr, nullptr)), 0);
    });
}
void rereg_mr_releases(void **) {
    expect_release("rereg_mr", [](program &prog) {
        assert_int_equal(ibv_rereg_mr(prog.mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0),
                         0);
    });
}
void dealloc_mw_releases(void **) {
    expect_release("dealloc_mw", [](program &prog) {
        assert_int_equal(ibv_dealloc_mw(std::exchange(prog.mw, nullptr)), 0);
    });
}
void destroy_ah_releases(void **) {
    expect_release("destroy_ah", [](program &prog) {
        ibv_ah_attr attr = {};
        assert_int_equal(ibv_destroy_ah(ibv_create_ah(prog.pd, &attr)), 0);
    });
}
void close_device_releases(void **) {
    expect_release("close_device", [](program &) {
        assert_int_equal(ibv_close_device(&context), 0);
        assert_ptr_equal(ibv_open_device(&device), &context); // for the objects' end
    });
}
void post_that_is_not_held_releases(void **) {
    expect_release("post 3 8", [](program &prog) {
        ibv_send_wr wr = prog.make_wr(3), *bad_wr;
        wr.opcode = IBV_WR_LOCAL_INV;
        assert_int_equal(ibv_post_send(prog.qp, &wr, &bad_wr), 0);
    });
}
void polls_release_nothing(void **) {
    program prog;
    assert_int_equal(prog.post(1), 0);
    ibv_wc wc;
    assert_int_equal(ibv_poll_cq(prog.cq, 1, &wc), 0);
    expect(called.take(), {});
}

void posts_between_wr_start_and_wr_complete_are_not_held(void **) {
    program prog({.has_wr_functions = true});
    for (const bool is_complete : {true, false}) {
        ibv_qp_ex *const qp_ex = &to_fake(prog.qp).verbs;
        assert_int_equal(prog.post(1), 0);
        ibv_wr_start(qp_ex);
        // Another thread's, which waits for the driver's lock.
        std::thread other([&] { assert_int_equal(prog.post(2), 0); });
        assert_true(wait_for([] { return num_waiting == 1; }));
        expect(called.take(), {"post 1 8", "wr_start"});
        if (is_complete)
            assert_int_equal(ibv_wr_complete(qp_ex), 0);
        else
            ibv_wr_abort(qp_ex);
        other.join();
        expect(called.take(), {is_complete ? "wr_complete" : "wr_abort", "post 2 8"});
        assert_int_equal(prog.post(3), 0);
        expect(called.take(), {});
        prog.set_state(IBV_QPS_RTS);
        expect(called.take(), {"post 3 8", "modify_qp"});
    }
}

void inline_data_are_copied_at_the_post(void **) {
    program prog;
    char data[] = "abcdefgh";
    std::array<ibv_sge, 2> sges = {
        {{.addr = reinterpret_cast<std::uintptr_t>(data), .length = 3, .lkey = 0},
         {.addr = reinterpret_cast<std::uintptr_t>(data + 4), .length = 2, .lkey = 0}}};
    ibv_send_wr wr = prog.make_wr(1), *bad_wr;
    wr.send_flags |= IBV_SEND_INLINE;
    wr.sg_list = sges.data();
    wr.num_sge = 2;
    assert_int_equal(ibv_post_send(prog.qp, &wr, &bad_wr), 0);
    std::memset(data, 'x', sizeof data);
    sges = {};
    prog.destroy_qp();
    expect(called.take(), {"post 1 abc ef", "destroy_qp"});
}

/// The driver has the WR when the post returns.
void expect_direct(const program::options &options,
                   const std::function<void(ibv_send_wr &)> &change = {}) {
    program prog(options);
    ibv_send_wr wr = prog.make_wr(8), *bad_wr;
    std::array<ibv_sge, 3> sges = {prog.sge, prog.sge, prog.sge};
    wr.sg_list = sges.data();
    if (change)
        change(wr);
    called.take();
    assert_int_equal(ibv_post_send(prog.qp, &wr, &bad_wr), 0);
    assert_int_equal(called.size(), 1);
    assert_true(pthread_equal(posting_thread, pthread_self()));
}
void what_a_driver_may_refuse_is_not_held(void **) {
    expect_direct({.has_thread_domain = true});
    expect_direct({.delay = 0us});
    for (const ibv_qp_state state :
         {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_SQD, IBV_QPS_SQE, IBV_QPS_ERR})
        expect_direct({.state = state});
    expect_direct({}, [](ibv_send_wr &wr) { wr.num_sge = 3; });
    expect_direct({}, [](ibv_send_wr &wr) { wr.opcode = IBV_WR_DRIVER1; });
    expect_direct({}, [](ibv_send_wr &wr) { wr.send_flags |= 1U << 20; });
    expect_direct({}, [](ibv_send_wr &wr) {
        wr.send_flags |= IBV_SEND_INLINE;
        wr.num_sge = 2;
        wr.sg_list[0].length = 9; // of 16 bytes that are inline
    });
    expect_direct({}, [](ibv_send_wr &wr) {
        wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
        wr.wr.atomic.remote_addr = 12;
    });
    // Not of one WR, and not of those before it.
    program prog;
    ibv_send_wr first = prog.make_wr(1), second = prog.make_wr(2), *bad_wr;
    first.next = &second;
    second.opcode = IBV_WR_BIND_MW;
    assert_int_equal(ibv_post_send(prog.qp, &first, &bad_wr), 0);
    expect(called.take(), {"post 1 8", "post 2 8"});
}
void state_of_a_qp_of_iwarp_is_the_kernels(void **) {
    kernel_state = IBV_QPS_ERR;
    expect_direct({.is_iwarp = true});
    kernel_state = IBV_QPS_RTS; // and the program has not moved it there
    expect_release("destroy_qp", [](program &prog) { prog.destroy_qp(); },
                   {.is_iwarp = true, .state = IBV_QPS_INIT});
}

void full_queue_is_refused_at_the_post(void **) {
    program prog({.depth = 2});
    answer = [](const ibv_send_wr &) {
        return posted_wr_ids.size() == 2 ? ENOMEM : 0;
    };
    assert_int_equal(prog.post(1), 0);
    assert_int_equal(prog.post(2), 0);
    expect(called.take(), {});
    assert_int_equal(prog.post(3), ENOMEM);
    expect(called.take(), {"post 1 8", "post 2 8"});
    expect(events.take(), {"on_post 1", "on_post 2", "on_refuse 3"});
    // A completion makes room.
    completions.push_back({});
    completions.back().wr_id = posted_wr_ids.front();
    posted_wr_ids.erase(posted_wr_ids.begin());
    ibv_wc wc;
    assert_int_equal(ibv_poll_cq(prog.cq, 1, &wc), 1);
    assert_int_equal(prog.post(4), 0);
    expect(called.take(), {});
}

/// What the function prints to stderr.
std::string printed_by(const std::function<void()> &function) {
    std::fflush(stderr);
    const int saved = dup(STDERR_FILENO);
    std::FILE *const file = std::tmpfile();
    dup2(fileno(file), STDERR_FILENO);
    function();
    std::fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    std::rewind(file);
    std::string text(4096, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), file));
    std::fclose(file);
    return text;
}

void refusal_of_a_held_send_is_said_and_ends_its_request(void **) {
    for (const bool is_success : {false, true}) {
        program prog({.depth = 3});
        returns_success = is_success;
        answer = [](const ibv_send_wr &wr) {
            return wr.wr.rdma.remote_addr == 2 ? ENOMEM : 0;
        };
        ibv_send_wr wrs[] = {prog.make_wr(1), prog.make_wr(2), prog.make_wr(3)}, *bad_wr;
        wrs[0].next = &wrs[1];
        wrs[1].next = &wrs[2];
        assert_int_equal(ibv_post_send(prog.qp, wrs, &bad_wr), 0);
        events.take();
        const std::string text = printed_by([&] { prog.set_state(IBV_QPS_RTS); });
        returns_success = false;
        expect(events.take(), {"on_refuse 2", "on_refuse 3"});
        expect(called.take(), {"post 1 8", "modify_qp"});
        if (is_success) // it is said once
            assert_string_equal(text.c_str(), "");
        else
            assert_string_equal(
                text.c_str(),
                "coherdma: fake0: the driver refuses sends of QP 17 that were held back: Cannot "
                "allocate memory. The program's ibv_post_send() has returned 0, and they have no "
                "completion\n");
        // There is room for two.
        assert_int_equal(prog.post(4), 0);
        assert_int_equal(prog.post(5), 0);
        expect(called.take(), {});
    }
}

/// What a thread posts is in its order, on whatever thread it is released.
void threads_post_to_one_qp(void **) {
    constexpr std::uint64_t num_threads = 4, num_posts = 2000;
    program prog({.delay = 30us, .depth = num_threads * num_posts});
    writes_posts = false;
    const auto post_all = [&](std::uint64_t thread) {
        for (std::uint64_t i = 0; i < num_posts; ++i) {
            ibv_sge sge = {.addr = reinterpret_cast<std::uintptr_t>(prog.memory.data()),
                           .length = 8,
                           .lkey = 1};
            ibv_send_wr wr = {}, *bad_wr;
            wr.sg_list = &sge;
            wr.num_sge = 1;
            wr.opcode = i % 7 == 6 ? IBV_WR_LOCAL_INV : IBV_WR_RDMA_WRITE; // one is not held
            wr.wr.rdma.remote_addr = thread << 32 | i;
            assert_int_equal(ibv_post_send(prog.qp, &wr, &bad_wr), 0);
            if (i % 10 == 5)
                ibv_rereg_mr(prog.mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0);
        }
    };
    std::vector<std::thread> threads;
    for (std::uint64_t thread = 0; thread < num_threads; ++thread)
        threads.emplace_back(post_all, thread);
    for (std::thread &thread : threads)
        thread.join();
    prog.set_state(IBV_QPS_RTS);
    writes_posts = true;
    const std::vector<std::uint64_t> &order = to_fake(prog.qp).order;
    assert_int_equal(order.size(), num_threads * num_posts);
    std::array<std::uint64_t, num_threads> next{};
    for (const std::uint64_t number : order)
        assert_int_equal(number & 0xffffffff, next[number >> 32]++);
}

void qp_is_destroyed_when_its_posts_are_due(void **) {
    constexpr int num_rounds = 300;
    program prog({.delay = 100us});
    for (int i = 0; i < num_rounds; ++i) {
        assert_int_equal(prog.post(1), 0);
        assert_int_equal(prog.post(2), 0);
        std::this_thread::sleep_for(std::chrono::microseconds(i));
        prog.destroy_qp();
        expect(called.take(), {"post 1 8", "post 2 8", "destroy_qp"});
        prog.create_qp({});
        called.take();
    }
}

int wait_for_child(pid_t child) {
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

void fork_releases_and_the_child_holds_nothing(void **) {
    program prog;
    assert_int_equal(prog.post(1), 0);
    const pid_t child = fork();
    if (child == 0) {
        // Of the parent, the driver has it. What the child posts to an inherited QP is not held.
        const lines before = called.take();
        ibv_send_wr wr = prog.make_wr(2), *bad_wr;
        const bool is_posted = ibv_post_send(prog.qp, &wr, &bad_wr) == 0;
        const bool is_right = before == lines{"post 1 8"} && is_posted && called.size() == 1 &&
                              ibv_destroy_qp(prog.qp) == 0;
        // A QP of the child has a thread of the child.
        program of_child({.delay = SHORT_DELAY});
        const bool is_held = of_child.post(3) == 0 && called.size() == 0;
        _exit(is_right && is_held && wait_for([] { return called.size() == 1; }) ? 0 : 1);
    }
    assert_int_equal(wait_for_child(child), 0);
    expect(called.take(), {"post 1 8"});
    // The parent goes on.
    assert_int_equal(prog.post(4), 0);
    expect(called.take(), {});
    prog.destroy_qp();
    asked.delay = SHORT_DELAY;
    prog.create_qp({});
    called.take();
    assert_int_equal(prog.post(5), 0);
    assert_true(wait_for([] { return called.size() == 1; }));
    expect(called.take(), {"post 5 8"});
}

/// No thread of the interposer has a lock of the driver when the child begins.
void fork_at_any_moment(void **) {
    constexpr int num_rounds = 100;
    program prog({.delay = 50us, .depth = 10000});
    for (int i = 0; i < num_rounds; ++i) {
        for (std::uint64_t number = 0; number < 20; ++number)
            assert_int_equal(prog.post(number), 0);
        std::this_thread::sleep_for(std::chrono::microseconds(i));
        const pid_t child = fork();
        if (child == 0)
            _exit(to_fake(prog.qp).mutex.try_lock() && called.mutex.try_lock() ? 0 : 1);
        assert_int_equal(wait_for_child(child), 0);
        assert_int_equal(called.take().size(), 20);
    }
}

void exit_releases(void **) {
    void *const shared = mmap(nullptr, sizeof *num_shared_posts, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    num_shared_posts = new (shared) std::atomic<unsigned>(0);
    const pid_t child = fork();
    if (child == 0) {
        static program *const prog = new program;
        // After the interposer's, as it is registered earlier.
        std::atexit([] {
            if (*num_shared_posts != 2)
                _exit(3);
            delete prog;
        });
        static_cast<void>(prog->post(1));
        static_cast<void>(prog->post(2));
        if (*num_shared_posts != 0)
            _exit(1);
        // Before the interposer's, as it is registered later: it still holds.
        std::atexit([] {
            if (*num_shared_posts != 0)
                _exit(2);
        });
        std::exit(0);
    }
    const int status = wait_for_child(child);
    const unsigned num_posts = *num_shared_posts;
    num_shared_posts = nullptr;
    munmap(shared, sizeof *num_shared_posts);
    assert_int_equal(status, 0);
    assert_int_equal(num_posts, 2);
}

} // namespace

/// A child of fork() starts a thread of its own, which TSan allows only then.
extern "C" const char *__tsan_default_options() {
    return "die_after_fork=0";
}

int main() {
    // As observers.cpp.
    pthread_atfork(nullptr, nullptr, [] {
        current_generation.fetch_add(1, std::memory_order_relaxed);
        request_queue::reset_after_fork();
    });
    const CMUnitTest tests[] = {
        cmocka_unit_test(exit_releases), // first: nothing was held, and no handler is registered
        cmocka_unit_test(driver_gets_sends_after_the_delay_and_in_order),
        cmocka_unit_test(list_is_one_call_of_the_driver),
        cmocka_unit_test(completion_has_the_wr_id_of_its_request),
        cmocka_unit_test(modify_qp_releases),
        cmocka_unit_test(destroy_qp_releases),
        cmocka_unit_test(bind_mw_releases),
        cmocka_unit_test(dereg_mr_releases),
        cmocka_unit_test(rereg_mr_releases),
        cmocka_unit_test(dealloc_mw_releases),
        cmocka_unit_test(destroy_ah_releases),
        cmocka_unit_test(close_device_releases),
        cmocka_unit_test(post_that_is_not_held_releases),
        cmocka_unit_test(polls_release_nothing),
        cmocka_unit_test(posts_between_wr_start_and_wr_complete_are_not_held),
        cmocka_unit_test(inline_data_are_copied_at_the_post),
        cmocka_unit_test(what_a_driver_may_refuse_is_not_held),
        cmocka_unit_test(state_of_a_qp_of_iwarp_is_the_kernels),
        cmocka_unit_test(full_queue_is_refused_at_the_post),
        cmocka_unit_test(refusal_of_a_held_send_is_said_and_ends_its_request),
        cmocka_unit_test(threads_post_to_one_qp),
        cmocka_unit_test(qp_is_destroyed_when_its_posts_are_due),
        cmocka_unit_test(fork_releases_and_the_child_holds_nothing),
        cmocka_unit_test(fork_at_any_moment),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
