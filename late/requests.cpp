// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "requests.hpp"

#include "program_bytes.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <new>

namespace coherdma::late {
namespace {

using interposer::request;

constexpr std::size_t MAX_REGISTERED = std::size_t{256} << 20; ///< bytes of this process

std::size_t align_up(std::size_t size) noexcept {
    return (size + buffer_pool::ALIGNMENT - 1) / buffer_pool::ALIGNMENT * buffer_pool::ALIGNMENT;
}

bool names_part(const known_mr &mr, const ibv_sge &sge) noexcept {
    return sge.addr >= mr.begin && sge.addr - mr.begin <= mr.length &&
           sge.length <= mr.length - (sge.addr - mr.begin);
}

/// Calls func(target, its offset in a buffer): each is aligned as the program's memory. Returns the
/// size of the buffer.
template <class function>
std::size_t lay_out(std::vector<held_target> &targets, function func) {
    std::size_t end = 0;
    for (held_target &target : targets) {
        const std::size_t offset = align_up(end) + target.addr % buffer_pool::ALIGNMENT;
        func(target, offset);
        end = offset + target.length;
    }
    return align_up(end);
}

std::size_t size_of(std::vector<held_target> &targets) noexcept {
    return lay_out(targets, [](const held_target &, std::size_t) {});
}

} // namespace

void late_requests::add_mr(const known_mr &mr, const ibv_context *context) {
    const locked lock(mutex_);
    mr_of_lkey_[{context, mr.lkey}] = mr.number; // one that had it is about to be removed
    mrs_.insert_or_assign(mr.number, mr);
}

void late_requests::remove_mr(const ibv_context *context, object_number number) noexcept {
    const locked lock(mutex_);
    const auto it = mrs_.find(number);
    if (it == mrs_.end())
        return;
    if (const auto key = mr_of_lkey_.find({context, it->second.lkey});
        key != mr_of_lkey_.end() && key->second == number)
        mr_of_lkey_.erase(key);
    for (auto &[pd, pool] : pools_)
        pool.is_exhausted = false; // the kernel may pin more again
    if (it->second.num_targets != 0)
        for_each_target([=](held_target &target) { target.is_gone |= target.mr == number; });
    mrs_.erase(it);
}

void late_requests::leave_mr(const ibv_mr &mr) noexcept {
    const locked lock(mutex_);
    std::erase_if(mr_of_lkey_, [&](const auto &key) {
        const auto it = mrs_.find(key.second);
        return it != mrs_.end() && it->second.handle == &mr;
    });
}

void late_requests::add_queue(const void *handle, known_queue added) {
    const locked lock(mutex_);
    // One that has this address was freed by the driver, and its on_destroy() is about to come.
    if (const auto it = queues_.find(handle); it != queues_.end())
        drop_all(it->second);
    queues_.insert_or_assign(handle, std::move(added));
}

void late_requests::reset_queue(const void *handle) noexcept {
    const locked lock(mutex_);
    if (const auto it = queues_.find(handle); it != queues_.end())
        drop_all(it->second);
}

void late_requests::remove_queue(const void *handle, object_number number) noexcept {
    const locked lock(mutex_);
    const auto it = queues_.find(handle);
    if (it == queues_.end() || it->second.number != number)
        return;
    drop_all(it->second);
    queues_.erase(it);
}

void late_requests::release_memory(const ibv_pd *pd) {
    buffer_pool::chunks unused; // destroyed when the mutex is not locked
    const locked lock(mutex_);
    const auto it = pools_.find(pd);
    if (it == pools_.end())
        return;
    unused = it->second.take_unused();
    for (const auto &chunk : unused)
        num_registered_ -= chunk->size();
    it->second.is_exhausted = false;
}

void late_requests::release_memory(const ibv_context *context) {
    std::vector<const ibv_pd *> pds;
    {
        const locked lock(mutex_);
        for (const auto &[pd, pool] : pools_)
            if (pool.context() == context)
                pds.push_back(pd);
    }
    for (const ibv_pd *const pd : pds)
        release_memory(pd);
}

void late_requests::remove_context(const ibv_context *context) noexcept {
    const locked lock(mutex_);
    for (auto it = queues_.begin(); it != queues_.end();) {
        const bool is_closed = it->second.context == context;
        if (is_closed)
            drop_all(it->second);
        it = is_closed ? queues_.erase(it) : std::next(it);
    }
    std::erase_if(mr_of_lkey_, [&](const auto &key) {
        const bool is_closed = key.first.first == context;
        if (is_closed)
            mrs_.erase(key.second);
        return is_closed;
    });
    for (auto it = pools_.begin(); it != pools_.end();) {
        const bool is_closed = it->second.context() == context;
        for (const auto &chunk : is_closed ? it->second.take_all() : buffer_pool::chunks()) {
            num_registered_ -= chunk->size();
            chunk->note_closed_device();
        }
        it = is_closed ? pools_.erase(it) : std::next(it);
    }
}

/// With the mutex. nullptr: the SGE is left to the device.
const known_mr *late_requests::find_mr(const known_queue &queue, const ibv_sge &sge,
                                       int access) noexcept {
    const auto key = mr_of_lkey_.find({queue.context, sge.lkey});
    const auto it = key != mr_of_lkey_.end() ? mrs_.find(key->second) : mrs_.end();
    if (it == mrs_.end() || it->second.pd->handle != queue.pd_handle ||
        (it->second.access & access) != access || !names_part(it->second, sge))
        return nullptr;
    return &it->second;
}

/// With the mutex. Without a buffer. No value: the request is left to the device.
std::optional<held_request> late_requests::make_request(const request &posted,
                                                        std::span<ibv_sge> sges, int access) {
    const auto queue = queues_.find(posted.queue);
    if (queue == queues_.end() || sges.empty() ||
        sges.size() >
            (posted.is_receive ? queue->second.max_receive_sges : queue->second.max_send_sges))
        return std::nullopt;
    held_request made;
    made.is_receive = posted.is_receive;
    made.sges.assign(sges.begin(), sges.end());
    for (const ibv_sge &sge : sges) {
        if (sge.length == 0)
            continue;
        const known_mr *const mr = find_mr(queue->second, sge, access);
        if (mr == nullptr)
            return std::nullopt;
        made.targets.push_back(
            {.addr = mr->memory + (sge.addr - mr->begin), .length = sge.length, .mr = mr->number});
        made.pd = mr->pd;
    }
    return made.targets.empty() ? std::nullopt : std::optional(std::move(made));
}

/// With the mutex. False: a chunk must be added.
bool late_requests::take_buffer(held_request &held) {
    held.buffers.reserve(1);
    const auto buffer = pools_[held.pd].take(*held.pd, size_of(held.targets));
    if (!buffer)
        return false;
    held.buffers.push_back(*buffer);
    lay_out(held.targets, [&](held_target &target, std::size_t offset) {
        target.bytes = buffer->begin + offset;
    });
    auto target = held.targets.begin();
    for (ibv_sge &sge : held.sges)
        if (sge.length != 0) {
            sge.addr = reinterpret_cast<std::uintptr_t>(target++->bytes);
            sge.lkey = buffer->chunk->lkey();
        }
    return true;
}

void late_requests::say_exhausted(const ibv_pd &pd, const char *reason) noexcept {
    if (!has_said_exhausted_.exchange(true, std::memory_order_relaxed))
        std::fprintf(stderr,
                     "coherdma: %s: the device delivers the data of some requests at once, and not "
                     "late: no more memory is registered: %s\n",
                     ibv_get_device_name(pd.context->device), reason);
}

/// False: no more memory can be registered with the PD.
bool late_requests::add_chunk(ibv_pd &pd, std::size_t size) {
    const char *reason = "256 MiB are enough";
    std::size_t chunk_size = 0;
    {
        const locked lock(mutex_);
        buffer_pool &pool = pools_[&pd];
        if (pool.is_exhausted)
            return false;
        for (const std::size_t possible : {pool.next_size(size), buffer_pool::whole_pages(size)})
            if (chunk_size == 0 && possible <= MAX_REGISTERED - num_registered_)
                chunk_size = possible;
        num_registered_ += chunk_size;
    }
    std::unique_ptr<registered_chunk> chunk;
    if (chunk_size != 0) {
        chunk = registered_chunk::make(pd, chunk_size);
        reason = std::strerror(errno);
    }
    if (chunk == nullptr)
        say_exhausted(pd, reason);
    const locked lock(mutex_);
    buffer_pool &pool = pools_[&pd];
    if (chunk == nullptr) {
        num_registered_ -= chunk_size;
        pool.is_exhausted = chunk_size != 0; // else a smaller request may have room
        return false;
    }
    pool.add(std::move(chunk), pd.context);
    return true;
}

/// The SGEs of the request; nullptr: its queue is being destroyed, or there is no memory.
ibv_sge *late_requests::keep(const request &posted, const held_request &added) noexcept try {
    const locked lock(mutex_);
    const auto queue = queues_.find(posted.queue);
    if (queue == queues_.end())
        return nullptr;
    for (const held_target &target : added.targets)
        targets_.add(target.addr, target.addr + target.length, [](auto...) {});
    held_request &kept = queue->second.held.insert_or_assign(posted.number, added).first->second;
    for (const held_target &target : kept.targets)
        if (const auto mr = mrs_.find(target.mr); mr != mrs_.end())
            ++mr->second.num_targets;
    return kept.sges.data();
} catch (const std::bad_alloc &) { // ranges that stay cost a look when memory is freed
    return nullptr;
}

void late_requests::hold(const request &posted, ibv_sge *&sg_list, int num_sge, int access) {
    if (!posted.is_followed)
        return;
    const std::span<ibv_sge> sges(sg_list, static_cast<std::size_t>(std::max(num_sge, 0)));
    std::optional<held_request> made;
    bool has_buffer = false;
    while (!has_buffer) {
        {
            const locked lock(mutex_);
            made = make_request(posted, sges, access);
            if (!made)
                return;
            has_buffer = take_buffer(*made);
        }
        if (!has_buffer && !add_chunk(*made->pd, size_of(made->targets)))
            return;
    }
    // The buffer is this request's: nothing else uses it.
    const bool is_filled =
        std::all_of(made->targets.begin(), made->targets.end(), [](const held_target &target) {
            return read_program(target.addr, target.bytes, target.length);
        });
    ibv_sge *const kept = is_filled ? keep(posted, *made) : nullptr;
    if (kept != nullptr) {
        sg_list = kept;
        return;
    }
    const locked lock(mutex_);
    release(*made);
}

void late_requests::forward(const request &sent, ibv_sge *&sg_list, int num_sge) {
    const locked lock(mutex_);
    const auto queue = queues_.find(sent.queue);
    if (queue == queues_.end() || num_sge <= 0 ||
        static_cast<std::size_t>(num_sge) > queue->second.max_send_sges)
        return;
    held_request made;
    made.sges.assign(sg_list, sg_list + num_sge);
    for (ibv_sge &sge : made.sges)
        use_target(queue->second, sge, made.buffers);
    if (made.buffers.empty())
        return;
    held_request &kept =
        queue->second.held.insert_or_assign(sent.number, std::move(made)).first->second;
    for (const device_buffer &buffer : kept.buffers)
        buffer.chunk->add_use(buffer.begin);
    sg_list = kept.sges.data();
}

/// With the mutex. If the SGE names a part of a target of a send, names it where the device writes
/// it, and adds the buffer.
void late_requests::use_target(const known_queue &queue, ibv_sge &sge,
                               std::vector<device_buffer> &buffers) {
    const known_mr *const mr = sge.length != 0 ? find_mr(queue, sge, 0) : nullptr;
    if (mr == nullptr)
        return;
    const std::uintptr_t addr = mr->memory + (sge.addr - mr->begin);
    std::uint64_t last = 0; // number of the request that brings it
    for (const auto &[number, held] : queue.held)
        for (const held_target &target : held.targets) {
            if (held.is_receive || number < last || addr < target.addr ||
                addr - target.addr > target.length ||
                sge.length > target.length - (addr - target.addr))
                continue;
            if (last != 0)
                buffers.pop_back();
            last = number;
            buffers.push_back(held.buffers.front());
            sge.addr = reinterpret_cast<std::uintptr_t>(target.bytes) + (addr - target.addr);
            sge.lkey = held.buffers.front().chunk->lkey();
        }
}

bool late_requests::holds(const request &posted) noexcept {
    const locked lock(mutex_);
    const auto queue = queues_.find(posted.queue);
    return queue != queues_.end() && queue->second.held.contains(posted.number);
}

std::optional<held_request> late_requests::take(const request &completed) noexcept {
    const locked lock(mutex_);
    const auto queue = queues_.find(completed.queue);
    if (queue == queues_.end())
        return std::nullopt;
    auto node = queue->second.held.extract(completed.number);
    if (!node)
        return std::nullopt;
    end_targets(node.mapped());
    return std::move(node.mapped());
}

void late_requests::deliver(const request &completed, std::size_t num_bytes) noexcept {
    const std::optional<held_request> held = take(completed);
    if (!held)
        return;
    for (const held_target &target : held->targets) {
        const std::size_t length = std::min(num_bytes, target.length);
        if (length != 0 && !target.is_gone)
            write_program(target.addr, target.bytes, length);
        num_bytes -= length;
    }
    const locked lock(mutex_);
    release(*held);
}

/// With the mutex. Gives its buffers back, unless the device was closed.
void late_requests::release(const held_request &held) noexcept {
    for (const device_buffer &buffer : held.buffers) {
        const auto pool = pools_.find(buffer.pd);
        if (pool != pools_.end() && pool->second.has(buffer.chunk))
            buffer.chunk->give_back(buffer.begin, buffer.size);
    }
}

/// With the mutex. Its memory is the program's again.
void late_requests::end_targets(const held_request &held) noexcept {
    for (const held_target &target : held.targets) {
        if (const auto mr = mrs_.find(target.mr); mr != mrs_.end())
            --mr->second.num_targets;
        try {
            targets_.remove(target.addr, target.addr + target.length, [](auto...) {});
        } catch (const std::bad_alloc &) { // more is looked at than must be when memory is freed
        }
    }
}

/// With the mutex.
void late_requests::drop_all(known_queue &queue) noexcept {
    for (const auto &[number, held] : queue.held) {
        end_targets(held);
        release(held);
    }
    queue.held.clear();
}

/// With the mutex.
template <class function>
void late_requests::for_each_target(function func) noexcept {
    for (auto &[handle, queue] : queues_)
        for (auto &[number, held] : queue.held)
            for (held_target &target : held.targets)
                func(target);
}

void late_requests::forget_memory(std::uintptr_t begin, std::uintptr_t end) noexcept {
    const locked lock(mutex_);
    if (!targets_.overlaps(begin, end))
        return;
    for_each_target([=](held_target &target) {
        target.is_gone |= target.addr < end && begin < target.addr + target.length;
    });
}

} // namespace coherdma::late
