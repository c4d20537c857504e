// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "cno.hpp"

#include "dapl/api.hpp"
#include "dapl/ia/ia.hpp"
#include "sleep.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <utility>

namespace coherdma::dapl {

bool dapl_cno::init() noexcept {
    epoll_fd.reset(epoll_create1(EPOLL_CLOEXEC));
    cancel_fd.reset(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    return epoll_fd && cancel_fd;
}

namespace {

/// epoll_ctl for a descriptor of the EVD. The data of its events are the EVD's address. There are
/// none while a thread is in dat_evd_wait.
bool evd_epoll_ctl(int epoll_fd, int op, int fd, dapl_evd &evd) noexcept {
    epoll_event event = {};
    event.events = evd.masked_in_cno ? 0U : unsigned{EPOLLIN};
    event.data.ptr = &evd;
    return epoll_ctl(epoll_fd, op, fd, &event) == 0;
}

void remove_evd_fds(int epoll_fd, const dapl_evd &evd) noexcept {
    epoll_ctl(epoll_fd, EPOLL_CTL_DEL, evd.event_fd.get(), nullptr);
    if (evd.channel)
        epoll_ctl(epoll_fd, EPOLL_CTL_DEL, evd.channel->fd, nullptr);
}

/// Adds all of the EVD's descriptors, or none.
bool add_evd_fds(int epoll_fd, dapl_evd &evd) noexcept {
    if (evd_epoll_ctl(epoll_fd, EPOLL_CTL_ADD, evd.event_fd.get(), evd) &&
        (!evd.channel || evd_epoll_ctl(epoll_fd, EPOLL_CTL_ADD, evd.channel->fd, evd)))
        return true;
    remove_evd_fds(epoll_fd, evd);
    return false;
}

/// After a change of masked_in_cno. Cannot fail: the descriptors are in the set.
void update_evd_fds(int epoll_fd, dapl_evd &evd) noexcept {
    evd_epoll_ctl(epoll_fd, EPOLL_CTL_MOD, evd.event_fd.get(), evd);
    if (evd.channel)
        evd_epoll_ctl(epoll_fd, EPOLL_CTL_MOD, evd.channel->fd, evd);
}

} // namespace

bool dapl_cno::attach_evd(dapl_evd &evd, dapl_cno *&old_cno) noexcept {
    const std::lock_guard guard(evd.lock);
    old_cno = evd.cno;
    const bool was_masked = std::exchange(evd.masked_in_cno, evd.has_waiter);
    if (!evd.create_event_fd() || !evd.arm() ||
        (old_cno != this && !add_evd_fds(epoll_fd.get(), evd))) {
        evd.masked_in_cno = was_masked;
        return false;
    }
    if (old_cno != nullptr && old_cno != this)
        remove_evd_fds(old_cno->epoll_fd.get(), evd);
    evd.cno = this;
    if (evd.enabled && evd.needs_consumer())
        evd.signal_event_fd();
    return true;
}

dapl_cno *dapl_cno::detach_evd(dapl_evd &evd) noexcept {
    const std::lock_guard guard(evd.lock);
    dapl_cno *const old_cno = std::exchange(evd.cno, nullptr);
    if (old_cno != nullptr)
        remove_evd_fds(old_cno->epoll_fd.get(), evd);
    evd.masked_in_cno = false;
    return old_cno;
}

void dapl_cno::mask_evd(dapl_evd &evd) noexcept {
    evd.masked_in_cno = true;
    update_evd_fds(epoll_fd.get(), evd);
}

void dapl_cno::unmask_evd(dapl_evd &evd) noexcept {
    evd.masked_in_cno = false;
    update_evd_fds(epoll_fd.get(), evd);
    // dat_evd_wait has consumed the CQ's notifications, so the CQ is armed again.
    if (evd.enabled && evd.arm() && evd.needs_consumer())
        evd.signal_event_fd();
}

DAT_EVD_HANDLE dapl_cno::next_triggered_evd() noexcept {
    const void *invalid_evd = nullptr; // the first whose handle is invalid
    for (;;) {
        epoll_event event;
        if (epoll_wait(epoll_fd.get(), &event, 1, 0) <= 0)
            return DAT_HANDLE_NULL;
        const auto evd = lookup<dapl_evd>(event.data.ptr);
        if (!evd) {
            // The EVD is being freed; its descriptors may be in the set until this call returns,
            // since dat_ia_close waits for it. epoll_wait returns all others before it again.
            if (event.data.ptr == invalid_evd)
                return DAT_HANDLE_NULL;
            if (invalid_evd == nullptr)
                invalid_evd = event.data.ptr;
            continue;
        }
        const std::lock_guard guard(evd->lock);
        if (evd->cno != this ||
            evd->masked_in_cno) // dat_evd_modify_cno, or a thread in dat_evd_wait
            continue;
        evd->clear_notifications(true, static_cast<bool>(evd->channel));
        if (!evd->enabled)
            continue;
        if (evd->arm() && evd->needs_consumer())
            return evd.get();
    }
}

void dapl_cno::call_agent() noexcept {
    DAT_EVD_HANDLE evd_handle;
    DAT_OS_WAIT_PROXY_AGENT proxy;
    {
        // If dat_cno_modify_agent has removed the agent, dat_cno_wait returns the EVD.
        const std::lock_guard guard(lock);
        if (agent.proxy_agent_func == nullptr ||
            (evd_handle = next_triggered_evd()) == DAT_HANDLE_NULL)
            return;
        proxy = std::exchange(agent, {nullptr, nullptr});
        event_thread::remove_fd(epoll_fd.get());
    }
    // The agent may free this CNO, and so may another thread, which does not wait for the agent.
    event_thread::leave_callback();
    proxy.proxy_agent_func(proxy.instance_data, evd_handle);
}

namespace {

/// fd: of dat_cno_fd_create, or nullptr.
DAT_RETURN create_cno(DAT_IA_HANDLE ia_handle, const DAT_OS_WAIT_PROXY_AGENT &agent, DAT_FD *fd,
                      DAT_CNO_HANDLE *cno_handle) noexcept {
    const auto ia = handle_to<dapl_ia>(ia_handle);
    if (!ia)
        return invalid_handle(DAT_INVALID_HANDLE_IA);
    if (cno_handle == nullptr)
        return invalid_parameter(3);
    dapl_cno *const cno = create_object<dapl_cno>(*ia, agent);
    if (cno == nullptr)
        return no_resources(DAT_RESOURCE_MEMORY);
    const bool has_agent = agent.proxy_agent_func != nullptr;
    if (!cno->init() ||
        (has_agent && event_thread::watch(cno->epoll_fd.get(), cno->agent_watcher) != 0)) {
        destroy_object(cno);
        return no_resources(DAT_RESOURCE_MEMORY);
    }
    cno->is_fd_cno = fd != nullptr;
    if (fd != nullptr)
        *fd = cno->epoll_fd.get();
    ia->insert(cno);
    *cno_handle = cno;
    return DAT_SUCCESS;
}

} // namespace

DAT_RETURN cno_create(DAT_IA_HANDLE ia_handle, DAT_OS_WAIT_PROXY_AGENT agent,
                      DAT_CNO_HANDLE *cno_handle) noexcept {
    return create_cno(ia_handle, agent, nullptr, cno_handle);
}

DAT_RETURN cno_fd_create(DAT_IA_HANDLE ia_handle, DAT_FD *fd, DAT_CNO_HANDLE *cno_handle) noexcept {
    if (!handle_to<dapl_ia>(ia_handle))
        return invalid_handle(DAT_INVALID_HANDLE_IA);
    if (fd == nullptr)
        return invalid_parameter(2);
    return create_cno(ia_handle, {nullptr, nullptr}, fd, cno_handle);
}

/// While the CNO has an agent, the event thread watches its epoll descriptor.
DAT_RETURN cno_modify_agent(DAT_CNO_HANDLE cno_handle, DAT_OS_WAIT_PROXY_AGENT agent) noexcept {
    const auto cno = handle_to<dapl_cno>(cno_handle);
    if (!cno)
        return invalid_handle(DAT_INVALID_HANDLE_CNO);
    if (cno->is_fd_cno)
        return invalid_state(DAT_NO_SUBTYPE);
    const bool has_agent = agent.proxy_agent_func != nullptr;
    const std::lock_guard guard(cno->lock);
    const bool had_agent = cno->agent.proxy_agent_func != nullptr;
    if (!had_agent && has_agent &&
        event_thread::watch(cno->epoll_fd.get(), cno->agent_watcher) != 0)
        return no_resources(DAT_RESOURCE_MEMORY);
    if (had_agent && !has_agent)
        event_thread::remove_fd(cno->epoll_fd.get());
    cno->agent = agent;
    return DAT_SUCCESS;
}

DAT_RETURN cno_query(DAT_CNO_HANDLE cno_handle, DAT_CNO_PARAM_MASK mask,
                     DAT_CNO_PARAM *param) noexcept {
    return query_object<dapl_cno>(cno_handle, mask, DAT_CNO_FIELD_PROXY | DAT_CNO_FIELD_ALL, param,
                                  [param](dapl_cno &cno) {
                                      const std::lock_guard guard(cno.lock);
                                      if (cno.is_fd_cno) {
                                          param->proxy_type = DAT_PROXY_TYPE_FD;
                                          param->proxy.fd = cno.epoll_fd.get();
                                      } else if (cno.agent.proxy_agent_func != nullptr) {
                                          param->proxy_type = DAT_PROXY_TYPE_AGENT;
                                          param->proxy.agent = cno.agent;
                                      } else {
                                          param->proxy_type = DAT_PROXY_TYPE_NONE;
                                      }
                                  });
}

/// Fails while a thread waits in dat_cno_wait or an EVD triggers the CNO.
DAT_RETURN cno_free(DAT_CNO_HANDLE cno_handle) noexcept {
    auto cno = handle_to<dapl_cno>(cno_handle);
    if (!cno)
        return invalid_handle(DAT_INVALID_HANDLE_CNO);
    {
        const std::lock_guard guard(cno->lock);
        if (cno->num_waiters != 0)
            return invalid_state(DAT_INVALID_STATE_CNO_IN_USE);
    }
    return free_object(std::move(cno), DAT_INVALID_STATE_CNO_IN_USE, destroy_cno);
}

void dapl_cno::cancel_waiters() noexcept {
    const std::lock_guard guard(lock);
    eventfd_write(cancel_fd.get(), 1);
}

void destroy_cno(dapl_cno *cno) noexcept {
    // Also without an agent: call_agent() removes it, and the event thread may still be there.
    event_thread::unwatch(cno->epoll_fd.get(), cno->agent_watcher);
    destroy_object(cno);
}

/// Returns an EVD of the CNO that has events; does not wait.
DAT_RETURN cno_trigger(DAT_CNO_HANDLE cno_handle, DAT_EVD_HANDLE *evd_handle) noexcept {
    const auto cno = handle_to<dapl_cno>(cno_handle);
    if (!cno)
        return invalid_handle(DAT_INVALID_HANDLE_CNO);
    if (evd_handle == nullptr)
        return invalid_parameter(2);
    const std::lock_guard guard(cno->lock);
    *evd_handle = cno->next_triggered_evd();
    return *evd_handle != DAT_HANDLE_NULL ? DAT_SUCCESS : dat_error(DAT_QUEUE_EMPTY);
}

DAT_RETURN cno_wait(DAT_CNO_HANDLE cno_handle, DAT_TIMEOUT timeout, DAT_EVD_HANDLE *evd_handle) {
    sleeping_call call(timeout);
    const auto cno = handle_to<dapl_cno>(cno_handle);
    if (!cno)
        return invalid_handle(DAT_INVALID_HANDLE_CNO);
    if (evd_handle == nullptr)
        return invalid_parameter(3);
    const std::lock_guard guard(cno->lock);
    // Under the lock: the thread that frees the CNO cancels this wait, or is seen here.
    if (!is_published(cno.get()))
        return invalid_handle(DAT_INVALID_HANDLE_CNO);
    if (cno->is_fd_cno)
        return invalid_state(DAT_INVALID_STATE_CNO_IN_USE);
    ++cno->num_waiters;
    const on_exit leave{[&cno = *cno] {
        --cno.num_waiters;
    }};
    DAT_RETURN result = DAT_SUCCESS;
    while ((*evd_handle = cno->next_triggered_evd()) == DAT_HANDLE_NULL && result == DAT_SUCCESS) {
        pollfd fds[2] = {{cno->epoll_fd.get(), POLLIN, 0}, {cno->cancel_fd.get(), POLLIN, 0}};
        // QUEUE_EMPTY as in DAT 1.2's manual pages and OFED.
        result = call.has_expired() ? dat_error(DAT_QUEUE_EMPTY) : call.sleep(cno->lock, fds);
        if (fds[1].revents != 0)
            result = invalid_state(DAT_INVALID_STATE_CNO_DEAD);
    }
    return *evd_handle != DAT_HANDLE_NULL ? DAT_SUCCESS : result;
}

} // namespace coherdma::dapl
