// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "async_events.hpp"

#include "reports/blocked_signals.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <deque>
#include <fcntl.h>
#include <optional>
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

/// libibverbs destroys an object when the program has acknowledged as many events of it as the
/// kernel has reported. Of one that the kernel does not know, which the program will acknowledge, 1
/// is subtracted; of one that the kernel has reported, and the program will not get, 1 is added.
void adjust_acknowledged(const interposer::object &info, std::uint32_t change) noexcept {
    void *const handle = const_cast<void *>(info.handle);
    const auto adjust = [=](pthread_mutex_t &mutex, std::uint32_t &completed) {
        pthread_mutex_lock(&mutex);
        completed += change; // modulo 2^32
        pthread_mutex_unlock(&mutex);
    };
    if (info.kind == object_kind::QP) {
        auto &qp = *static_cast<ibv_qp *>(handle);
        adjust(qp.mutex, qp.events_completed);
    } else if (info.kind == object_kind::CQ) {
        auto &cq = *static_cast<ibv_cq *>(handle);
        adjust(cq.mutex, cq.async_events_completed);
    } else if (info.kind == object_kind::SRQ) {
        auto &srq = *static_cast<ibv_srq *>(handle);
        adjust(srq.mutex, srq.events_completed);
    }
}

bool is_followed(object_kind kind) noexcept {
    return kind == object_kind::QP || kind == object_kind::CQ || kind == object_kind::SRQ;
}

std::uint64_t element_of(const interposer::object &info) noexcept {
    return reinterpret_cast<std::uintptr_t>(info.handle);
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
        , device_fd_(context.async_fd)
        , device_flags_(fcntl(device_fd_, F_GETFL))
        , wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
        std::sort(events_.begin(), events_.end(),
                  [](const due_event &a, const due_event &b) { return a.time < b.time; });
        require(device_flags_ != -1 && fcntl(sockets_[0].get(), F_SETFL, device_flags_) == 0);
        const reports::blocked_signals blocker;
        thread_ = std::thread([this] { run(); });
        fcntl(device_fd_, F_SETFL, device_flags_ | O_NONBLOCK); // only the thread reads it now
        set_async_fd(sockets_[0].get());
    }
    ~forwarder() {
        {
            const std::lock_guard guard(mutex_);
            is_stopped_ = true;
            wake();
        }
        thread_.join();
    }
    forwarder(const forwarder &) = delete;
    forwarder &operator=(const forwarder &) = delete;

    /// The context has its file again.
    void restore() {
        set_async_fd(device_fd_);
        fcntl(device_fd_, F_SETFL, device_flags_);
    }

    void begin_create() {
        const std::lock_guard guard(mutex_);
        if (num_creating_++ == 0)
            set_async_fd(device_fd_);
    }
    void end_create() {
        const std::lock_guard guard(mutex_);
        if (--num_creating_ == 0)
            set_async_fd(sockets_[0].get());
    }

    void add(const descriptor &event) {
        const std::lock_guard guard(mutex_);
        pending_.push_back(event);
        wake();
    }

    /// The object is about to be destroyed. The program does not get its events; they count as
    /// acknowledged. Until end_destroy(), none is taken from the kernel, which drops them.
    void begin_destroy(const interposer::object &info) {
        const std::lock_guard guard(mutex_);
        ++num_destroying_;
        std::deque<descriptor> unread;
        descriptor read = {};
        while (recv(sockets_[0].get(), &read, sizeof read, MSG_DONTWAIT) == sizeof read)
            unread.push_back(read);
        pending_.insert(pending_.begin(), unread.begin(), unread.end());
        const std::size_t num_discarded = std::erase_if(pending_, [&](const descriptor &each) {
            return each.element == element_of(info) &&
                   kind_of(static_cast<ibv_event_type>(each.event_type)) == info.kind;
        });
        adjust_acknowledged(info, static_cast<std::uint32_t>(num_discarded));
        send_pending();
    }
    void end_destroy() {
        const std::lock_guard guard(mutex_);
        --num_destroying_;
        wake();
    }

  private:
    /// The program may read it at the same time.
    void set_async_fd(int fd) {
        std::atomic_ref<int>(context_.async_fd).store(fd, std::memory_order_relaxed);
    }

    void run() {
        std::array<pollfd, 3> fds = {{{.fd = wake_.get(), .events = POLLIN, .revents = 0},
                                      {.fd = device_fd_, .events = 0, .revents = 0},
                                      {.fd = sockets_[1].get(), .events = 0, .revents = 0}}};
        auto &[wake, device, program] = fds;
        for (;;) {
            add_due_events();
            {
                const std::lock_guard guard(mutex_);
                if (is_stopped_)
                    return;
                send_pending();
                program.events = pending_.empty() ? short{0} : short{POLLOUT};
                device.fd = has_device_ && num_destroying_ == 0 ? device_fd_ : -1;
                device.events = POLLIN;
            }
            poll(fds.data(), fds.size(), time_to_next_event());
            eventfd_t count = 0;
            eventfd_read(wake_.get(), &count);
            if (device.revents != 0)
                read_device();
        }
    }

    void wake() const noexcept { eventfd_write(wake_.get(), 1); }

    void add_due_events() {
        while (!events_.empty() && events_.front().time <= std::chrono::steady_clock::now()) {
            const due_event due = std::move(events_.front());
            events_.erase(events_.begin());
            due.report(owner_.add_event(*this, &context_, due.type));
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

    void read_device() {
        const std::lock_guard guard(mutex_);
        if (num_destroying_ != 0)
            return;
        descriptor event = {};
        const ssize_t size = read(device_fd_, &event, sizeof event);
        if (size == sizeof event)
            pending_.push_back(event);
        else if (size != -1 || (errno != EAGAIN && errno != EINTR))
            has_device_ = false; // it is gone
    }

    /// What there is room for. The caller has the mutex.
    void send_pending() {
        while (!pending_.empty() && send(sockets_[1].get(), &pending_.front(), sizeof(descriptor),
                                         MSG_DONTWAIT | MSG_NOSIGNAL) != -1)
            pending_.pop_front();
    }

    async_events &owner_;
    ibv_context &context_;
    std::vector<due_event> events_; ///< by time; of the thread
    const int device_fd_, device_flags_;
    const owned_fd wake_;
    const std::array<owned_fd, 2> sockets_ = make_socket_pair();
    std::mutex mutex_; ///< protects the following; taken after the owner's
    std::deque<descriptor> pending_;
    unsigned num_creating_ = 0, num_destroying_ = 0;
    bool has_device_ = true, is_stopped_ = false;
    std::thread thread_;
};

async_events::async_events() = default;
async_events::~async_events() = default;

int async_events::add_context(ibv_context &context, std::vector<due_event> events) {
    std::unique_ptr<forwarder> earlier; // its thread may wait for the mutex
    const std::lock_guard guard(mutex_);
    std::unique_ptr<forwarder> &added = forwarders_[&context];
    earlier = std::move(added);
    try {
        added = std::make_unique<forwarder>(*this, context, std::move(events));
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
        if (removed != nullptr)
            removed->restore();
        forwarders_.erase(match);
    }
    std::erase_if(objects_, [=](const interposer::object &each) {
        return each.context == context; // the program has not destroyed it
    });
}

async_events::forwarder *async_events::find_forwarder(const ibv_context *context) {
    const auto match = forwarders_.find(context);
    return match != forwarders_.end() ? match->second.get() : nullptr;
}

void async_events::begin_create(const ibv_context *context) {
    const std::lock_guard guard(mutex_);
    if (forwarder *const events = find_forwarder(context))
        events->begin_create();
}

void async_events::end_create(const ibv_context *context) {
    const std::lock_guard guard(mutex_);
    if (forwarder *const events = find_forwarder(context))
        events->end_create();
}

void async_events::add_object(const interposer::object &info) {
    const std::lock_guard guard(mutex_);
    if (is_followed(info.kind))
        objects_.push_back(info);
}

void async_events::begin_destroy(const interposer::object &info) {
    if (!is_followed(info.kind))
        return;
    const std::lock_guard guard(mutex_);
    std::erase_if(objects_, [&](const interposer::object &each) {
        return each.number == info.number; // another object may have its handle soon
    });
    if (forwarder *const events = find_forwarder(info.context))
        events->begin_destroy(info);
}

void async_events::end_destroy(const interposer::object &info, bool is_destroyed) {
    if (!is_followed(info.kind))
        return;
    const std::lock_guard guard(mutex_);
    if (!is_destroyed)
        objects_.push_back(info);
    if (forwarder *const events = find_forwarder(info.context))
        events->end_destroy();
}

bool async_events::add_event(forwarder &target, const ibv_context *context, ibv_event_type type) {
    const std::optional<object_kind> kind = kind_of(type);
    descriptor event = {
        .element = FIRST_PORT, .event_type = static_cast<std::uint32_t>(type), .reserved = 0};
    const std::lock_guard guard(mutex_); // the object exists until then
    if (kind) {
        const auto match =
            std::find_if(objects_.rbegin(), objects_.rend(), [&](const interposer::object &each) {
                return each.kind == *kind && each.context == context;
            });
        if (match == objects_.rend())
            return false;
        event.element = element_of(*match);
        constexpr std::uint32_t MINUS_ONE = ~std::uint32_t{0};
        adjust_acknowledged(*match, MINUS_ONE);
    }
    target.add(event);
    return true;
}

} // namespace coherdma::faults
