// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Registration. Memory that cannot have a second copy is registered by the driver, with a note: ODP
// memory, dma-bufs, and MRs imported from another process.

#include "alias_reg.hpp"
#include "device_shim.hpp"
#include "peer_ipc.hpp"

#include <cerrno>
#include <cstdlib>
#include <new>

namespace coherdma::emulation {
namespace {

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

/// Registers the program's memory, to get the kernel's errors and the driver's object, and
/// deregisters it in the kernel only.
abi::verbs_mr *create_unregistered_mr(emulated_device &device, ibv_pd *pd, void *addr,
                                      std::size_t length, std::uint64_t iova, int access) {
    auto *const mr =
        reinterpret_cast<abi::verbs_mr *>(device.driver_ops.reg_mr(pd, addr, length, iova, access));
    if (mr == nullptr)
        return nullptr;
    if (const int error = device.kernel_dereg_mr(mr)) {
        // The kernel still has the MR: the driver must destroy it.
        device.driver_ops.dereg_mr(mr);
        errno = error;
        return nullptr;
    }
    return mr;
}

/// Whether a peer may get this access, by the MR or by an MW, which may allow what its MR does not.
bool may_allow(int access_flags, int remote_flag) noexcept {
    return (access_flags & (remote_flag | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND)) != 0;
}

/// Registers the device's pages with the kernel, and gives the MR their handle and keys. Returns 0
/// or an errno.
int register_device_pages(emulated_device &device, ibv_pd *pd, abi::verbs_mr &mr,
                          keyed_memory &memory) {
    memory_region added;
    added.range = memory.range;
    added.iova = memory.iova;
    added.remote_read = may_allow(memory.access_flags, IBV_ACCESS_REMOTE_READ);
    added.remote_write = may_allow(memory.access_flags, IBV_ACCESS_REMOTE_WRITE);
    added.device_name = device.name;
    added.reg_stack = process_state().config.stack_traces ? stack_trace::capture() : stack_trace{};
    std::vector<cache_model::page_mapping> mappings;
    if (const int error = process_state().cache.add_mr(added, mappings)) {
        if (error == ENOMEM)
            process_state().log.note("out of memory for the device's copy of a region of " +
                                     std::to_string(memory.range.size()) +
                                     " bytes: emulation needs 1.13 times the registered memory");
        return error;
    }
    mr_handle_and_keys registered;
    if (const int error = register_alias(*pd, mappings, memory.range, memory.iova,
                                         memory.access_flags, device.driver_id, registered)) {
        process_state().cache.remove_mr(added.number);
        return error;
    }
    mr.mr.handle = registered.handle;
    mr.mr.lkey = registered.lkey;
    mr.mr.rkey = registered.rkey;
    memory.mr_number = added.number;
    process_state().cache.set_keys(added.number, registered.lkey, registered.rkey);
    return 0;
}

/// Called in place of the driver's: registers the device's pages under the program's address.
ibv_mr *reg_mr(ibv_pd *pd, void *addr, std::size_t length, std::uint64_t iova, int access) noexcept
    try {
    emulated_device &device = *find_device(pd->context);
    if (process_state().config.mode == cache_mode::PASSTHROUGH)
        return device.driver_ops.reg_mr(pd, addr, length, iova, access);
    if ((access & IBV_ACCESS_ON_DEMAND) != 0)
        return note_not_emulated("memory registered for on-demand paging",
                                 device.driver_ops.reg_mr(pd, addr, length, iova, access));
    abi::verbs_mr *const mr = create_unregistered_mr(device, pd, addr, length, iova, access);
    if (mr == nullptr)
        return nullptr;
    const auto begin = reinterpret_cast<std::uintptr_t>(addr);
    keyed_memory memory = {0, {begin, begin + length}, iova, access};
    if (const int error = register_device_pages(device, pd, *mr, memory)) {
        std::free(mr);
        return fail(error);
    }
    {
        const std::unique_lock guard(device.mutex);
        device.by_lkey[mr->mr.lkey] = device.by_rkey[mr->mr.rkey] = device.by_mr[mr] = memory;
    }
    peer_ipc::publish_rkey(device.driver_id, mr->mr.rkey, memory);
    return &mr->mr;
} catch (const std::bad_alloc &) {
    return fail(ENOMEM);
}

/// Called in place of the driver's: ends the emulation of the MR's memory.
int dereg_mr(abi::verbs_mr *mr) noexcept {
    emulated_device &device = *find_device(mr->mr.context);
    const std::uint32_t lkey = mr->mr.lkey, rkey = mr->mr.rkey;
    if (const int error = device.driver_ops.dereg_mr(mr))
        return error;
    std::uint32_t mr_number;
    {
        const std::unique_lock guard(device.mutex);
        const auto it = device.by_mr.find(mr);
        if (it == device.by_mr.end())
            return 0;
        mr_number = it->second.mr_number;
        device.by_mr.erase(it);
        device.by_lkey.erase(lkey);
        device.by_rkey.erase(rkey);
    }
    peer_ipc::withdraw_rkey(device.driver_id, rkey);
    process_state().cache.remove_mr(mr_number);
    return 0;
}

/// Called in place of the driver's. PD and access can be changed, if the driver can; the memory
/// cannot.
int rereg_mr(abi::verbs_mr *mr, int flags, ibv_pd *pd, void *addr, std::size_t length,
             int access) noexcept {
    emulated_device &device = *find_device(mr->mr.context);
    if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0)
        return errno = EOPNOTSUPP; // some callers check errno
    const std::uint32_t lkey = mr->mr.lkey, rkey = mr->mr.rkey;
    if (const int error = device.driver_ops.rereg_mr(mr, flags, pd, addr, length, access))
        return error;
    keyed_memory memory;
    {
        const std::unique_lock guard(device.mutex);
        const auto it = device.by_mr.find(mr);
        if (it == device.by_mr.end())
            return 0;
        if ((flags & IBV_REREG_MR_CHANGE_ACCESS) != 0)
            it->second.access_flags = access;
        memory = it->second;
        device.by_lkey.erase(lkey);
        device.by_rkey.erase(rkey);
        device.by_lkey[mr->mr.lkey] = device.by_rkey[mr->mr.rkey] = memory;
    }
    peer_ipc::withdraw_rkey(device.driver_id, rkey);
    peer_ipc::publish_rkey(device.driver_id, mr->mr.rkey, memory);
    process_state().cache.set_keys(memory.mr_number, mr->mr.lkey, mr->mr.rkey);
    process_state().cache.set_remote_access(
        memory.mr_number, may_allow(memory.access_flags, IBV_ACCESS_REMOTE_READ),
        may_allow(memory.access_flags, IBV_ACCESS_REMOTE_WRITE));
    return 0;
}

ibv_mr *reg_dmabuf_mr(ibv_pd *pd, std::uint64_t offset, std::size_t length, std::uint64_t iova,
                      int fd, int access) noexcept {
    return note_not_emulated(
        "a dma-buf",
        find_device(pd->context)->driver_ops.reg_dmabuf_mr(pd, offset, length, iova, fd, access));
}

/// Called in place of the driver's. Only an MR of this process is emulated: find_memory_by_lkey()
/// finds it.
ibv_mr *import_mr(ibv_pd *pd, std::uint32_t handle) noexcept {
    emulated_device &device = *find_device(pd->context);
    ibv_mr *const mr = device.driver_ops.import_mr(pd, handle);
    bool is_known = false;
    if (mr != nullptr)
        for_each_device([&](emulated_device &other) {
            const std::shared_lock guard(other.mutex);
            is_known =
                is_known || (other.name == device.name && other.by_lkey.count(mr->lkey) != 0);
        });
    return is_known ? mr : note_not_emulated("memory registered by another process", mr);
}

} // namespace

void hook_mr_ops(abi::verbs_context_ops &ops) {
    ops.reg_mr = reg_mr;
    ops.dereg_mr = dereg_mr;
    ops.rereg_mr = rereg_mr;
    if (ops.reg_dmabuf_mr != nullptr)
        ops.reg_dmabuf_mr = reg_dmabuf_mr;
    if (ops.import_mr != nullptr)
        ops.import_mr = import_mr;
}

} // namespace coherdma::emulation
