// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A module with the symbols of the provider plugin, and those of the emulation with its soname. The
// device's name says what it reports.

#include "cache/emulated_cache.hpp"

#include <cerrno>
#include <coherdma/coherdma.h>
#include <coherdma/coherdmadv.h>
#include <cstring>
#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_verbs.h>

namespace {

using namespace coherdma::cache;

bool has_name(const ibv_context *context, const char *name) noexcept {
    return std::strcmp(context->device->name, name) == 0;
}

void no_fence() noexcept {}
bool is_supported() noexcept {
    return true;
}
/// Increments the first byte of each range.
void increment(const range *ranges, std::size_t count, std::size_t) noexcept {
    for (std::size_t i = 0; i < count; ++i)
        ++*reinterpret_cast<unsigned char *>(ranges[i].addr);
}
const cache_ops OPS = {"stub",   no_fence,  increment, no_fence,
                       no_fence, increment, no_fence,  is_supported};

int check_mapped(const range *, std::size_t, std::uintptr_t *) noexcept {
    return 0;
}
const char *mode() noexcept {
    return "poison";
}
std::size_t line_size() noexcept {
    return 1024;
}
/// These add 0x10, 0x20 or 0x40 to the first byte of each range.
void add_to_first_bytes(const range *ranges, std::size_t count, unsigned char number) noexcept {
    for (std::size_t i = 0; i < count; ++i)
        *reinterpret_cast<unsigned char *>(ranges[i].addr) += number;
}
void sync_for_device(const range *ranges, std::size_t count, bool device_writes) noexcept {
    add_to_first_bytes(ranges, count, device_writes ? 0x20 : 0x10);
}
void sync_for_cpu(const range *ranges, std::size_t count) noexcept {
    add_to_first_bytes(ranges, count, 0x40);
}
/// size: of the struct, as that release has it.
constexpr emulated_cache make_cache(std::uint32_t size) noexcept {
    return {.size = size,
            .check_mapped = check_mapped,
            .mode = mode,
            .line_size = line_size,
            .ops = &OPS,
            .sync_for_device = sync_for_device,
            .sync_for_cpu = sync_for_cpu};
}
const emulated_cache CACHE = make_cache(sizeof(emulated_cache));
const emulated_cache OTHER_RELEASE = make_cache(sizeof(emulated_cache) + 8);

} // namespace

int coherdmadv_query_device(ibv_context *context, coherdmadv_device_attr *attr,
                            std::uint32_t inlen) {
    if (has_name(context, "failing0"))
        return EIO;
    if (has_name(context, "foreign0"))
        return EOPNOTSUPP;
    if (attr == nullptr || inlen < sizeof attr->comp_mask)
        return EINVAL;
    if (inlen != sizeof *attr)
        return E2BIG; // shows that inlen is passed
    *attr = {};
    attr->coherency = has_name(context, "coherent0") ? COHERDMA_COHERENT : COHERDMA_NON_COHERENT;
    attr->driver_id = RDMA_DRIVER_RXE;
    std::strcpy(attr->mode, mode());
    std::strcpy(attr->evidence, "the stub says so");
    return 0;
}

extern "C" [[gnu::visibility("default")]] const emulated_cache *
coherdma_find_emulated_cache(const ibv_context *context) {
    if (has_name(context, "other0"))
        return &OTHER_RELEASE;
    return has_name(context, "emulated0") ? &CACHE : nullptr;
}
