// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A process, the survivor, has QPs on one CQ, each connected to a QP of another process and with
// receives posted. That process is killed. Measures how long the survivor takes to poll all
// flushes, and to destroy its QPs; verifies that each receive is flushed once, those of a QP in
// order. Prints a line of JSON.
//
//   peer_death ADDRESS QPS during|after|never
//
// When the survivor polls: from the death on; after its kernel has closed all connections (iWARP
// only); or never, so that it destroys QPs whose flushes are on the CQ.
//
// iWARP: the kernel closes the connections, and so moves the survivor's QPs to ERR. Soft-RoCE: the
// kernel learns of a death by retries, so the survivor posts an RDMA Write to each QP after it, to
// so many QPs at a time that the CQ has room for their completions.

#include "system/lib/cm_event.hpp"
#include "system/lib/modify_qp.hpp"
#include "system/lib/verbs.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <netinet/in.h>
#include <string>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

using namespace verbs_test;
using clock_type = std::chrono::steady_clock;
using nanoseconds = std::chrono::nanoseconds;

constexpr std::size_t recvs_per_qp = 64;
constexpr std::size_t requests_per_qp = recvs_per_qp + 1; // with the Write
constexpr std::uint64_t write_wr_id = ~std::uint64_t{0};
constexpr std::uint8_t min_ack_timeout = 1; // 8 us, which rxe rounds up to one tick
constexpr std::uint8_t port_num = 1;
constexpr int timeout_ms = 60'000;             // only ends a hang
constexpr std::chrono::seconds max_silence(5); // without a completion: they are missing
constexpr std::chrono::milliseconds absence_timeout(200);

enum class poll_time { during, after, never };

/// An RDMA CM id on an event channel of its own, bound to the address.
class cm_port {
  public:
    explicit cm_port(const sockaddr_in &addr)
        : channel_(check(decltype(channel_)(rdma_create_event_channel()),
                         "open the RDMA CM (modprobe rdma_ucm)"))
        , id_(create_id()) {
        sockaddr_in local = addr;
        check(rdma_bind_addr(id_.get(), reinterpret_cast<sockaddr *>(&local)), "bind to it");
    }
    rdma_cm_id *id() const { return id_.get(); }
    ibv_context *context() const { return check(id_->verbs, "find a device for that address"); }
    bool is_iwarp() const { return context()->device->transport_type == IBV_TRANSPORT_IWARP; }
    using unique_id = unique_handle<rdma_cm_id, rdma_destroy_id>;
    unique_id create_id() const {
        rdma_cm_id *id = nullptr;
        check(rdma_create_id(channel_.get(), &id, nullptr, RDMA_PS_TCP), "create a CM id");
        return unique_id(id);
    }
    /// Returns the event's id.
    rdma_cm_id *expect_event(rdma_cm_event_type expected) const {
        return verbs_test::expect_event(*channel_, expected, timeout_ms);
    }

  private:
    unique_handle<rdma_event_channel, rdma_destroy_event_channel> channel_;
    unique_id id_;
};

/// QPs of one process, on one CQ.
struct qp_group {
    using unique_qp = unique_handle<ibv_qp, ibv_destroy_qp>;

    std::array<std::byte, 64> memory{};
    unique_handle<ibv_pd, ibv_dealloc_pd> pd;
    unique_handle<ibv_mr, ibv_dereg_mr> mr;
    unique_handle<ibv_cq, ibv_destroy_cq> cq;
    std::vector<unique_qp> qps;

    qp_group(ibv_context *context, std::size_t num_qps, std::uint32_t max_recv_wr, int num_cqe)
        : pd(check(decltype(pd)(ibv_alloc_pd(context)), "protection domain"))
        , mr(check(decltype(mr)(ibv_reg_mr(pd.get(), memory.data(), memory.size(),
                                           int{IBV_ACCESS_LOCAL_WRITE})),
                   "register memory"))
        , cq(check(decltype(cq)(ibv_create_cq(context, num_cqe, nullptr, nullptr, 0)),
                   "completion queue")) {
        while (qps.size() != num_qps) {
            ibv_qp_init_attr attr{};
            attr.send_cq = attr.recv_cq = cq.get();
            attr.qp_type = IBV_QPT_RC;
            attr.cap = {.max_send_wr = 1,
                        .max_recv_wr = max_recv_wr,
                        .max_send_sge = 1,
                        .max_recv_sge = 1,
                        .max_inline_data = 0};
            const std::string name = concat("queue pair ", qps.size());
            qps.push_back(check(unique_qp(ibv_create_qp(pd.get(), &attr)), name.c_str()));
        }
    }
};

rdma_conn_param make_conn_param(const ibv_qp *qp) {
    rdma_conn_param param{};
    param.qp_num = qp->qp_num;
    return param;
}

/// The end of a socket to the other process.
class pipe_end {
  public:
    explicit pipe_end(int fd)
        : fd_(fd) {}
    template <class type>
    void write_all(const type *objects, std::size_t count) const {
        const auto *next = reinterpret_cast<const char *>(objects);
        for (std::size_t left = count * sizeof(type); left != 0;) {
            const ssize_t written = write(fd_, next, left);
            check(written <= 0 ? -1 : 0, "write to the other process");
            next += written;
            left -= static_cast<std::size_t>(written);
        }
    }
    template <class type>
    void read_all(type *objects, std::size_t count) const {
        const std::size_t size = count * sizeof(type);
        if (recv(fd_, objects, size, MSG_WAITALL) != static_cast<ssize_t>(size))
            throw failure("the other process has ended");
    }

  private:
    int fd_;
};

/// Exchanges the numbers of QPs with the other process and connects them by verbs alone.
void connect_roce(const qp_group &group, const sockaddr_in &addr, const pipe_end &other) {
    std::vector<std::uint32_t> qp_nums, dest_qp_nums(group.qps.size());
    for (const auto &qp : group.qps)
        qp_nums.push_back(qp->qp_num);
    other.write_all(qp_nums.data(), qp_nums.size());
    other.read_all(dest_qp_nums.data(), dest_qp_nums.size());
    ibv_gid gid{};
    gid.raw[10] = gid.raw[11] = 0xff; // ::ffff:ADDRESS
    std::memcpy(&gid.raw[12], &addr.sin_addr, sizeof(addr.sin_addr));
    int gid_index = -1;
    ibv_gid table_gid{};
    do
        check(ibv_query_gid(group.pd->context, port_num, ++gid_index, &table_gid), "its GID");
    while (std::memcmp(&gid, &table_gid, sizeof(gid)) != 0);
    const ibv_ah_attr ah_attr = make_loopback_ah_attr(gid, gid_index);
    for (std::size_t i = 0; i != group.qps.size(); ++i) {
        ibv_qp *const qp = group.qps[i].get();
        modify_qp_to_init(qp, /*access=*/0);
        modify_qp_to_rtr(qp, dest_qp_nums[i], ah_attr, /*max_dest_rd_atomic=*/1);
        modify_qp_to_rts(qp, min_ack_timeout, /*rnr_retry=*/7, /*max_rd_atomic=*/1,
                         /*retry_cnt=*/1);
    }
}

/// The process that dies: connects QPs, writes a byte and waits for its death.
[[noreturn]] void run_peer(const sockaddr_in &addr, std::size_t num_qps, const pipe_end &other) {
    const cm_port port(addr);
    const qp_group group(port.context(), num_qps, /*max_recv_wr=*/1, /*num_cqe=*/1);
    if (port.is_iwarp()) {
        constexpr int backlog = 64;
        check(rdma_listen(port.id(), backlog), "listen");
        const std::uint16_t cm_port_num = rdma_get_src_port(port.id());
        other.write_all(&cm_port_num, 1);
        for (const auto &qp : group.qps) {
            rdma_conn_param param = make_conn_param(qp.get());
            check(rdma_accept(port.expect_event(RDMA_CM_EVENT_CONNECT_REQUEST), &param), "accept");
            port.expect_event(RDMA_CM_EVENT_ESTABLISHED);
        }
    } else {
        connect_roce(group, addr, other);
    }
    const char is_connected = 1;
    other.write_all(&is_connected, 1);
    for (;;)
        pause();
}

/// Kills a process, or waits for it.
class peer_process {
  public:
    peer_process(const sockaddr_in &addr, std::size_t num_qps) {
        std::array<int, 2> fds{};
        check(socketpair(AF_UNIX, SOCK_STREAM, 0, fds.data()), "socket");
        fd_ = fds[0];
        pid_ = fork();
        check(pid_ < 0 ? -1 : 0, "fork");
        if (pid_ != 0) {
            close(fds[1]);
            return;
        }
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(fds[0]);
        try {
            run_peer(addr, num_qps, pipe_end(fds[1]));
        } catch (const std::exception &error) {
            std::fprintf(stderr, "peer_death: the peer: %s\n", error.what());
            _exit(1);
        }
    }
    ~peer_process() {
        start_to_kill();
        wait();
        close(fd_);
    }
    peer_process(const peer_process &) = delete;
    peer_process &operator=(const peer_process &) = delete;
    pipe_end to_peer() const { return pipe_end(fd_); }
    void start_to_kill() const {
        if (pid_ > 0)
            kill(pid_, SIGKILL);
    }
    /// Returns when the kernel has destroyed what it had.
    void wait() {
        if (pid_ > 0)
            waitpid(pid_, nullptr, 0);
        pid_ = 0;
    }

  private:
    pid_t pid_ = 0;
    int fd_ = -1;
};

class survivor {
  public:
    survivor(const sockaddr_in &addr, std::size_t num_qps)
        : peer_(addr, num_qps)
        , port_(addr)
        , num_cqe_(choose_num_cqe(num_qps))
        , group_(port_.context(), num_qps, recvs_per_qp, num_cqe_)
        , num_flushed_(num_qps) {
        for (std::size_t i = 0; i != num_qps; ++i)
            index_by_qp_num_.emplace_back(group_.qps[i]->qp_num, i);
        std::sort(index_by_qp_num_.begin(), index_by_qp_num_.end());
        if (port_.is_iwarp())
            connect_iwarp(addr);
        else
            connect_roce(group_, addr, peer_.to_peer());
        char is_connected = 0;
        peer_.to_peer().read_all(&is_connected, 1);
        for (std::size_t i = 0; i != num_qps; ++i)
            post_recvs(i);
    }
    void run(poll_time when) {
        peer_.start_to_kill();
        const auto start = clock_type::now();
        if (!port_.is_iwarp() || when != poll_time::during)
            peer_.wait();
        if (port_.is_iwarp() && when != poll_time::during)
            wait_for_disconnection();
        if (!port_.is_iwarp() && when == poll_time::never)
            post_writes();
        if (when == poll_time::never)
            std::this_thread::sleep_for(std::chrono::seconds(1)); // QPs that fail do so by then
        else
            poll_all_flushes(start);
        peer_.wait();
        if (when != poll_time::never)
            expect_no_completion();
        destroy_qps();
    }
    /// Whether all receives were flushed, once and in order.
    bool is_right() const { return missing() == 0 && num_wrong_ == 0; }
    void print(const char *when) const {
        const std::size_t num_qps = num_flushed_.size();
        const auto per = [](nanoseconds time, std::size_t count) {
            return count == 0 ? 0.0
                              : static_cast<double>(time.count()) / static_cast<double>(count);
        };
        std::printf("{\"driver\": \"%s\", \"polls\": \"%s\", \"qps\": %zu, \"cqe\": %d, "
                    "\"flushes\": %zu, \"missing\": %zu, \"wrong\": %zu, "
                    "\"ns_per_flush\": %.1f, \"poll_ns_per_flush\": %.1f, "
                    "\"longest_poll_us\": %.1f, \"destroy_ns_per_qp\": %.1f}\n",
                    port_.is_iwarp() ? "siw" : "rxe", when, num_qps, num_cqe_, total_flushed_,
                    missing(), num_wrong_, per(until_last_flush_, total_flushed_),
                    per(in_polls_, total_flushed_), per(longest_poll_, 1000),
                    per(in_destroys_, num_qps));
    }

  private:
    /// Room for all completions, if the device has such a CQ.
    int choose_num_cqe(std::size_t num_qps) const {
        ibv_device_attr attr{};
        check(ibv_query_device(port_.context(), &attr), "query the device");
        return std::min(attr.max_cqe, static_cast<int>(num_qps * requests_per_qp));
    }
    void connect_iwarp(const sockaddr_in &addr) {
        std::uint16_t cm_port_num = 0;
        peer_.to_peer().read_all(&cm_port_num, 1);
        sockaddr_in peer_addr = addr;
        peer_addr.sin_port = cm_port_num;
        for (const auto &qp : group_.qps) {
            ids_.push_back(port_.create_id());
            rdma_cm_id *const id = ids_.back().get();
            check(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr *>(&peer_addr),
                                    timeout_ms),
                  "resolve the address");
            port_.expect_event(RDMA_CM_EVENT_ADDR_RESOLVED);
            check(rdma_resolve_route(id, timeout_ms), "find a route");
            port_.expect_event(RDMA_CM_EVENT_ROUTE_RESOLVED);
            rdma_conn_param param = make_conn_param(qp.get());
            check(rdma_connect(id, &param), "connect");
            port_.expect_event(RDMA_CM_EVENT_ESTABLISHED);
        }
    }
    void post_recvs(std::size_t qp_index) const {
        for (std::size_t i = 0; i != recvs_per_qp; ++i) {
            // The stock siw provider refuses a receive without an SGE.
            ibv_sge sge{.addr = reinterpret_cast<std::uintptr_t>(group_.memory.data()),
                        .length = static_cast<std::uint32_t>(group_.memory.size()),
                        .lkey = group_.mr->lkey};
            ibv_recv_wr wr{.wr_id = qp_index * recvs_per_qp + i,
                           .next = nullptr,
                           .sg_list = &sge,
                           .num_sge = 1};
            ibv_recv_wr *bad_wr = nullptr;
            check(ibv_post_recv(group_.qps[qp_index].get(), &wr, &bad_wr), "post a receive");
        }
    }
    void wait_for_disconnection() const {
        for (std::size_t i = 0; i != ids_.size(); ++i)
            port_.expect_event(RDMA_CM_EVENT_DISCONNECTED);
    }
    /// As many as the CQ has room for the completions of.
    void post_writes() {
        const auto max_failing = static_cast<std::size_t>(num_cqe_) / requests_per_qp;
        while (num_failing_ < max_failing && num_writes_ != group_.qps.size()) {
            ibv_send_wr wr{}, *bad_wr = nullptr;
            wr.wr_id = write_wr_id;
            wr.opcode = IBV_WR_RDMA_WRITE;
            wr.send_flags = IBV_SEND_SIGNALED;
            check(ibv_post_send(group_.qps[num_writes_++].get(), &wr, &bad_wr), "post a Write");
            ++num_failing_;
        }
    }
    /// Stops when no completion has come for some time.
    void poll_all_flushes(clock_type::time_point start) {
        constexpr int num_entries = 64;
        std::array<ibv_wc, num_entries> wcs{};
        auto last_completion = clock_type::now();
        while (missing() != 0) {
            if (!port_.is_iwarp())
                post_writes();
            const auto before = clock_type::now();
            const int count = ibv_poll_cq(group_.cq.get(), num_entries, wcs.data());
            const auto after = clock_type::now();
            check(count < 0 ? -1 : 0, "poll");
            longest_poll_ = std::max<nanoseconds>(longest_poll_, after - before);
            if (count == 0) {
                if (after - last_completion > max_silence)
                    return;
                std::this_thread::yield(); // the kernel's threads need the processor
                continue;
            }
            last_completion = after;
            in_polls_ += after - before;
            std::for_each_n(wcs.begin(), count, [this](const ibv_wc &wc) { verify(wc); });
            until_last_flush_ = after - start;
        }
    }
    void verify(const ibv_wc &wc) {
        const auto it = std::lower_bound(index_by_qp_num_.begin(), index_by_qp_num_.end(),
                                         std::pair{wc.qp_num, std::size_t{0}});
        const bool is_write = wc.wr_id == write_wr_id;
        const bool is_known = it != index_by_qp_num_.end() && it->first == wc.qp_num;
        if (is_write && is_known && wc.status == IBV_WC_RETRY_EXC_ERR)
            return;
        if (!is_known || wc.status != IBV_WC_WR_FLUSH_ERR ||
            num_flushed_[it->second] == recvs_per_qp ||
            wc.wr_id != it->second * recvs_per_qp + num_flushed_[it->second]) {
            ++num_wrong_;
            return;
        }
        ++total_flushed_;
        if (++num_flushed_[it->second] == recvs_per_qp && num_failing_ != 0)
            --num_failing_;
    }
    void expect_no_completion() {
        const auto end = clock_type::now() + absence_timeout;
        do {
            ibv_wc wc{};
            if (ibv_poll_cq(group_.cq.get(), 1, &wc) == 1)
                verify(wc);
        } while (clock_type::now() < end);
    }
    void destroy_qps() {
        const auto start = clock_type::now();
        while (!group_.qps.empty())
            group_.qps.pop_back();
        in_destroys_ = clock_type::now() - start;
    }
    std::size_t missing() const { return num_flushed_.size() * recvs_per_qp - total_flushed_; }

    peer_process peer_;
    cm_port port_;
    std::vector<cm_port::unique_id> ids_; ///< of iWARP, one for each QP
    int num_cqe_;
    qp_group group_;
    std::vector<std::size_t> num_flushed_; ///< of each QP
    std::vector<std::pair<std::uint32_t, std::size_t>> index_by_qp_num_;
    std::size_t num_writes_ = 0, num_failing_ = 0; ///< QPs with a Write, and without all flushes
    std::size_t total_flushed_ = 0, num_wrong_ = 0;
    nanoseconds until_last_flush_{}, in_polls_{}, longest_poll_{}, in_destroys_{};
};

int run(const std::vector<std::string> &args) {
    constexpr std::array names{"during", "after", "never"};
    const auto name =
        args.size() == 3 ? std::find(names.begin(), names.end(), args[2]) : names.end();
    if (name == names.end())
        throw failure("ADDRESS QPS during|after|never");
    sockaddr_in addr{};
    addr.sin_family = AF_INET;
    if (inet_pton(AF_INET, args[0].c_str(), &addr.sin_addr) != 1)
        throw failure(concat("not an address: ", args[0]));
    const auto when = static_cast<poll_time>(name - names.begin());
    survivor process(addr, std::stoul(args[1]));
    process.run(when);
    process.print(*name);
    return when == poll_time::never || process.is_right() ? 0 : 1;
}

} // namespace

int main(int argc, char **argv) try {
    return run({argv + 1, argv + argc});
} catch (const std::exception &error) {
    std::fprintf(stderr, "peer_death: %s\n", error.what());
    return 2;
}
