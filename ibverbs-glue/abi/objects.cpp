// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "objects.hpp"

#include "log.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace coherdma::abi {
namespace {

template <class type>
type read(const void *base, std::size_t offset) noexcept {
    type value;
    std::memcpy(&value, static_cast<const unsigned char *>(base) + offset, sizeof(value));
    return value;
}

template <class type>
void write(void *base, std::size_t offset, const type &value) noexcept {
    std::memcpy(static_cast<unsigned char *>(base) + offset, &value, sizeof(value));
}

// What a new context has that is not of its epoch; nullptr: nothing. libibverbs writes its size in
// front of it, and fills the table of operations with ones that only fail; behind that is a zero.
const char *amiss(const unsigned char *start, const ibv_device *device) noexcept {
    const unsigned char *const context = start + front(here());
    if (read<std::size_t>(context - size_before, 0) != here().context)
        return "another size of a context";
    if (read<const ibv_device *>(context, offsetof(ibv_context, device)) != device)
        return "another place for the device";
    const void *const hidden = read<const void *>(context - private_before, 0);
    std::size_t count = 0;
    while (count <= operations_count &&
           read<void *>(hidden, operations_in_private + count * sizeof(void *)) != nullptr)
        ++count;
    return count * sizeof(void *) == here().operations ? nullptr : "another number of operations";
}

} // namespace

ibv_context *open_context(ibv_device *device, int fd, std::size_t own,
                          std::uint32_t driver) noexcept {
    // Room enough for a context that is larger than it should be, so that it can be refused.
    constexpr std::size_t spare = sizeof(ibv_context) + 256;
    void *const start = library().init_and_alloc_context(
        device, fd, front(here()) + std::max(own, spare), nullptr, driver);
    if (start == nullptr)
        return nullptr;
    auto *const bytes = static_cast<unsigned char *>(start);
    if (const char *what = amiss(bytes, device)) {
        say(level::error, "libibverbs is like that of rdma-core %s, but has %s; %s is not opened",
            here().releases, what, device->name);
        library().uninit_context(static_cast<verbs_context *>(start));
        std::free(start);
        errno = EOPNOTSUPP;
        return nullptr;
    }
    return reinterpret_cast<ibv_context *>(bytes + front(here()));
}

verbs_context *in_front(ibv_context *context) noexcept {
    return reinterpret_cast<verbs_context *>(reinterpret_cast<unsigned char *>(context) -
                                             front(here()));
}

void set_operations(ibv_context *context, const operations &able) noexcept {
    const placed_operations table = placed(able, here().which);
    library().set_ops(in_front(context), &table);
}

void close_context(ibv_context *context) noexcept {
    verbs_context *const start = in_front(context);
    library().uninit_context(start);
    std::free(start);
}

void extend(verbs_qp &qp, const newer_posts &able) noexcept {
    if (here().atomic_write != 0)
        write(&qp, here().atomic_write, able.atomic_write);
    if (here().flush != 0)
        write(&qp, here().flush, able.flush);
    write(&qp, here().comp_mask, read<std::uint32_t>(&qp, here().comp_mask) | 2U);
}

} // namespace coherdma::abi
