// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "async_events.hpp"

#include "reports/blocked_signals.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <fcntl.h>
#include <poll.h>
#include <rdma/ib_user_verbs.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>

namespace coherdma::faults {
namespace {

using interposer::object_kind;
using descriptor = ib_uverbs_async_event_desc; // what the kernel writes, and libibverbs reads

constexpr std::uint64_t FIRST_PORT = 1;

/// A file descriptor, closed by the destructor.
class owned_fd {
  public:
    /// Throws std::system_error if it is -1.
    explicit owned_fd(int fd)
        : fd_(fd) {
        if (fd == -1)
            throw std::system_error(errno, std::generic_category());
    }
    ~owned_fd() {
        if (fd_ != -1)
            ::close(fd_);
    }
    owned_fd(owned_fd &&other) noexcept
        : fd_(std::exchange(other.fd_, -1)) {}
    owned_fd(const owned_fd &) = delete;
    owned_fd &operator=(const owned_fd &) = delete;
    [[nodiscard]] int get() const noexcept { return fd_; }

  private:
    int fd_;
};

void require(bool succeeded) {
    if (!succeeded)
        throw std::system_error(errno, std::generic_category());
}

/// The program's end, and the forwarder's.
std::array<owned_fd, 2> make_socket_pair() {
    std::array<int, 2> fds{};
    require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds.data()) == 0);
    return {owned_fd(fds[0]), owned_fd(fds[1])};
}

/// No value: it is an event of the device or a port.
std::optional<object_kind> kind_of(ibv_event_type type) noexcept {
    switch (type) {
    case IBV_EVENT_CQ_ERR:
        return object_kind::CQ;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        return object_kind::SRQ;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        return object_kind::QP;
    default:
        return std::nullopt;
    }
}

/// libibverbs destroys an object when as many events of it are acknowledged as the kernel has
/// reported: the kernel does not know of this one, which the program will acknowledge.
void count_unreported(const interposer::object &info) noexcept {
    void *const handle = const_cast<void *>(info.handle);
    const auto subtract = [](pthread_mutex_t &mutex, std::uint32_t &completed) {
        pthread_mutex_lock(&mutex);
        --completed;
        pthread_mutex_unlock(&mutex);
    };
    if (info.kind == object_kind::QP) {
        auto &qp = *static_cast<ibv_qp *>(handle);
        subtract(qp.mutex, qp.events_completed);
    } else if (info.kind == object_kind::CQ) {
        auto &cq = *static_cast<ibv_cq *>(handle);
        subtract(cq.mutex, cq.async_events_completed);
    } else if (info.kind == object_kind::SRQ) {
        auto &srq = *static_cast<ibv_srq *>(handle);
        subtract(srq.mutex, srq.events_completed);
    }
}

} // namespace

/// The thread of a context.
class async_events::forwarder {
  public:
    /// Throws std::system_error.
    forwarder(async_events &owner, ibv_context &context, std::vector<due_event> events)
        : owner_(owner)
        , context_(context)
        , events_(std::move(events))
        , device_(fcntl(context.async_fd, F_DUPFD_CLOEXEC, 0))
        , stop_(eventfd(0, EFD_CLOEXEC)) {
        std::sort(events_.begin(), events_.end(),
                  [](const due_event &a, const due_event &b) { return a.time < b.time; });
        require(fcntl(device_.get(), F_SETFL, O_NONBLOCK) == 0);
        // The same number: the program may know it already, and libibverbs closes it.
        require(dup3(sockets_[0].get(), context.async_fd, O_CLOEXEC) != -1);
        const reports::blocked_signals blocker;
        thread_ = std::thread([this] { run(); });
    }
    ~forwarder() {
        eventfd_write(stop_.get(), 1);
        thread_.join();
    }
    forwarder(const forwarder &) = delete;
    forwarder &operator=(const forwarder &) = delete;

    /// The program will not read the events of this object.
    void discard(std::uint64_t element) {
        const std::lock_guard guard(mutex_);
        std::deque<descriptor> unread;
        descriptor read = {};
        while (recv(sockets_[0].get(), &read, sizeof read, MSG_DONTWAIT) == sizeof read)
            unread.push_back(read);
        pending_.insert(pending_.begin(), unread.begin(), unread.end());
        std::erase_if(pending_, [&](const descriptor &each) {
            return each.element == element &&
                   kind_of(static_cast<ibv_event_type>(each.event_type)).has_value();
        });
        send_pending();
    }

  private:
    void run() {
        std::array<pollfd, 3> fds = {{{.fd = stop_.get(), .events = POLLIN, .revents = 0},
                                      {.fd = device_.get(), .events = POLLIN, .revents = 0},
                                      {.fd = sockets_[1].get(), .events = 0, .revents = 0}}};
        auto &[stop, device, program] = fds;
        do {
            add_due_events();
            {
                const std::lock_guard guard(mutex_);
                send_pending();
                program.events = pending_.empty() ? short{0} : short{POLLOUT};
            }
            poll(fds.data(), fds.size(), time_to_next_event());
            if (device.revents != 0 && !read_device())
                device.fd = -1; // it has no more
        } while (stop.revents == 0);
    }

    void add_due_events() {
        while (!events_.empty() && events_.front().time <= std::chrono::steady_clock::now()) {
            const due_event due = std::move(events_.front());
            events_.erase(events_.begin());
            const std::optional<std::uint64_t> element = owner_.find_element(&context_, due.type);
            due.report(element.has_value());
            if (element)
                add({.element = *element,
                     .event_type = static_cast<std::uint32_t>(due.type),
                     .reserved = 0});
        }
    }

    /// For poll(): rounded up; -1: there is none.
    [[nodiscard]] int time_to_next_event() const {
        using std::chrono::milliseconds;
        constexpr milliseconds MAX_TIME{60'000}; // then it is asked for again
        if (events_.empty())
            return -1;
        const auto time = std::chrono::ceil<milliseconds>(events_.front().time -
                                                          std::chrono::steady_clock::now());
        return static_cast<int>(std::clamp(time, milliseconds{0}, MAX_TIME).count());
    }

    /// False: it has no more events.
    bool read_device() {
        descriptor event = {};
        const ssize_t size = read(device_.get(), &event, sizeof event);
        if (size == sizeof event)
            add(event);
        return size == sizeof event || (size == -1 && (errno == EAGAIN || errno == EINTR));
    }

    void add(const descriptor &event) {
        const std::lock_guard guard(mutex_);
        pending_.push_back(event);
    }

    /// What there is room for. The caller has the mutex.
    void send_pending() {
        while (!pending_.empty() && send(sockets_[1].get(), &pending_.front(), sizeof(descriptor),
                                         MSG_DONTWAIT | MSG_NOSIGNAL) != -1)
            pending_.pop_front();
    }

    async_events &owner_;
    const ibv_context &context_;
    std::vector<due_event> events_; ///< by time; of the thread
    const owned_fd device_, stop_;
    const std::array<owned_fd, 2> sockets_ = make_socket_pair();
    std::mutex mutex_; ///< protects the following
    std::deque<descriptor> pending_;
    std::thread thread_;
};

async_events::async_events() = default;
async_events::~async_events() = default;

int async_events::add_context(ibv_context &context, std::vector<due_event> events) {
    try {
        auto added = std::make_unique<forwarder>(*this, context, std::move(events));
        const std::lock_guard guard(mutex_);
        forwarders_[&context].swap(added); // another's end waits for its thread, without the mutex
        return 0;
    } catch (const std::system_error &error) {
        return error.code().value();
    }
}

void async_events::remove_context(const ibv_context *context) {
    std::unique_ptr<forwarder> removed; // its thread may wait for the mutex
    const std::lock_guard guard(mutex_);
    if (const auto match = forwarders_.find(context); match != forwarders_.end()) {
        removed = std::move(match->second);
        forwarders_.erase(match);
    }
}

void async_events::add_object(const interposer::object &info) {
    if (info.kind != object_kind::QP && info.kind != object_kind::CQ &&
        info.kind != object_kind::SRQ)
        return;
    const std::lock_guard guard(mutex_);
    objects_.push_back({.info = info, .num_unread = 0});
}

void async_events::remove_object(const interposer::object &info) {
    const std::lock_guard guard(mutex_);
    const auto match = find_object(info.handle);
    if (match == objects_.end())
        return;
    const auto events = forwarders_.find(info.context);
    if (match->num_unread != 0 && events != forwarders_.end())
        events->second->discard(reinterpret_cast<std::uintptr_t>(info.handle));
    objects_.erase(match);
}

void async_events::note_read(const interposer::object &info) {
    const std::lock_guard guard(mutex_);
    const auto match = find_object(info.handle);
    if (match == objects_.end() || match->num_unread == 0)
        return;
    --match->num_unread;
    count_unreported(match->info);
}

std::vector<async_events::added_object>::iterator async_events::find_object(const void *handle) {
    return std::find_if(objects_.begin(), objects_.end(),
                        [=](const added_object &each) { return each.info.handle == handle; });
}

std::optional<std::uint64_t> async_events::find_element(const ibv_context *context,
                                                        ibv_event_type type) {
    const std::optional<object_kind> kind = kind_of(type);
    if (!kind)
        return FIRST_PORT;
    const std::lock_guard guard(mutex_);
    const auto match =
        std::find_if(objects_.rbegin(), objects_.rend(), [&](const added_object &each) {
            return each.info.kind == *kind && each.info.context == context;
        });
    if (match == objects_.rend())
        return std::nullopt;
    ++match->num_unread;
    return reinterpret_cast<std::uintptr_t>(match->info.handle);
}

} // namespace coherdma::faults
