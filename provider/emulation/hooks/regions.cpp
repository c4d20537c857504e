// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Registered memory. What cannot have other pages is left to the driver, and that is said once:
// memory that is paged in on demand, that is another device's, that another process registered.

#include "apart.hpp"
#include "neighbours.hpp"
#include "played.hpp"

#include <cerrno>

namespace coherdma::emulation {
namespace {

ibv_mr *failed(int error) noexcept {
    errno = error;
    return nullptr;
}

ibv_mr *left_alone(const char *what, ibv_mr *region) {
    if (region != nullptr)
        here().told.note(std::string(what) + " is not emulated: the device sees it as it is");
    return region;
}

/// The program's memory itself, to learn whether the kernel would register it: the object, without
/// a region of the kernel's.
abi::verbs_mr *try_plainly(played &on, ibv_pd *domain, void *address, std::size_t length,
                           std::uint64_t iova, int access) {
    auto *const made =
        reinterpret_cast<abi::verbs_mr *>(on.under.reg_mr(domain, address, length, iova, access));
    if (made == nullptr)
        return nullptr;
    if (const int error = on.deregister(made)) {
        // The kernel has it still: so it is the driver's to end it.
        on.under.dereg_mr(made);
        errno = error;
        return nullptr;
    }
    return made;
}

/// A window over a region may allow what the region itself does not.
bool allows(int access, int what_for) noexcept {
    return (access & (what_for | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND)) != 0;
}

/// Registers the device's pages as that. 0 or an errno.
int part(played &on, ibv_pd *domain, abi::verbs_mr &made, place &is) {
    region what;
    what.where = is.where;
    what.iova = is.iova;
    what.readable = allows(is.access, IBV_ACCESS_REMOTE_READ);
    what.writable = allows(is.access, IBV_ACCESS_REMOTE_WRITE);
    what.device = on.device;
    what.registered = here().asked.stacks ? trace::here() : trace{};
    std::vector<cache::piece> pieces;
    if (const int error = here().memory.add(what, pieces)) {
        if (error == ENOMEM)
            here().told.note("no memory is left for the device's copy of a region of " +
                             std::to_string(is.where.size()) +
                             " bytes: emulation needs 1.13 times what is registered");
        return error;
    }
    keys got;
    if (const int error =
            register_apart(*domain, pieces, is.where, is.iova, is.access, on.driver, got)) {
        here().memory.remove(what.number);
        return error;
    }
    made.mr.handle = got.handle;
    made.mr.lkey = got.lkey;
    made.mr.rkey = got.rkey;
    is.number = what.number;
    here().memory.name(what.number, got.lkey, got.rkey);
    return 0;
}

ibv_mr *reg(ibv_pd *domain, void *address, std::size_t length, std::uint64_t iova,
            int access) noexcept try {
    played &on = *find(domain->context);
    if (here().asked.plays == mode::THROUGH)
        return on.under.reg_mr(domain, address, length, iova, access);
    if ((access & IBV_ACCESS_ON_DEMAND) != 0)
        return left_alone("memory that is registered to be paged in on demand",
                          on.under.reg_mr(domain, address, length, iova, access));
    abi::verbs_mr *const made = try_plainly(on, domain, address, length, iova, access);
    if (made == nullptr)
        return nullptr;
    const auto begin = reinterpret_cast<std::uintptr_t>(address);
    place is = {0, {begin, begin + length}, iova, access};
    if (const int error = part(on, domain, *made, is)) {
        std::free(made);
        return failed(error);
    }
    {
        const std::unique_lock held(on.guard);
        on.local[made->mr.lkey] = on.remote[made->mr.rkey] = on.regions[made] = is;
    }
    neighbours::publish(on.driver, made->mr.rkey, is);
    return &made->mr;
} catch (const std::bad_alloc &) {
    return failed(ENOMEM);
}

int dereg(abi::verbs_mr *region) noexcept {
    played &on = *find(region->mr.context);
    const std::uint32_t lkey = region->mr.lkey, rkey = region->mr.rkey;
    if (const int error = on.under.dereg_mr(region))
        return error;
    std::uint32_t number;
    {
        const std::unique_lock held(on.guard);
        const auto found = on.regions.find(region);
        if (found == on.regions.end())
            return 0;
        number = found->second.number;
        on.regions.erase(found);
        on.local.erase(lkey);
        on.remote.erase(rkey);
    }
    neighbours::withdraw(on.driver, rkey);
    here().memory.remove(number);
    return 0;
}

/// The kernel's drivers can change domain and access; elsewhere the region cannot go.
int rereg(abi::verbs_mr *region, int flags, ibv_pd *domain, void *address, std::size_t length,
          int access) noexcept {
    played &on = *find(region->mr.context);
    if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0)
        return errno = EOPNOTSUPP; // which some look at instead
    const std::uint32_t lkey = region->mr.lkey, rkey = region->mr.rkey;
    if (const int error = on.under.rereg_mr(region, flags, domain, address, length, access))
        return error;
    place is;
    {
        const std::unique_lock held(on.guard);
        const auto found = on.regions.find(region);
        if (found == on.regions.end())
            return 0;
        if ((flags & IBV_REREG_MR_CHANGE_ACCESS) != 0)
            found->second.access = access;
        is = found->second;
        on.local.erase(lkey);
        on.remote.erase(rkey);
        on.local[region->mr.lkey] = on.remote[region->mr.rkey] = is;
    }
    neighbours::withdraw(on.driver, rkey);
    neighbours::publish(on.driver, region->mr.rkey, is);
    here().memory.name(is.number, region->mr.lkey, region->mr.rkey);
    here().memory.allow(is.number, allows(is.access, IBV_ACCESS_REMOTE_READ),
                        allows(is.access, IBV_ACCESS_REMOTE_WRITE));
    return 0;
}

ibv_mr *reg_dmabuf(ibv_pd *domain, std::uint64_t offset, std::size_t length, std::uint64_t iova,
                   int fd, int access) noexcept {
    return left_alone(
        "memory of a dma-buf",
        find(domain->context)->under.reg_dmabuf_mr(domain, offset, length, iova, fd, access));
}

/// Of this process, it is known: played::where().
ibv_mr *import(ibv_pd *domain, std::uint32_t handle) noexcept {
    played &on = *find(domain->context);
    ibv_mr *const made = on.under.import_mr(domain, handle);
    bool known = false;
    if (made != nullptr)
        each_device([&](played &other) {
            const std::shared_lock held(other.guard);
            known = known || (other.device == on.device && other.local.count(made->lkey) != 0);
        });
    return known ? made : left_alone("a region that another process registered", made);
}

} // namespace

void play_regions(abi::operations &able) {
    able.reg_mr = reg;
    able.dereg_mr = dereg;
    able.rereg_mr = rereg;
    if (able.reg_dmabuf_mr != nullptr)
        able.reg_dmabuf_mr = reg_dmabuf;
    if (able.import_mr != nullptr)
        able.import_mr = import;
}

} // namespace coherdma::emulation
