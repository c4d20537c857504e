// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "sync.hpp"

#include "mr.hpp"
#include "peer.hpp"

#include <cstdio>
#include <new>
#include <unistd.h>

namespace coherdma::rpma {

/// Logs the first error of some syncs when it is destroyed. The log function may call librpma, so
/// this must be defined before the lock is taken.
class sync_log {
  public:
    sync_log() = default;
    sync_log(const sync_log &) = delete;
    ~sync_log() {
        if (error_ != 0)
            RPMA_LOG(RPMA_LOG_LEVEL_ERROR, "cannot sync memory: %s", text_);
    }
    /// error: of a sync just made; EFAULT means that the program has unmapped some of the memory.
    void add(int error) noexcept {
        if (error == 0 || error == EFAULT || error_ != 0)
            return;
        error_ = error;
        std::snprintf(text_, sizeof text_, "%s", coherdma_error());
    }

  private:
    int error_ = 0;
    char text_[256] = "";
};

namespace {

coherdma_range to_range(const rpma_mr_local &mr) noexcept {
    return {.addr = mr.mr->addr, .length = mr.mr->length};
}

coherdma_range to_range(const ibv_sge &memory) noexcept {
    return {.addr = reinterpret_cast<const void *>(static_cast<std::uintptr_t>(memory.addr)),
            .length = memory.length};
}

/// The range, extended to whole pages.
coherdma_range to_pages(const coherdma_range &range) noexcept {
    const auto page_size = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const auto begin = reinterpret_cast<std::uintptr_t>(range.addr) / page_size * page_size;
    const auto end = reinterpret_cast<std::uintptr_t>(range.addr) + range.length;
    const auto pages_end = (end + page_size - 1) / page_size * page_size;
    return {.addr = reinterpret_cast<const void *>(begin), .length = pages_end - begin};
}

bool is_receive(ibv_wc_opcode opcode) noexcept {
    return opcode == IBV_WC_RECV || opcode == IBV_WC_RECV_RDMA_WITH_IMM;
}

} // namespace

void request_list::push_back(sync_request &request) noexcept {
    request.prev = tail_;
    request.next = nullptr;
    (tail_ != nullptr ? tail_->next : head_) = &request;
    tail_ = &request;
}

void request_list::remove(sync_request &request) noexcept {
    (request.prev != nullptr ? request.prev->next : head_) = request.next;
    (request.next != nullptr ? request.next->prev : tail_) = request.prev;
}

sync_request *request_list::pop_front() noexcept {
    sync_request *const request = head_;
    if (request != nullptr)
        remove(*request);
    return request;
}

int device_sync::open(ibv_context &context, device_sync *&result) noexcept {
    result = nullptr;
    // Programs may unmap memory that is registered: then a sync fails, instead of a fault.
    coherdma_open_attr open_attr = {};
    open_attr.flags = COHERDMA_OPEN_CHECK_MEMORY;
    open_attr.context = &context;
    unique_handle<coherdma_device, coherdma_close_device> device(
        coherdma_open_device_ex(&open_attr, sizeof open_attr));
    coherdma_device_attr attr = {};
    if (device == nullptr || coherdma_query_device(device.get(), &attr, sizeof attr) != 0) {
        RPMA_LOG_ERRNO(errno, "%s: %s", ibv_get_device_name(context.device), coherdma_error());
        return errno == ENOMEM ? RPMA_E_NOMEM : RPMA_E_PROVIDER;
    }
    if (attr.sync_required == 0)
        return 0;
    result = new (std::nothrow) device_sync;
    if (result == nullptr)
        return RPMA_E_NOMEM;
    result->device_ = std::move(device);
    return 0;
}

// acq_rel: the thread that destroys it sees what the others did.
void device_sync::release() noexcept {
    if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1)
        delete this;
}

device_sync::~device_sync() {
    while (sync_request *const request = free_requests_.pop_front())
        delete request;
}

void device_sync::add(rpma_mr_local &mr) noexcept {
    const std::lock_guard guard(lock_);
    mr.next = mrs_;
    mrs_ = &mr;
}

void device_sync::remove(rpma_mr_local &mr) noexcept {
    sync_log log;
    const std::lock_guard guard(lock_);
    rpma_mr_local **link = &mrs_;
    while (*link != &mr)
        link = &(*link)->next;
    *link = mr.next;
    const coherdma_range range = to_range(mr), pages = to_pages(range);
    log.add(coherdma_sync_before_read(device_.get(), &pages, 1));
    if ((mr.usage & RPMA_MR_USAGE_WRITE_DST) != 0)
        log.add(coherdma_sync_after_write(device_.get(), &range, 1));
}

void device_sync::sync_before_peer() noexcept {
    sync_log log;
    const std::lock_guard guard(lock_);
    coherdma_batch batch;
    coherdma_batch_begin(&batch, device_.get());
    for (const rpma_mr_local *mr = mrs_; mr != nullptr; mr = mr->next) {
        const std::uint32_t phases =
            ((mr->usage & RPMA_MR_USAGE_READ_SRC) != 0 ? std::uint32_t{COHERDMA_BEFORE_READ} : 0) |
            ((mr->usage & RPMA_MR_USAGE_WRITE_DST) != 0 ? std::uint32_t{COHERDMA_BEFORE_WRITE} : 0);
        const coherdma_range range = to_range(*mr);
        if (phases != 0)
            coherdma_batch_add(&batch, &range, 1, phases); // batch_end() returns the error
    }
    log.add(coherdma_batch_end(&batch));
}

void device_sync::sync_after_peer() noexcept {
    sync_log log;
    const std::lock_guard guard(lock_);
    coherdma_batch batch;
    coherdma_batch_begin(&batch, device_.get());
    for (const rpma_mr_local *mr = mrs_; mr != nullptr; mr = mr->next) {
        const coherdma_range range = to_range(*mr);
        if ((mr->usage & RPMA_MR_USAGE_WRITE_DST) != 0)
            coherdma_batch_add(&batch, &range, 1, COHERDMA_AFTER_WRITE);
    }
    log.add(coherdma_batch_end(&batch));
}

/// The request that has been free for longest, or a new one; nullptr: no memory. A request is used
/// again only after many others: siw completes some Reads twice, and the second CQE must not name
/// another request.
sync_request *device_sync::get_free() noexcept {
    constexpr std::size_t MIN_FREE = 64;
    if (num_free_ < MIN_FREE)
        return new (std::nothrow) sync_request;
    --num_free_;
    return free_requests_.pop_front();
}

void device_sync::add_free(sync_request &request) noexcept {
    request.queue = nullptr;
    free_requests_.push_back(request);
    ++num_free_;
}

void device_sync::complete_locked(sync_request &request, sync_log &log) noexcept {
    if (request.sink.length != 0)
        log.add(coherdma_sync_for_cpu(device_.get(), &request.sink, 1, COHERDMA_FROM_DEVICE));
    request.queue->requests_.remove(request);
    add_free(request);
}

void device_sync::complete(ibv_wc &wc) noexcept {
    const bool may_follow_write = wc.status == IBV_WC_SUCCESS && is_receive(wc.opcode);
    auto &request = *reinterpret_cast<sync_request *>(static_cast<std::uintptr_t>(wc.wr_id));
    {
        sync_log log;
        const std::lock_guard guard(lock_);
        wc.wr_id = request.op_context;
        sync_queue *const queue = request.queue;
        while (queue != nullptr && queue->is_ordered_ && queue->requests_.front() != &request)
            complete_locked(*queue->requests_.front(), log);
        if (queue != nullptr)
            complete_locked(request, log);
    }
    if (may_follow_write)
        sync_after_peer();
}

int create_sync_queue(const rpma_peer &peer, bool is_ordered,
                      std::unique_ptr<sync_queue> &queue) noexcept {
    if (peer.sync == nullptr)
        return 0;
    queue.reset(new (std::nothrow) sync_queue(*peer.sync, is_ordered));
    return queue != nullptr ? 0 : RPMA_E_NOMEM;
}

sync_queue::~sync_queue() {
    const std::lock_guard guard(sync_->lock_);
    while (sync_request *const request = requests_.pop_front())
        sync_->add_free(*request);
}

void sync_queue::sync_for_device(const ibv_sge &memory, access device_access) noexcept {
    const coherdma_range range = to_range(memory);
    sync_log log;
    log.add(coherdma_sync_for_device(sync_->device_.get(), &range, 1,
                                     device_access == access::writes ? COHERDMA_FROM_DEVICE
                                                                     : COHERDMA_TO_DEVICE));
}

sync_request *sync_queue::begin(const void *op_context, const ibv_sge &memory,
                                access device_access) noexcept {
    const std::lock_guard guard(sync_->lock_);
    sync_request *const request = sync_->get_free();
    if (request == nullptr)
        return nullptr;
    request->op_context = reinterpret_cast<std::uintptr_t>(op_context);
    request->sink = device_access == access::writes ? to_range(memory) : coherdma_range{};
    request->queue = this;
    requests_.push_back(*request);
    return request;
}

void sync_queue::cancel(sync_request &request) noexcept {
    const std::lock_guard guard(sync_->lock_);
    requests_.remove(request);
    sync_->add_free(request);
}

} // namespace coherdma::rpma
