// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "cq.hpp"

#include "peer.hpp"

#include <new>

namespace coherdma::rpma {

int create_channel(ibv_context &context, unique_channel &channel) noexcept {
    channel.reset(ibv_create_comp_channel(&context));
    if (channel != nullptr)
        return 0;
    RPMA_LOG_ERRNO(errno, "ibv_create_comp_channel");
    return RPMA_E_PROVIDER;
}

int create_cq(rpma_peer &peer, int cqe, ibv_comp_channel *channel,
              std::unique_ptr<rpma_cq> &result) noexcept {
    std::unique_ptr<rpma_cq> cq(new (std::nothrow) rpma_cq);
    if (cq == nullptr)
        return RPMA_E_NOMEM;
    ibv_context &context = *peer.pd->context;
    cq->sync = share(peer.sync.get());
    cq->channel = channel;
    if (channel == nullptr) {
        if (const int ret = create_channel(context, cq->own_channel))
            return ret;
        cq->channel = cq->own_channel.get();
    }
    cq->cq.reset(ibv_create_cq(&context, cqe, nullptr, cq->channel, 0));
    if (cq->cq == nullptr) {
        RPMA_LOG_ERRNO(errno, "ibv_create_cq of %d entries", cqe);
        return RPMA_E_PROVIDER;
    }
    if (const int ret = cq->request_event())
        return ret;
    result = std::move(cq);
    return 0;
}

int destroy_cq(std::unique_ptr<rpma_cq> &cq) noexcept {
    if (cq == nullptr)
        return 0;
    first_error error;
    error.add(destroy_verbs(cq->cq, ibv_destroy_cq, "ibv_destroy_cq"));
    error.add(destroy_verbs(cq->own_channel, ibv_destroy_comp_channel, "ibv_destroy_comp_channel"));
    cq.reset();
    return error.get();
}

} // namespace coherdma::rpma

using namespace coherdma::rpma;

namespace {

/// num_polled: of ibv_poll_cq(). The RPMA_E_* value, with the reason in the log.
[[gnu::noinline]] int fail_poll(int num_polled, int num_entries) noexcept {
    if (num_polled == 0) {
        // Events may outnumber completions: one completion was polled before its event came.
        RPMA_LOG(RPMA_LOG_LEVEL_DEBUG, "no completion in the CQ");
        return RPMA_E_NO_COMPLETION;
    }
    if (num_polled < 0) {
        RPMA_LOG(RPMA_LOG_LEVEL_ERROR, "ibv_poll_cq failed: %d", num_polled);
        return RPMA_E_PROVIDER;
    }
    RPMA_LOG(RPMA_LOG_LEVEL_ERROR, "ibv_poll_cq returned %d completions, not at most %d",
             num_polled, num_entries);
    return RPMA_E_UNKNOWN;
}

/// 0, or an RPMA_E_* value. num_entries_got may be nullptr.
int poll(rpma_cq &cq, int num_entries, ibv_wc *wc, int *num_entries_got) noexcept {
    const int num_polled = ibv_poll_cq(cq.cq.get(), num_entries, wc);
    if (num_polled <= 0 || num_polled > num_entries)
        return fail_poll(num_polled, num_entries);
    if (num_entries_got != nullptr)
        *num_entries_got = num_polled;
    return 0;
}

/// The same if the device is not coherent.
[[gnu::noinline]] int poll_and_sync(rpma_cq &cq, int num_entries, ibv_wc *wc,
                                    int *num_entries_got) noexcept {
    int num_polled = 0;
    if (const int ret = poll(cq, num_entries, wc, &num_polled))
        return ret;
    for (int i = 0; i != num_polled; ++i)
        cq.sync->complete(wc[i]);
    if (num_entries_got != nullptr)
        *num_entries_got = num_polled;
    return 0;
}

} // namespace

void rpma_cq::drain() noexcept {
    ibv_wc wc = {};
    while (ibv_poll_cq(cq.get(), 1, &wc) > 0)
        sync->complete(wc);
}

int rpma_cq::fail_request(int error) noexcept {
    RPMA_LOG_ERRNO(error, "ibv_req_notify_cq");
    return RPMA_E_PROVIDER;
}

int rpma_cq_get_fd(const rpma_cq *cq, int *fd) {
    if (cq == nullptr || fd == nullptr)
        return RPMA_E_INVAL;
    *fd = cq->channel->fd;
    return 0;
}

int rpma_cq_wait(rpma_cq *cq) {
    if (cq == nullptr)
        return RPMA_E_INVAL;
    if (cq->own_channel == nullptr)
        return RPMA_E_SHARED_CHANNEL;
    ibv_cq *ibcq = nullptr; // the only one of the channel
    void *context = nullptr;
    if (ibv_get_cq_event(cq->channel, &ibcq, &context) != 0)
        return RPMA_E_NO_COMPLETION;
    return cq->ack_event();
}

int rpma_cq_get_wc(rpma_cq *cq, int num_entries, ibv_wc *wc, int *num_entries_got) {
    if (cq == nullptr || num_entries < 1 || wc == nullptr ||
        (num_entries > 1 && num_entries_got == nullptr))
        return RPMA_E_INVAL;
    if (cq->sync != nullptr) [[unlikely]]
        return poll_and_sync(*cq, num_entries, wc, num_entries_got);
    return poll(*cq, num_entries, wc, num_entries_got);
}
