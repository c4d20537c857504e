// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "context.hpp"

#include "log.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace coherdma::abi {
namespace {

// Access to a member of a struct whose layout depends on the release.
template <class type>
type read_at(const void *base, std::size_t offset) noexcept {
    type value;
    std::memcpy(&value, static_cast<const unsigned char *>(base) + offset, sizeof(value));
    return value;
}

template <class type>
void write_at(void *base, std::size_t offset, const type &value) noexcept {
    std::memcpy(static_cast<unsigned char *>(base) + offset, &value, sizeof(value));
}

/// Compares a verbs_context that libibverbs initialized with the layout of the ABI version. Returns
/// the first difference, for a message, else nullptr. libibverbs sets verbs_context.sz, and fills
/// verbs_context_ops, which zeros follow, with functions that return EOPNOTSUPP.
const char *find_mismatch(const unsigned char *vctx, const ibv_device *device) noexcept {
    const layout &layout = current_layout();
    const unsigned char *const context = vctx + context_offset(layout);
    if (read_at<std::size_t>(context - sz_before_context, 0) != layout.context_size)
        return "another size of verbs_context";
    if (read_at<const ibv_device *>(context, offsetof(ibv_context, device)) != device)
        return "another offset of ibv_context.device";
    const void *const priv = read_at<const void *>(context - priv_before_context, 0);
    std::size_t num_ops = 0;
    while (num_ops <= num_context_ops &&
           read_at<void *>(priv, ops_offset_in_priv + num_ops * sizeof(void *)) != nullptr)
        ++num_ops;
    return num_ops * sizeof(void *) == layout.ops_size ? nullptr : "another number of operations";
}

} // namespace

/// Allocates a zeroed driver context of driver_context_size bytes, which begins with the
/// ibv_context, behind libibverbs' part of verbs_context. nullptr: errno is set and cmd_fd is
/// closed.
ibv_context *init_and_alloc_context(ibv_device *device, int cmd_fd, std::size_t driver_context_size,
                                    std::uint32_t driver_id) noexcept {
    // Keeps find_mismatch() inside the allocation if libibverbs' verbs_context is larger.
    constexpr std::size_t min_size = sizeof(ibv_context) + 256;
    void *const vctx = libibverbs().verbs_init_and_alloc_context(
        device, cmd_fd, context_offset(current_layout()) + std::max(driver_context_size, min_size),
        nullptr, driver_id);
    if (vctx == nullptr)
        return nullptr;
    auto *const bytes = static_cast<unsigned char *>(vctx);
    if (const char *mismatch = find_mismatch(bytes, device)) {
        verbs_log(log_level::error,
                  "cannot open %s: libibverbs resembles that of rdma-core %s, but has %s",
                  device->name, current_layout().releases, mismatch);
        libibverbs().verbs_uninit_context(static_cast<verbs_context *>(vctx));
        std::free(vctx);
        errno = EOPNOTSUPP;
        return nullptr;
    }
    return reinterpret_cast<ibv_context *>(bytes + context_offset(current_layout()));
}

verbs_context *to_verbs_context(ibv_context *context) noexcept {
    return reinterpret_cast<verbs_context *>(reinterpret_cast<unsigned char *>(context) -
                                             context_offset(current_layout()));
}

/// Gives libibverbs the operations, in the table of its version.
void set_ops(ibv_context *context, const verbs_context_ops &ops) noexcept {
    const ops_table table = convert_ops(ops, current_layout().version);
    libibverbs().verbs_set_ops(to_verbs_context(context), &table);
}

void uninit_and_free_context(ibv_context *context) noexcept {
    verbs_context *const vctx = to_verbs_context(context);
    libibverbs().verbs_uninit_context(vctx);
    std::free(vctx);
}

/// Sets the members of ibv_qp_ex that only some releases of rdma-core have, if this one does, and
/// VERBS_QP_EX in comp_mask, which makes ibv_qp_to_qp_ex() succeed.
void set_qp_ex_ops(verbs_qp &qp, const optional_wr_ops &ops) noexcept {
    const layout &layout = current_layout();
    if (layout.wr_atomic_write_offset != 0)
        write_at(&qp, layout.wr_atomic_write_offset, ops.wr_atomic_write);
    if (layout.wr_flush_offset != 0)
        write_at(&qp, layout.wr_flush_offset, ops.wr_flush);
    write_at(&qp, layout.comp_mask_offset,
             read_at<std::uint32_t>(&qp, layout.comp_mask_offset) | verbs_qp_ex_flag);
}

} // namespace coherdma::abi
