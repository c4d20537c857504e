// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "cno.hpp"

#include "api.hpp"
#include "clock.hpp"
#include "ia.hpp"

#include <cerrno>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <utility>

namespace coherdma::dapl {

bool cno::make() noexcept {
    fd.reset(epoll_create1(EPOLL_CLOEXEC));
    left.reset(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    return fd && left;
}

namespace {

bool set(int in, int how, int descriptor, evd &of) noexcept {
    epoll_event wanted = {};
    wanted.events = of.apart ? 0U : unsigned{EPOLLIN};
    wanted.data.ptr = &of;
    return epoll_ctl(in, how, descriptor, &wanted) == 0;
}

bool add(int to, int descriptor, evd &of) noexcept {
    return set(to, EPOLL_CTL_ADD, descriptor, of);
}

void take_out(int of, const evd &one) noexcept {
    epoll_ctl(of, EPOLL_CTL_DEL, one.bell.get(), nullptr);
    if (one.channel)
        epoll_ctl(of, EPOLL_CTL_DEL, one.channel->fd, nullptr);
}

/// All its descriptors, or none.
bool put_in(int to, evd &one) noexcept {
    if (add(to, one.bell.get(), one) && (!one.channel || add(to, one.channel->fd, one)))
        return true;
    take_out(to, one);
    return false;
}

/// After a change of `apart`. It cannot fail: the descriptors are there.
void change(int in, evd &of) noexcept {
    set(in, EPOLL_CTL_MOD, of.bell.get(), of);
    if (of.channel)
        set(in, EPOLL_CTL_MOD, of.channel->fd, of);
}

} // namespace

bool cno::attach(evd &one) noexcept {
    const holding held(one.guard);
    cno *const last = one.feeds;
    const bool was_apart = std::exchange(one.apart, one.waited);
    if (!one.make_bell() || !one.arm() || (last != this && !put_in(fd.get(), one))) {
        one.apart = was_apart;
        return false;
    }
    if (last != nullptr && last != this)
        take_out(last->fd.get(), one);
    one.feeds = this;
    if (one.enabled && one.gather() != 0)
        one.ring_bell();
    return true;
}

void cno::detach(evd &one) noexcept {
    const holding held(one.guard);
    take_out(fd.get(), one);
    one.feeds = nullptr;
    one.apart = false;
}

void cno::let_alone(evd &one) noexcept {
    one.apart = true;
    change(fd.get(), one);
}

void cno::listen_again(evd &one) noexcept {
    one.apart = false;
    change(fd.get(), one);
    // Who waited took notice of what the CQ told.
    if (one.enabled && one.arm() && one.gather() != 0)
        one.ring_bell();
}

// The IA's lock keeps the EVD from being freed while its address comes from epoll.
evd *cno::triggered() noexcept {
    const holding all(home->guard);
    for (;;) {
        epoll_event one;
        if (epoll_wait(fd.get(), &one, 1, 0) <= 0)
            return nullptr;
        auto *const from = static_cast<evd *>(one.data.ptr);
        const holding held(from->guard);
        if (from->apart)
            continue;
        from->disarm(true, static_cast<bool>(from->channel));
        if (!from->enabled)
            continue;
        if (from->arm() && from->gather() != 0)
            return from;
    }
}

void cno::call_agent() noexcept {
    evd *const from = triggered();
    if (from == nullptr)
        return;
    DAT_OS_WAIT_PROXY_AGENT whom;
    {
        const holding held(guard);
        whom = agent;
        agent = {nullptr, nullptr};
    }
    events::unwatch(fd.get(), by_thread);
    if (whom.proxy_agent_func != nullptr)
        whom.proxy_agent_func(whom.instance_data, from);
}

namespace {

DAT_RETURN create(DAT_IA_HANDLE ia_handle, const DAT_OS_WAIT_PROXY_AGENT &agent, DAT_FD *fd,
                  DAT_CNO_HANDLE *cno_handle) noexcept {
    ia *const on = called_with<ia>(ia_handle);
    if (on == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_IA);
    if (cno_handle == nullptr)
        return wrong_argument(3);
    cno *const made = prepare<cno>(*on, agent);
    if (made == nullptr)
        return exhausted(DAT_RESOURCE_MEMORY);
    const bool calls = agent.proxy_agent_func != nullptr;
    if (!made->make() || (calls && events::watch(made->fd.get(), made->by_thread) != 0)) {
        discard(made);
        return exhausted(DAT_RESOURCE_MEMORY);
    }
    made->by_descriptor = fd != nullptr;
    if (fd != nullptr)
        *fd = made->fd.get();
    on->adopt(made);
    *cno_handle = made;
    return DAT_SUCCESS;
}

} // namespace

DAT_RETURN cno_create(DAT_IA_HANDLE ia_handle, DAT_OS_WAIT_PROXY_AGENT agent,
                      DAT_CNO_HANDLE *cno_handle) noexcept {
    return create(ia_handle, agent, nullptr, cno_handle);
}

DAT_RETURN cno_fd_create(DAT_IA_HANDLE ia_handle, DAT_FD *fd, DAT_CNO_HANDLE *cno_handle) noexcept {
    if (called_with<ia>(ia_handle) == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_IA);
    if (fd == nullptr)
        return wrong_argument(2);
    return create(ia_handle, {nullptr, nullptr}, fd, cno_handle);
}

DAT_RETURN cno_modify_agent(DAT_CNO_HANDLE cno_handle, DAT_OS_WAIT_PROXY_AGENT agent) noexcept {
    cno *const one = called_with<cno>(cno_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_CNO);
    if (one->by_descriptor)
        return wrong_state(DAT_NO_SUBTYPE);
    const bool calls = agent.proxy_agent_func != nullptr;
    bool called;
    {
        const holding held(one->guard);
        called = one->agent.proxy_agent_func != nullptr;
        one->agent = agent;
    }
    if (called && !calls)
        events::unwatch(one->fd.get(), one->by_thread);
    if (!called && calls && events::watch(one->fd.get(), one->by_thread) != 0)
        return exhausted(DAT_RESOURCE_MEMORY);
    return DAT_SUCCESS;
}

DAT_RETURN cno_query(DAT_CNO_HANDLE cno_handle, DAT_CNO_PARAM_MASK mask,
                     DAT_CNO_PARAM *param) noexcept {
    cno *const one = called_with<cno>(cno_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_CNO);
    if ((mask & ~(DAT_CNO_FIELD_PROXY | DAT_CNO_FIELD_ALL)) != 0)
        return wrong_argument(2);
    if (param == nullptr)
        return wrong_argument(3);
    const holding held(one->guard);
    *param = {};
    param->ia_handle = one->home->handle();
    if (one->by_descriptor) {
        param->proxy_type = DAT_PROXY_TYPE_FD;
        param->proxy.fd = one->fd.get();
    } else if (one->agent.proxy_agent_func != nullptr) {
        param->proxy_type = DAT_PROXY_TYPE_AGENT;
        param->proxy.agent = one->agent;
    } else {
        param->proxy_type = DAT_PROXY_TYPE_NONE;
    }
    return DAT_SUCCESS;
}

DAT_RETURN cno_free(DAT_CNO_HANDLE cno_handle) noexcept {
    cno *const one = called_with<cno>(cno_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_CNO);
    {
        const holding held(one->guard);
        if (one->waiters != 0)
            return wrong_state(DAT_INVALID_STATE_CNO_IN_USE);
    }
    bool in_use;
    if (!one->home->disown(one, in_use))
        return in_use ? wrong_state(DAT_INVALID_STATE_CNO_IN_USE)
                      : wrong_handle(DAT_INVALID_HANDLE_CNO);
    end_cno(one);
    return DAT_SUCCESS;
}

namespace {

void send_away(cno &one) noexcept {
    for (;;) {
        {
            const holding held(one.guard);
            if (one.waiters == 0)
                return;
            const std::uint64_t rung = 1;
            [[maybe_unused]] const ssize_t written = write(one.left.get(), &rung, sizeof rung);
        }
        sched_yield();
    }
}

} // namespace

void end_cno(cno *one) noexcept {
    send_away(*one);
    if (one->agent.proxy_agent_func != nullptr)
        events::unwatch(one->fd.get(), one->by_thread);
    discard(one);
}

DAT_RETURN cno_trigger(DAT_CNO_HANDLE cno_handle, DAT_EVD_HANDLE *evd_handle) noexcept {
    cno *const one = called_with<cno>(cno_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_CNO);
    if (evd_handle == nullptr)
        return wrong_argument(2);
    if (evd *const from = one->triggered()) {
        *evd_handle = from;
        return DAT_SUCCESS;
    }
    *evd_handle = DAT_HANDLE_NULL;
    return failed(DAT_QUEUE_EMPTY);
}

DAT_RETURN cno_wait(DAT_CNO_HANDLE cno_handle, DAT_TIMEOUT timeout,
                    DAT_EVD_HANDLE *evd_handle) noexcept {
    cno *const one = called_with<cno>(cno_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_CNO);
    if (evd_handle == nullptr)
        return wrong_argument(3);
    {
        const holding held(one->guard);
        if (one->by_descriptor)
            return wrong_state(DAT_INVALID_STATE_CNO_IN_USE);
        ++one->waiters;
    }
    deadline until(timeout);
    evd *from = nullptr;
    DAT_RETURN result = DAT_SUCCESS;
    while ((from = one->triggered()) == nullptr && result == DAT_SUCCESS) {
        if (until.passed()) {
            result = failed(DAT_QUEUE_EMPTY); // so say the manual pages of DAT 1.2, and OFED
            break;
        }
        pollfd fds[2] = {{one->fd.get(), POLLIN, 0}, {one->left.get(), POLLIN, 0}};
        const int ready = ppoll(fds, 2, until.left(), nullptr);
        if (ready < 0 && errno != EINTR)
            result = failed(DAT_INTERNAL_ERROR);
        else if (ready > 0 && fds[1].revents != 0)
            result = failed(DAT_INVALID_STATE, DAT_INVALID_STATE_CNO_DEAD);
    }
    const holding held(one->guard);
    --one->waiters;
    *evd_handle = from;
    return from != nullptr ? DAT_SUCCESS : result;
}

} // namespace coherdma::dapl
