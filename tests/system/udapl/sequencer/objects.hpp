// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The DAT objects that the threads share, each with what its handle may be used for and what
// queries must return.

#pragma once

#include "attempts.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <dat2/udat.h>
#include <memory>
#include <mutex>

namespace sequencer {

constexpr std::size_t num_types = DAT_HANDLE_TYPE_EXTENSION_BASE;

/// The handle of a freed object is not reused before so many later frees of its type.
constexpr std::uint64_t min_later_frees = 1000;

struct object {
    object(DAT_HANDLE_TYPE handle_type, DAT_HANDLE dat_handle, object *owner)
        : type(handle_type)
        , handle(dat_handle)
        , ia(owner != nullptr ? owner : this) {}

    const DAT_HANDLE_TYPE type;
    const DAT_HANDLE handle;
    object *const ia;         ///< of an IA: itself
    std::uint32_t serial = 0; ///< unique in the process: the high half of its consumer context

    std::atomic<unsigned> num_users = 0; ///< calls in progress that use its handle

    // Calls that free it: how many began, how many are in progress, whether one succeeded.
    std::atomic<unsigned> free_attempts = 0, active_frees = 0;
    std::atomic<bool> freed = false;
    /// num_frees() of each type when its free began; of another object than an IA: only of its own
    /// type.
    std::array<std::atomic<std::uint64_t>, num_types> num_frees_before = {};

    bool is_freed() const {
        return freed.load(std::memory_order_acquire) || ia->freed.load(std::memory_order_acquire);
    }

    // What it was created with.
    object *pz = nullptr, *recv_evd = nullptr, *request_evd = nullptr, *connect_evd = nullptr,
           *srq = nullptr, *evd = nullptr;
    object *ep = nullptr;       ///< of a CR: the EP that the library created for it
    object *local_ep = nullptr; ///< of a CR: that, or the EP that an RSP reserved
    DAT_EVD_FLAGS evd_flags{};
    DAT_COUNT length = 0; ///< of an EVD or SRQ: the number of entries it was created with
    DAT_LMR_TRIPLET triplet{};
    DAT_RMR_CONTEXT rmr_context = 0;
    DAT_MEM_PRIV_FLAGS privileges{};
    DAT_RMR_SCOPE rmr_scope{};
    DAT_CONN_QUAL conn_qual = 0;
    DAT_PSP_FLAGS psp_flags{};
    bool has_fd = false;                 ///< a CNO
    bool is_async_evd = false;           ///< created by dat_ia_open
    bool is_dequeued_under_lock = false; ///< an EVD from which events are taken under dequeue_lock

    bool is_datagram = false; ///< an EP

    std::mutex dequeue_lock;
    attempt_history attempts; ///< of an EP

    // What other calls have changed.
    std::atomic<bool> is_ep_of_pending_cr =
        false; ///< an EP that the library created for a pending CR
    /// A call of dat_ep_modify, or of a resize, has begun: what queries return is not known.
    std::atomic<bool> maybe_modified = false, maybe_resized = false;
    std::atomic<std::uint64_t> context = 0; ///< set by the last dat_set_consumer_context
    std::atomic<DAT_RMR_CONTEXT> bound_rmr_context = 0; ///< of an RMR
};

class object_table {
  public:
    static constexpr std::size_t num_slots = 24;

    object *get(DAT_HANDLE_TYPE type, std::size_t slot) const {
        return slots_.at(type).at(slot).load(std::memory_order_acquire);
    }
    /// Puts the object in a slot without a live object, the first after `slot`. False: there is
    /// none among max_objects.
    bool insert(object &obj, std::size_t slot, std::size_t max_objects);

    /// An upper limit of how many objects of the type have been freed, by calls that free and those
    /// that undo a create.
    std::uint64_t num_frees(DAT_HANDLE_TYPE type) const {
        return frees_.at(type).load(std::memory_order_relaxed);
    }
    void count_free(DAT_HANDLE_TYPE type, std::uint64_t number = 1) {
        frees_.at(type).fetch_add(number, std::memory_order_relaxed);
    }
    /// A call that frees the object if it succeeds is about to begin.
    void begin_free(object &obj);
    /// It has returned; `freed`: with success. Returns false if another one had already freed the
    /// object.
    bool end_free(object &obj, bool freed);
    /// How many frees of its type, with its own, there have been since the object was freed; 0: it
    /// is not freed.
    std::uint64_t num_later_frees(const object &obj) const;

    /// The last object with this handle, also a freed one: an EP or RMR, which events name.
    /// insert() notes it.
    object *find(DAT_HANDLE_TYPE type, DAT_HANDLE handle) const;
    void note_handle(object &obj);

    void clear(); ///< at the end of a round; the objects are the workers'

  private:
    static constexpr std::size_t num_handles = 1 << 16;
    static std::size_t hash(DAT_HANDLE handle);

    std::array<std::array<std::atomic<object *>, num_slots>, num_types> slots_ = {};
    std::array<std::atomic<std::uint64_t>, num_types> frees_ = {};
    /// Open addressing by the handle.
    struct handle_map {
        std::array<std::atomic<object *>, num_handles> objects = {};
    };
    std::unique_ptr<handle_map> eps_ = std::make_unique<handle_map>(),
                                rmrs_ = std::make_unique<handle_map>();
    /// nullptr: objects of this type are not found by their handle.
    handle_map *map_of_type(DAT_HANDLE_TYPE type) const;
};

} // namespace sequencer
