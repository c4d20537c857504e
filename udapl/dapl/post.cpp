// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Data transfer operations.

#include "post.hpp"

#include "api.hpp"
#include "ia.hpp"
#include "lmr.hpp"
#include "rmr.hpp"

#include <cerrno>

namespace coherdma::dapl {

namespace {

constexpr posting send = {IBV_WR_SEND, DAT_DTO_SEND, true};
constexpr posting send_and_invalidate = {IBV_WR_SEND_WITH_INV, DAT_DTO_SEND, true};
constexpr posting write = {IBV_WR_RDMA_WRITE, DAT_DTO_RDMA_WRITE, true};
constexpr posting read = {IBV_WR_RDMA_READ, DAT_DTO_RDMA_READ, false};

/// What is wrong with a request's list: the arguments are the second and the third of the call.
DAT_RETURN check(const ep &one, DAT_COUNT segments, const DAT_LMR_TRIPLET *iov, DAT_COUNT most,
                 std::uint32_t &length) noexcept {
    if (static_cast<unsigned>(segments) > static_cast<unsigned>(most)) [[unlikely]]
        return wrong_argument(2);
    if (iov == nullptr && segments != 0) [[unlikely]]
        return wrong_argument(3);
    if (!sum(iov, segments, length) || length > one.longest) [[unlikely]]
        return failed(DAT_LENGTH_ERROR);
    if (!one.takes_requests()) [[unlikely]]
        return wrong_state(subtype_of(one.now()));
    return DAT_SUCCESS;
}

/// Where a request reads or writes.
struct at {
    const DAT_RMR_TRIPLET &remote;
    void operator()(ibv_send_wr &wanted) const noexcept {
        wanted.wr.rdma.remote_addr = remote.virtual_address;
        wanted.wr.rdma.rkey = remote.rmr_context;
    }
};

constexpr auto nowhere = [](ibv_send_wr &) {
};

DAT_RETURN no_room_to_receive(const ep &one) noexcept {
    if (one.shares)
        return wrong_state(DAT_INVALID_STATE_SRQ_IN_USE);
    return one.qp == nullptr ? wrong_state(DAT_INVALID_STATE_EP_UNCONFIGURED)
                             : exhausted(DAT_RESOURCE_MEMORY);
}

// The short way, of nearly all requests: there is one segment, the endpoint takes it, and nobody
// else posts. It needs no memory but the endpoint's, and hardly a register: what it has to do
// besides is the last thing that it does, and needs the endpoint alone.

[[gnu::cold, gnu::noinline]] DAT_RETURN wake(ring &queue) noexcept {
    queue.guard.wake();
    return DAT_SUCCESS;
}

[[gnu::cold, gnu::noinline]] DAT_RETURN refuse(ring &queue, int error) noexcept {
    queue.not_posted();
    queue.guard.unlock();
    return failed_with(error, DAT_RESOURCE_MEMORY);
}

[[gnu::cold, gnu::noinline]] DAT_RETURN full(ep &one) noexcept {
    const DAT_RETURN result = no_room(one);
    one.requests.guard.unlock();
    return result;
}

[[gnu::cold, gnu::noinline]] DAT_RETURN full_of_receives(ep &one) noexcept {
    const DAT_RETURN result = no_room_to_receive(one);
    one.receives.guard.unlock();
    return result;
}

/// Whether it may go the short way: then it has the lock, and flags are those of verbs.
[[gnu::always_inline]] inline bool begin(ep *one, const posting &what, DAT_COUNT segments,
                                         const DAT_LMR_TRIPLET *iov, DAT_COMPLETION_FLAGS wish,
                                         std::uint32_t &length, unsigned &flags) noexcept {
    if (one == nullptr || segments != 1 || iov == nullptr)
        return false;
    flags = flags_of(wish);
    length = iov->segment_length;
    if (what.may_be_inline && length - 1 < one->inline_limit) [[likely]]
        flags |= IBV_SEND_INLINE;
    else if (length - 1 >= one->at_once)
        return false;
    return one->requests.guard.try_it();
}

void fill_receive(record &next, ibv_recv_wr &wanted, DAT_LMR_TRIPLET *iov,
                  DAT_UINT64 cookie) noexcept {
    next.told.user_cookie.as_64 = cookie;
    wanted.wr_id = reinterpret_cast<std::uintptr_t>(&next);
    wanted.sg_list = reinterpret_cast<ibv_sge *>(iov);
}

template <class how>
[[gnu::always_inline]] inline DAT_RETURN end(ep &one, const posting &what, const description &of,
                                             const how &aim) noexcept {
    record *const next = one.requests.next();
    if (next == nullptr) [[unlikely]]
        return full(one);
    fill(*next, one.wanted, what, of, aim);
    one.requests.posted(*next);
    const int error = ibv_post_send(one.qp, &one.wanted, &one.refused);
    if (error != 0) [[unlikely]]
        return refuse(one.requests, error);
    return one.requests.guard.give_back() ? wake(one.requests) : static_cast<DAT_RETURN>(error);
}

// The long ways, with all that the calls themselves have left out. Each is the last thing that its
// call does, so the short way keeps nothing for it.

[[gnu::noinline]] DAT_RETURN post_send(DAT_EP_HANDLE ep_handle, DAT_COUNT segments,
                                       DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie,
                                       DAT_COMPLETION_FLAGS flags) noexcept {
    ep *const one = called_with<ep>(ep_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_EP);
    std::uint32_t length;
    const DAT_RETURN result = check(*one, segments, iov, one->request_iov, length);
    if (result != DAT_SUCCESS)
        return result;
    return post(*one, send, {segments, iov, length, cookie.as_64, flags_of(flags)}, nowhere);
}

template <const posting &what, DAT_COUNT ep::*most>
[[gnu::noinline]] DAT_RETURN
post_at(DAT_EP_HANDLE ep_handle, DAT_COUNT segments, DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie,
        const DAT_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS flags) noexcept {
    ep *const one = called_with<ep>(ep_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_EP);
    if (remote == nullptr)
        return wrong_argument(5);
    std::uint32_t length;
    const DAT_RETURN result = check(*one, segments, iov, one->*most, length);
    if (result != DAT_SUCCESS)
        return result;
    return post(*one, what, {segments, iov, length, cookie.as_64, flags_of(flags)}, at{*remote});
}

[[gnu::noinline]] DAT_RETURN post_receive(DAT_EP_HANDLE ep_handle, DAT_COUNT segments,
                                          DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie) noexcept {
    ep *const one = called_with<ep>(ep_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_EP);
    if (segments < 0 || segments > one->recv_iov)
        return one->shares ? wrong_state(DAT_INVALID_STATE_SRQ_IN_USE) : wrong_argument(2);
    if (iov == nullptr && segments != 0)
        return wrong_argument(3);
    ibv_recv_wr wanted = {0, nullptr, nullptr, segments}, *refused;
    const holding held(one->receives.guard);
    record *const next = one->receives.next();
    if (next == nullptr)
        return no_room_to_receive(*one);
    fill_receive(*next, wanted, iov, cookie.as_64);
    one->receives.posted(*next);
    if (const int error = ibv_post_recv(one->qp, &wanted, &refused)) {
        one->receives.not_posted();
        return failed_with(error, DAT_RESOURCE_MEMORY);
    }
    return DAT_SUCCESS;
}

} // namespace

DAT_RETURN no_room(const ep &one) noexcept {
    return one.qp == nullptr || !one.takes_requests() ? wrong_state(subtype_of(one.now()))
                                                      : exhausted(DAT_RESOURCE_MEMORY);
}

DAT_RETURN ep_post_send(DAT_EP_HANDLE ep_handle, DAT_COUNT segments, DAT_LMR_TRIPLET *iov,
                        DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags) noexcept {
    ep *const one = called_with<ep>(ep_handle);
    std::uint32_t length;
    unsigned of_verbs;
    if (begin(one, send, segments, iov, flags, length, of_verbs)) [[likely]]
        return end(*one, send, {1, iov, length, cookie.as_64, of_verbs}, nowhere);
    return post_send(ep_handle, segments, iov, cookie, flags);
}

DAT_RETURN ep_post_send_with_invalidate(DAT_EP_HANDLE ep_handle, DAT_COUNT segments,
                                        DAT_LMR_TRIPLET *iov, DAT_DTO_COOKIE cookie,
                                        DAT_COMPLETION_FLAGS flags, DAT_BOOLEAN invalidate,
                                        DAT_RMR_CONTEXT context) noexcept {
    if (invalidate == DAT_FALSE)
        return ep_post_send(ep_handle, segments, iov, cookie, flags);
    ep *const one = called_with<ep>(ep_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_EP);
    std::uint32_t length;
    const DAT_RETURN result = check(*one, segments, iov, one->request_iov, length);
    if (result != DAT_SUCCESS)
        return result;
    const device &on = *one->home->on;
    if (!on.iwarp && (on.limits.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS) == 0)
        return failed(DAT_MODEL_NOT_SUPPORTED);
    return post(*one, send_and_invalidate, {segments, iov, length, cookie.as_64, flags_of(flags)},
                [context](ibv_send_wr &wanted) { wanted.invalidate_rkey = context; });
}

DAT_RETURN ep_post_rdma_write(DAT_EP_HANDLE ep_handle, DAT_COUNT segments, DAT_LMR_TRIPLET *iov,
                              DAT_DTO_COOKIE cookie, const DAT_RMR_TRIPLET *remote,
                              DAT_COMPLETION_FLAGS flags) noexcept {
    ep *const one = called_with<ep>(ep_handle);
    std::uint32_t length;
    unsigned of_verbs;
    if (remote != nullptr && begin(one, write, segments, iov, flags, length, of_verbs)) [[likely]]
        return end(*one, write, {1, iov, length, cookie.as_64, of_verbs}, at{*remote});
    return post_at<write, &ep::write_iov>(ep_handle, segments, iov, cookie, remote, flags);
}

DAT_RETURN ep_post_rdma_read(DAT_EP_HANDLE ep_handle, DAT_COUNT segments, DAT_LMR_TRIPLET *iov,
                             DAT_DTO_COOKIE cookie, const DAT_RMR_TRIPLET *remote,
                             DAT_COMPLETION_FLAGS flags) noexcept {
    ep *const one = called_with<ep>(ep_handle);
    std::uint32_t length;
    unsigned of_verbs;
    if (remote != nullptr && begin(one, read, segments, iov, flags, length, of_verbs)) [[likely]]
        return end(*one, read, {1, iov, length, cookie.as_64, of_verbs}, at{*remote});
    return post_at<read, &ep::read_iov>(ep_handle, segments, iov, cookie, remote, flags);
}

// The sink is named as a peer would name it. Its own key is that of the region behind.
DAT_RETURN ep_post_rdma_read_to_rmr(DAT_EP_HANDLE ep_handle, const DAT_RMR_TRIPLET *local,
                                    DAT_DTO_COOKIE cookie, const DAT_RMR_TRIPLET *remote,
                                    DAT_COMPLETION_FLAGS flags) noexcept {
    ep *const one = called_with<ep>(ep_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_EP);
    if (local == nullptr)
        return wrong_argument(2);
    if (remote == nullptr)
        return wrong_argument(4);
    DAT_LMR_TRIPLET sink = {local->virtual_address, local->segment_length, 0};
    if (!behind(*one->home, *local, sink))
        return failed(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_RDMA_WRITE);
    return ep_post_rdma_read(ep_handle, 1, &sink, cookie, remote, flags);
}

DAT_RETURN ep_post_recv(DAT_EP_HANDLE ep_handle, DAT_COUNT segments, DAT_LMR_TRIPLET *iov,
                        DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS) noexcept {
    ep *const one = called_with<ep>(ep_handle);
    if (one == nullptr || segments != 1 || iov == nullptr || one->recv_iov == 0 ||
        !one->receives.guard.try_it()) [[unlikely]]
        return post_receive(ep_handle, segments, iov, cookie);
    record *const next = one->receives.next();
    if (next == nullptr) [[unlikely]]
        return full_of_receives(*one);
    fill_receive(*next, one->wanted_receive, iov, cookie.as_64);
    one->receives.posted(*next);
    const int error = ibv_post_recv(one->qp, &one->wanted_receive, &one->refused_receive);
    if (error != 0) [[unlikely]]
        return refuse(one->receives, error);
    return one->receives.guard.give_back() ? wake(one->receives) : static_cast<DAT_RETURN>(error);
}

} // namespace coherdma::dapl
