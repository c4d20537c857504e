// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// PDs, MRs, MWs and AHs.

#include "objects.hpp"

#include <atomic>
#include <map>

namespace fake {
namespace {

/// What a key gives access to. MWs have one without memory until they are bound.
struct region {
    std::byte *memory = nullptr;
    std::uint64_t addr = 0, length = 0; ///< addr: of memory, for a WR
    unsigned access = 0;
    std::uint32_t rkey = 0; ///< with the key bits that are valid now
    bool is_mw = false;

    std::byte *find(std::uint64_t first, std::uint64_t size,
                    unsigned requested_access) const noexcept {
        const bool is_inside = first >= addr && size <= length && first - addr <= length - size;
        return memory != nullptr && is_inside && (access & requested_access) == requested_access
                   ? memory + (first - addr)
                   : nullptr;
    }
};

constexpr unsigned KEY_BITS = 8; // of an rkey, which a bind may change

std::map<std::uint32_t, region> &regions_by_lkey() {
    static auto &created = *new std::map<std::uint32_t, region>;
    return created;
}
/// By the rkey without its key bits.
std::map<std::uint32_t, region> &regions_by_rkey() {
    static auto &created = *new std::map<std::uint32_t, region>;
    return created;
}

/// Keys are spread over all 32 bits, and the rkey of an MR is not its lkey, as in bnxt_re.
std::uint32_t make_lkey(std::uint32_t number) noexcept {
    constexpr std::uint32_t SPREAD = 0x9e3779b1; // odd: no two numbers have the same key
    return number * SPREAD;
}
std::uint32_t make_rkey(std::uint32_t number) noexcept {
    constexpr std::uint32_t SPREAD = 0x654321, KEY = 0xa5; // odd, as above
    return number * SPREAD << KEY_BITS | KEY;
}

ibv_pd *alloc_pd(ibv_context *) noexcept {
    fake_pd &pd = pool<fake_pd>().create();
    pd.verbs.handle = next_handle();
    return &pd.verbs;
}

int dealloc_pd(ibv_pd *verbs) noexcept {
    const std::lock_guard guard(lock);
    fake_pd &pd = to_object<fake_pd>(verbs);
    if (pd.num_users != 0)
        return EBUSY;
    pool<fake_pd>().destroy(pd);
    return 0;
}

ibv_mr *reg_mr(ibv_pd *pd, void *addr, std::size_t length, std::uint64_t iova,
               int access) noexcept {
    const std::lock_guard guard(lock);
    fake_mr &mr = pool<fake_mr>().create();
    ibv_mr &verbs = mr.verbs.mr;
    verbs.handle = next_handle();
    verbs.lkey = make_lkey(verbs.handle);
    verbs.rkey = make_rkey(verbs.handle);
    const region registered = {.memory = static_cast<std::byte *>(addr),
                               .addr = iova,
                               .length = length,
                               .access = static_cast<unsigned>(access),
                               .rkey = verbs.rkey,
                               .is_mw = false};
    regions_by_lkey()[verbs.lkey] = registered;
    regions_by_rkey()[verbs.rkey >> KEY_BITS] = registered;
    ++to_object<fake_pd>(pd).num_users;
    return &verbs;
}

int dereg_mr(abi::verbs_mr *verbs) noexcept {
    const std::lock_guard guard(lock);
    fake_mr &mr = to_object<fake_mr>(verbs);
    regions_by_lkey().erase(verbs->mr.lkey);
    regions_by_rkey().erase(verbs->mr.rkey >> KEY_BITS);
    --to_object<fake_pd>(verbs->mr.pd).num_users;
    pool<fake_mr>().destroy(mr);
    return 0;
}

ibv_mw *alloc_mw(ibv_pd *pd, ibv_mw_type type) noexcept {
    const std::lock_guard guard(lock);
    fake_mw &mw = pool<fake_mw>().create();
    mw.verbs.context = pd->context;
    mw.verbs.pd = pd;
    mw.verbs.type = type;
    mw.verbs.handle = next_handle();
    mw.verbs.rkey = make_rkey(mw.verbs.handle);
    regions_by_rkey()[mw.verbs.rkey >> KEY_BITS] = {.rkey = mw.verbs.rkey, .is_mw = true};
    ++to_object<fake_pd>(pd).num_users;
    return &mw.verbs;
}

int dealloc_mw(ibv_mw *mw) noexcept {
    const std::lock_guard guard(lock);
    regions_by_rkey().erase(mw->rkey >> KEY_BITS);
    --to_object<fake_pd>(mw->pd).num_users;
    pool<fake_mw>().destroy(to_object<fake_mw>(mw));
    return 0;
}

ibv_ah *create_ah(ibv_pd *, ibv_ah_attr *attr) noexcept {
    fake_ah &ah = pool<fake_ah>().create();
    ah.verbs.handle = next_handle();
    ah.attr = *attr;
    return &ah.verbs;
}

int destroy_ah(ibv_ah *ah) noexcept {
    pool<fake_ah>().destroy(to_object<fake_ah>(ah));
    return 0;
}

} // namespace

std::uint32_t next_handle() noexcept {
    static std::atomic<std::uint32_t> last = 0xfa000000;
    return ++last;
}

std::byte *find_local(std::uint32_t lkey, std::uint64_t addr, std::uint64_t length,
                      unsigned access) {
    const auto entry = regions_by_lkey().find(lkey);
    return entry != regions_by_lkey().end() ? entry->second.find(addr, length, access) : nullptr;
}

std::byte *find_remote(std::uint32_t rkey, std::uint64_t addr, std::uint64_t length,
                       unsigned access) {
    const auto entry = regions_by_rkey().find(rkey >> KEY_BITS);
    return entry != regions_by_rkey().end() && entry->second.rkey == rkey
               ? entry->second.find(addr, length, access)
               : nullptr;
}

ibv_wc_status bind(ibv_mw &mw, std::uint32_t rkey, const ibv_mw_bind_info &info) {
    const auto window = regions_by_rkey().find(rkey >> KEY_BITS);
    if (window == regions_by_rkey().end() || !window->second.is_mw ||
        (mw.rkey ^ rkey) >> KEY_BITS != 0)
        return IBV_WC_MW_BIND_ERR;
    region bound = {.rkey = rkey, .is_mw = true};
    if (info.mr != nullptr && info.length != 0) {
        const auto mr = regions_by_lkey().find(info.mr->lkey);
        bound.memory = mr != regions_by_lkey().end()
                           ? mr->second.find(info.addr, info.length, IBV_ACCESS_MW_BIND)
                           : nullptr;
        if (bound.memory == nullptr)
            return IBV_WC_MW_BIND_ERR;
        const bool is_zero_based = (info.mw_access_flags & IBV_ACCESS_ZERO_BASED) != 0;
        bound.addr = is_zero_based ? 0 : info.addr;
        bound.length = info.length;
        bound.access = info.mw_access_flags;
    }
    window->second = bound;
    return IBV_WC_SUCCESS;
}

ibv_wc_status invalidate(std::uint32_t rkey) {
    const auto window = regions_by_rkey().find(rkey >> KEY_BITS);
    if (window == regions_by_rkey().end() || !window->second.is_mw || window->second.rkey != rkey)
        return IBV_WC_LOC_PROT_ERR;
    window->second.memory = nullptr;
    return IBV_WC_SUCCESS;
}

void set_memory_ops(abi::verbs_context_ops &ops) {
    ops.alloc_pd = alloc_pd;
    ops.dealloc_pd = dealloc_pd;
    ops.reg_mr = reg_mr;
    ops.dereg_mr = dereg_mr;
    ops.alloc_mw = alloc_mw;
    ops.dealloc_mw = dealloc_mw;
    ops.create_ah = create_ah;
    ops.destroy_ah = destroy_ah;
}

} // namespace fake
