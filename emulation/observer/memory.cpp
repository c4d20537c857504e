// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Registration: the driver registers the device's pages, in place of the program's. Memory that
// cannot have a second copy is registered as the program asks, with a note: see
// register_not_emulated().

#include "memory.hpp"

#include "alias_reg.hpp"
#include "peer_ipc.hpp"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>

namespace coherdma::emulation {
namespace {

using interposer::memory_kind;
using interposer::registrar;
using interposer::registration;

struct mr_deleter {
    void operator()(ibv_mr *mr) const noexcept { ibv_dereg_mr(mr); }
};

ibv_mr *fail(int error) noexcept {
    errno = error;
    return nullptr;
}

/// Notes that memory of this kind is registered without emulation. mr: the driver's result.
ibv_mr *note_not_emulated(const char *kind, ibv_mr *mr) {
    if (mr != nullptr)
        process_state().log.note(std::string(kind) +
                                 " is not emulated: the device accesses the program's memory");
    return mr;
}

/// Whether a peer may get this access, by the MR or by an MW, which may allow what its MR does not.
bool may_allow(int access_flags, int remote_flag) noexcept {
    return (access_flags & (remote_flag | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND)) != 0;
}

/// Makes the device's pages of the memory, and sets its number. Returns 0 or an errno.
int add_to_cache(const emulated_device &device, keyed_memory &memory,
                 std::vector<cache_model::page_mapping> &mappings) {
    memory_region added;
    added.range = memory.range;
    added.iova = memory.iova;
    added.remote_read = may_allow(memory.access_flags, IBV_ACCESS_REMOTE_READ);
    added.remote_write = may_allow(memory.access_flags, IBV_ACCESS_REMOTE_WRITE);
    added.device_name = device.name;
    if (process_state().config.stack_traces) {
        added.reg_stack = stack_trace::capture();
        added.alloc_stack =
            stack_trace::of_allocation(reinterpret_cast<const void *>(memory.range.begin));
    }
    const int error = process_state().cache.add_mr(added, mappings);
    if (error == ENOMEM)
        process_state().log.note("out of memory for the device's copy of a region of " +
                                 std::to_string(memory.range.size()) +
                                 " bytes: emulation needs 1.13 times the registered memory");
    memory.mr_number = added.number;
    return error;
}

/// siw knows memory only by the address that it was registered at: the device's pages are
/// registered there, and the MR gets their handle and keys. Returns 0 or an errno. The program's
/// memory is deregistered first: the kernel copies pages that are registered for a child.
int register_at_program_address(const registration &asked,
                                const std::vector<cache_model::page_mapping> &mappings,
                                ibv_mr &mr) {
    const auto begin = reinterpret_cast<std::uintptr_t>(asked.addr);
    const addr_range range = {begin, begin + asked.length};
    if (const int error = destroy_siw_mr(*asked.pd->context, mr.handle))
        return error;
    mr_handle_and_keys registered;
    const int error =
        register_alias(*asked.pd, mappings, range, asked.iova, asked.access, registered);
    if (error != 0) // the caller deregisters the MR: it must have a handle
        register_range(*asked.pd, range, asked.iova, asked.access, registered);
    mr.handle = registered.handle;
    mr.lkey = registered.lkey;
    mr.rkey = registered.rkey;
    return error;
}

/// Other devices know memory by an address of the program's choice: the MR is replaced by one of
/// the view. nullptr: errno is set.
ibv_mr *register_in_view(const registration &asked, const page_view &view, registrar &next) {
    if (!view.is_mapped())
        return nullptr;
    registration moved = asked;
    moved.addr = view.find(reinterpret_cast<std::uintptr_t>(asked.addr));
    moved.access &= ~IBV_ACCESS_HUGETLB; // the device's pages are ordinary ones
    ibv_mr *const mr = next.reg_mr(moved);
    if (mr != nullptr)
        mr->addr = asked.addr;
    return mr;
}

/// Whether libibverbs keeps the addresses of MRs, for a process that forks; not needed since Linux
/// 5.12. It asks the kernel each time, by a socket.
bool keeps_addresses_for_fork() noexcept {
    static std::atomic<bool> is_unneeded = false;
    if (is_unneeded)
        return false;
    const ibv_fork_status status = ibv_is_fork_initialized();
    is_unneeded = status == IBV_FORK_UNNEEDED;
    return status == IBV_FORK_ENABLED;
}

/// Only an MR of this process is emulated: find_memory_by_lkey() finds it.
ibv_mr *import_mr(const emulated_device &device, ibv_mr *mr) {
    bool is_known = false;
    if (mr != nullptr)
        for_each_device([&](emulated_device &other) {
            const std::shared_lock guard(other.mutex);
            is_known =
                is_known || (other.name == device.name && other.by_lkey.count(mr->lkey) != 0);
        });
    return is_known ? mr : note_not_emulated("memory registered by another process", mr);
}

ibv_mr *register_not_emulated(const emulated_device &device, const registration &asked,
                              registrar &next) {
    ibv_mr *const mr = next.reg_mr(asked);
    switch (asked.kind) {
    case memory_kind::PROGRAM:
        return note_not_emulated("memory registered for on-demand paging", mr);
    case memory_kind::DMABUF:
        return note_not_emulated("a dma-buf", mr);
    case memory_kind::DEVICE:
        return note_not_emulated("memory of the device", mr);
    case memory_kind::NO_MEMORY:
        return mr;
    case memory_kind::IMPORTED:
        return import_mr(device, mr);
    case memory_kind::OTHER:
        return note_not_emulated("memory registered by ibv_reg_mr_ex() or ibv_reg_buf_mr()", mr);
    }
    return mr;
}

/// Its keys lead to the memory.
void add_keys(emulated_device &device, const ibv_mr *mr, emulated_mr added) {
    const keyed_memory memory = added.memory;
    const std::uint32_t rkey = added.rkey;
    {
        const std::unique_lock guard(device.mutex);
        device.by_lkey[added.lkey] = device.by_rkey[added.rkey] = memory;
        device.by_mr.insert_or_assign(mr, std::move(added));
    }
    peer_ipc::publish_rkey(device, rkey, memory);
}

/// Its keys no longer lead to the memory. Without device.mutex.
void remove_rkey(emulated_device &device, std::uint32_t rkey) {
    peer_ipc::withdraw_rkey(device, rkey);
    const std::unique_lock guard(device.mutex);
    device.by_rkey.erase(rkey);
}

} // namespace

ibv_mr *register_memory(emulated_device &device, const registration &asked, registrar &next) {
    if (process_state().config.mode == cache_mode::PASSTHROUGH)
        return next.reg_mr(asked);
    if (asked.kind != memory_kind::PROGRAM || (asked.access & IBV_ACCESS_ON_DEMAND) != 0)
        return register_not_emulated(device, asked, next);
    // First the program's memory, for the kernel's errors: it may register the device's pages where
    // it refuses those.
    std::unique_ptr<ibv_mr, mr_deleter> mr(next.reg_mr(asked));
    if (mr == nullptr)
        return nullptr;
    const auto begin = reinterpret_cast<std::uintptr_t>(asked.addr);
    emulated_mr added;
    added.memory.range = {begin, begin + asked.length};
    added.memory.iova = asked.iova;
    added.memory.access_flags = asked.access;
    std::vector<cache_model::page_mapping> mappings;
    if (const int error = add_to_cache(device, added.memory, mappings)) {
        mr.reset(); // changes errno
        return fail(error);
    }
    int error = 0;
    if (device.driver == "siw") {
        error = register_at_program_address(asked, mappings, *mr);
    } else {
        mr.reset();
        added.view = page_view(mappings);
        mr.reset(register_in_view(asked, added.view, next));
        if (mr == nullptr)
            error = errno;
        else if (!keeps_addresses_for_fork())
            added.view = {}; // the device has the pages, and libibverbs does not keep the address
    }
    if (error != 0) {
        process_state().log.note("the device's copy of a region of " +
                                 std::to_string(asked.length) +
                                 " bytes cannot be registered: " + std::strerror(error));
        process_state().cache.remove_mr(added.memory.mr_number);
        mr.reset();
        return fail(error);
    }
    added.lkey = mr->lkey;
    added.rkey = mr->rkey;
    process_state().cache.set_keys(added.memory.mr_number, mr->lkey, mr->rkey);
    add_keys(device, mr.get(), std::move(added));
    return mr.release();
}

bool is_emulated(emulated_device &device, const ibv_mr &mr) {
    const std::shared_lock guard(device.mutex);
    return device.by_mr.count(&mr) != 0;
}

void begin_dereg(emulated_device &device, ibv_mr &mr, std::uint64_t object_number) {
    std::uint32_t rkey;
    {
        const std::unique_lock guard(device.mutex);
        auto node = device.by_mr.extract(&mr);
        if (!node)
            return;
        emulated_mr &ending = node.mapped();
        rkey = ending.rkey;
        device.by_lkey.erase(ending.lkey);
        if (ending.view.is_mapped())
            mr.addr = ending.view.find(ending.memory.range.begin); // as libibverbs registered it
        device.ending_mrs.insert_or_assign(object_number, std::move(ending));
    }
    remove_rkey(device, rkey);
}

void end_dereg(emulated_device &device, ibv_mr *mr, std::uint64_t object_number, int error) {
    decltype(device.ending_mrs)::node_type node;
    {
        const std::unique_lock guard(device.mutex);
        node = device.ending_mrs.extract(object_number);
    }
    if (!node)
        return;
    emulated_mr &ended = node.mapped();
    if (error == 0) {
        process_state().cache.remove_mr(ended.memory.mr_number);
        return;
    }
    if (ended.view.is_mapped())
        mr->addr = reinterpret_cast<void *>(ended.memory.range.begin);
    add_keys(device, mr, std::move(ended));
}

void change_registration(emulated_device &device, const ibv_mr &mr, int flags, int access) {
    keyed_memory memory;
    std::uint32_t former_rkey;
    {
        const std::unique_lock guard(device.mutex);
        const auto it = device.by_mr.find(&mr);
        if (it == device.by_mr.end())
            return;
        emulated_mr &changed = it->second;
        former_rkey = changed.rkey;
        device.by_lkey.erase(changed.lkey);
        device.by_rkey.erase(changed.rkey);
        if ((flags & IBV_REREG_MR_CHANGE_ACCESS) != 0)
            changed.memory.access_flags = access;
        changed.lkey = mr.lkey;
        changed.rkey = mr.rkey;
        memory = changed.memory;
        device.by_lkey[mr.lkey] = device.by_rkey[mr.rkey] = memory;
    }
    peer_ipc::withdraw_rkey(device, former_rkey);
    peer_ipc::publish_rkey(device, mr.rkey, memory);
    process_state().cache.set_keys(memory.mr_number, mr.lkey, mr.rkey);
    process_state().cache.set_remote_access(
        memory.mr_number, may_allow(memory.access_flags, IBV_ACCESS_REMOTE_READ),
        may_allow(memory.access_flags, IBV_ACCESS_REMOTE_WRITE));
}

void end_mw(emulated_device &device, const ibv_mw *mw) {
    std::uint32_t rkey;
    {
        const std::unique_lock guard(device.mutex);
        const auto node = device.bound_mws.extract(mw);
        if (!node)
            return;
        rkey = node.mapped().rkey;
        const auto mws = device.mws_of_qps.find(node.mapped().qp);
        if (mws != device.mws_of_qps.end() && mws->second.erase(mw) != 0 && mws->second.empty())
            device.mws_of_qps.erase(mws);
    }
    remove_rkey(device, rkey);
}

void invalidate_rkey(emulated_device &device, std::uint32_t rkey) {
    const ibv_mw *mw = nullptr;
    {
        const std::shared_lock guard(device.mutex);
        const auto it = device.by_rkey.find(rkey);
        if (it != device.by_rkey.end())
            mw = it->second.mw;
    }
    if (mw != nullptr)
        end_mw(device, mw);
}

void end_mws_of_qp(emulated_device &device, const void *qp) {
    std::unordered_set<const ibv_mw *> mws;
    {
        const std::shared_lock guard(device.mutex);
        const auto it = device.mws_of_qps.find(qp);
        if (it != device.mws_of_qps.end())
            mws = it->second;
    }
    for (const ibv_mw *const mw : mws)
        end_mw(device, mw);
}

void record_mw_bind(emulated_device &device, const ibv_qp *qp, const ibv_mw *mw, std::uint32_t rkey,
                    const ibv_mw_bind_info &bind_info) {
    end_mw(device, mw); // its former rkey
    if (bind_info.mr == nullptr || bind_info.length == 0)
        return;
    keyed_memory memory;
    {
        const std::unique_lock guard(device.mutex);
        const auto mr = device.by_lkey.find(bind_info.mr->lkey);
        if (mr == device.by_lkey.end())
            return;
        memory = mr->second;
        memory.range.begin += bind_info.addr - memory.iova;
        memory.range.end = memory.range.begin + bind_info.length;
        memory.access_flags = static_cast<int>(bind_info.mw_access_flags);
        memory.iova = (bind_info.mw_access_flags & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : bind_info.addr;
        memory.mw = mw;
        device.by_rkey[rkey] = memory;
        const bool is_of_qp = mw->type == IBV_MW_TYPE_2;
        device.bound_mws[mw] = {.rkey = rkey, .qp = is_of_qp ? qp : nullptr};
        if (is_of_qp)
            device.mws_of_qps[qp].insert(mw);
    }
    peer_ipc::publish_rkey(device, rkey, memory);
}

void forget_memory(emulated_device &device) {
    for (const auto &[rkey, memory] : device.by_rkey)
        peer_ipc::withdraw_rkey(device, rkey);
    for (const auto &[mr, emulated] : device.by_mr)
        process_state().cache.remove_mr(emulated.memory.mr_number);
}

} // namespace coherdma::emulation
