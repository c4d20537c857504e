// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// coherdmadv_query_device() of the provider: what it reports of each driver, and structs of other
// versions of the header.

#include "../cmocka.hpp"
#include "fake_rxe.hpp"
#include "fake_siw.hpp"

#include "cache/cache.hpp"

#include <cerrno>
#include <coherdma/coherdma.h>
#include <coherdma/coherdmadv.h>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <rdma/ib_user_ioctl_verbs.h>

namespace {

using fake::rxe_kernel;
using fake::siw_kernel;

constexpr std::uint64_t ALL_GROUPS = COHERDMADV_DEVICE_ATTR_COHERENCY |
                                     COHERDMADV_DEVICE_ATTR_DRIVER | COHERDMADV_DEVICE_ATTR_MODE |
                                     COHERDMADV_DEVICE_ATTR_EVIDENCE;

ibv_context *open(fake::kernel &kernel) {
    ibv_context *const context = kernel.open();
    assert_non_null(context);
    static coherdma::abi::verbs_sysfs_dev sysfs = {}; // read by ibv_cmd_query_device_any()
    reinterpret_cast<coherdma::abi::verbs_device *>(context->device)->sysfs = &sysfs;
    return context;
}

coherdmadv_device_attr query(ibv_context *context) {
    coherdmadv_device_attr attr;
    std::memset(static_cast<void *>(&attr), 0xff, sizeof attr);
    assert_int_equal(coherdmadv_query_device(context, &attr, sizeof attr), 0);
    assert_int_equal(attr.comp_mask, ALL_GROUPS);
    return attr;
}

void assert_coherent(const coherdmadv_device_attr &attr) {
    assert_int_equal(attr.coherency, COHERDMA_COHERENT);
    assert_int_equal(attr.line_size, coherdma::cache::line_size());
    assert_string_equal(attr.mode, "");
    assert_string_equal(attr.evidence, "the CPU moves the data of a software device");
}

constexpr std::uint32_t BOTH_CAPS = COHERDMADV_CAP_QP_EX | COHERDMADV_CAP_CQ_EX |
                                    COHERDMADV_CAP_THREAD_DOMAIN | COHERDMADV_CAP_IMPORT;
constexpr std::uint32_t RXE_CAPS = BOTH_CAPS | COHERDMADV_CAP_MEMORY_WINDOW |
                                   COHERDMADV_CAP_RESIZE_CQ | COHERDMADV_CAP_ADDRESS_HANDLE |
                                   COHERDMADV_CAP_MULTICAST;

void rxe_is_described(void **) {
    rxe_kernel kernel;
    ibv_context *const context = open(kernel);
    const coherdmadv_device_attr attr = query(context);
    assert_coherent(attr);
    assert_int_equal(attr.driver_id, RDMA_DRIVER_RXE);
    assert_int_equal(attr.caps, RXE_CAPS);
    ibv_close_device(context);
}

void siw_is_described(void **) {
    siw_kernel kernel;
    ibv_context *const context = open(kernel);
    const coherdmadv_device_attr attr = query(context);
    assert_coherent(attr);
    assert_int_equal(attr.driver_id, RDMA_DRIVER_SIW);
    assert_int_equal(attr.caps, BOTH_CAPS);
    ibv_close_device(context);
}

// The device has the capability flag, and the installed libibverbs knows the operation.
void optional_send_operations_are_those_of_device(void **) {
    namespace rxe = coherdma::provider::rxe;
    const coherdma::abi::layout &layout = coherdma::abi::current_layout();
    const std::uint32_t atomic_write =
        layout.wr_atomic_write_offset != 0 ? COHERDMADV_CAP_ATOMIC_WRITE : 0;
    const std::uint32_t flush = layout.wr_flush_offset != 0 ? COHERDMADV_CAP_FLUSH : 0;
    rxe_kernel kernel;
    ibv_context *const context = open(kernel);
    kernel.device_cap_flags_ex = rxe::DEVICE_ATOMIC_WRITE;
    assert_int_equal(query(context).caps, RXE_CAPS | atomic_write);
    kernel.device_cap_flags_ex = rxe::DEVICE_FLUSH_GLOBAL_AND_PERSISTENT;
    assert_int_equal(query(context).caps, RXE_CAPS | flush);
    ibv_close_device(context);
}

constexpr std::uint8_t filler = 0xa5; ///< what a struct contains before the call
constexpr std::uint64_t untouched_comp_mask = 0xa5a5a5a5a5a5a5a5;

/// A struct of a program with an older or newer header, and bytes after it.
struct sized_attr {
    alignas(8) unsigned char bytes[sizeof(coherdmadv_device_attr) + 64];
    std::uint32_t inlen;

    /// Fills all bytes, then passes the first `size` to coherdmadv_query_device().
    int query(ibv_context *context, std::uint32_t size, unsigned char fill) {
        std::memset(bytes, fill, sizeof bytes);
        inlen = size;
        return coherdmadv_query_device(context, reinterpret_cast<coherdmadv_device_attr *>(bytes),
                                       inlen);
    }
    std::uint64_t comp_mask() const {
        std::uint64_t mask;
        std::memcpy(&mask, bytes, sizeof mask);
        return mask;
    }
    /// Whether the first `size` bytes after comp_mask are those of attr, the others up to inlen
    /// zero, and the rest untouched.
    bool has(const coherdmadv_device_attr &attr, std::size_t size, unsigned char fill) const {
        const auto *const expected = reinterpret_cast<const unsigned char *>(&attr);
        for (std::size_t i = sizeof attr.comp_mask; i < sizeof bytes; ++i) {
            const int byte = i < size ? expected[i] : i < inlen ? 0 : fill;
            if (bytes[i] != byte)
                return false;
        }
        return true;
    }
};

// A program that was compiled with an older header passes a shorter struct: it gets each group of
// members that it has room for, and the group's bit in comp_mask.
void short_struct_has_complete_members_only(void **) {
    rxe_kernel kernel;
    ibv_context *const context = open(kernel);
    const coherdmadv_device_attr full = query(context);
    constexpr struct {
        std::size_t begin, end; ///< of these sizes, a struct has the groups of the mask
        std::uint64_t mask;
    } sizes[] = {
        {8, 16, 0},
        {16, 24, COHERDMADV_DEVICE_ATTR_COHERENCY},
        {24, 56, COHERDMADV_DEVICE_ATTR_COHERENCY | COHERDMADV_DEVICE_ATTR_DRIVER},
        {56, 152, ALL_GROUPS & ~std::uint64_t{COHERDMADV_DEVICE_ATTR_EVIDENCE}},
    };
    static_assert(sizeof(coherdmadv_device_attr) == 152);
    for (const auto &range : sizes)
        for (std::size_t size = range.begin; size < range.end; ++size) {
            sized_attr attr;
            assert_int_equal(attr.query(context, static_cast<std::uint32_t>(size), filler), 0);
            assert_int_equal(attr.comp_mask(), range.mask);
            if (!attr.has(full, range.begin, filler))
                fail_msg("inlen %zu: wrong members", size);
        }
    ibv_close_device(context);
}

// A program that was compiled with a newer header passes a longer struct. The members before the
// call do not matter: attr is output only.
void unknown_members_and_bits_are_zeroed(void **) {
    siw_kernel kernel;
    ibv_context *const context = open(kernel);
    const coherdmadv_device_attr full = query(context);
    for (const auto fill : {std::uint8_t{0x00}, std::uint8_t{0xff}})
        for (std::uint32_t surplus = 0; surplus <= 64; ++surplus) {
            sized_attr attr;
            assert_int_equal(attr.query(context, sizeof full + surplus, fill), 0);
            assert_int_equal(attr.comp_mask(), ALL_GROUPS);
            assert_true(attr.has(full, sizeof full, fill));
        }
    ibv_close_device(context);
}

void invalid_arguments_are_refused(void **) {
    rxe_kernel kernel;
    ibv_context *const context = open(kernel);
    coherdmadv_device_attr attr = {};
    assert_int_equal(coherdmadv_query_device(nullptr, &attr, sizeof attr), EINVAL);
    assert_int_equal(coherdmadv_query_device(context, nullptr, sizeof attr), EINVAL);
    for (std::uint32_t inlen = 0; inlen < 8; ++inlen) {
        sized_attr sized;
        assert_int_equal(sized.query(context, inlen, filler), EINVAL);
        assert_int_equal(sized.comp_mask(), untouched_comp_mask);
    }
    ibv_close_device(context);
}

void context_of_another_provider_is_refused(void **) {
    static const coherdma::abi::verbs_device_ops foreign_ops = {};
    coherdma::abi::verbs_device device = {};
    device.ops = &foreign_ops;
    ibv_context context = {};
    context.device = &device.device;
    sized_attr attr;
    assert_int_equal(attr.query(&context, sizeof(coherdmadv_device_attr), filler), EOPNOTSUPP);
    assert_int_equal(attr.comp_mask(), untouched_comp_mask);
    assert_int_equal(attr.query(&context, 0, filler), EOPNOTSUPP);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(rxe_is_described),
        cmocka_unit_test(siw_is_described),
        cmocka_unit_test(optional_send_operations_are_those_of_device),
        cmocka_unit_test(short_struct_has_complete_members_only),
        cmocka_unit_test(unknown_members_and_bits_are_zeroed),
        cmocka_unit_test(invalid_arguments_are_refused),
        cmocka_unit_test(context_of_another_provider_is_refused),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
