// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// rpma_mr_advise(). A device that knows no advice may say so before it looks at the range.

#include "../lib/device.hpp"

#include <cerrno>

namespace conform {

namespace {

constexpr int prefetch = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;

/// What ibv_advise_mr() makes of an MR like that.
int advise_by_verbs(std::uint32_t flags) {
    static char memory[test_mr::default_size];
    ibv_pd *pd = ibv_alloc_pd(device_context());
    require(pd != nullptr, "ibv_alloc_pd");
    constexpr int access = IBV_ACCESS_LOCAL_WRITE;
    ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof memory, access);
    require(mr != nullptr, "ibv_reg_mr");
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(memory), sizeof memory, mr->lkey};
    const int error = ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, flags, &sge, 1);
    ibv_dereg_mr(mr);
    ibv_dealloc_pd(pd);
    return error;
}
int return_of(int error) {
    if (error == EOPNOTSUPP || error == ENOTSUP)
        return RPMA_E_NOSUPP;
    if (error == EFAULT || error == EINVAL)
        return RPMA_E_INVAL;
    return error == 0 ? 0 : RPMA_E_PROVIDER;
}

} // namespace

void add_advise(case_list &cases) {
    for (const std::uint32_t flags : {0u, std::uint32_t{IBV_ADVISE_MR_FLAG_FLUSH}})
        add_case(cases, concat("advise.prefetch.", flags), [flags] {
            const test_peer peer;
            test_mr mr(peer, RPMA_MR_USAGE_WRITE_DST);
            const int expected = return_of(advise_by_verbs(flags));
            expect_return(rpma_mr_advise(mr.get(), 0, test_mr::default_size, prefetch, flags),
                          expected);
            expect_return(rpma_mr_advise(mr.get(), 100, 100, prefetch, flags), expected);
        });
    add_case(cases, "advise.out_of_bounds", [] {
        const test_peer peer;
        test_mr mr(peer, RPMA_MR_USAGE_WRITE_DST);
        constexpr std::size_t size = test_mr::default_size;
        struct range {
            std::size_t offset, len;
        };
        for (const auto &[offset, len] :
             {range{0, size + 1}, {1, size}, {size, 1}, {SIZE_MAX, 1}}) {
            const scoped_trace trace(concat("offset ", offset, ", length ", len));
            const int ret = rpma_mr_advise(mr.get(), offset, len, prefetch, 0);
            if (return_of(advise_by_verbs(0)) == RPMA_E_NOSUPP)
                expect_return(ret, {RPMA_E_INVAL, RPMA_E_NOSUPP});
            else
                expect_return(ret, RPMA_E_INVAL);
        }
    });
    // The MR is not written to.
    add_case(cases, "advise.usage", [] {
        const test_peer peer;
        test_mr mr(peer, RPMA_MR_USAGE_SEND);
        expect_return(rpma_mr_advise(mr.get(), 0, 8, prefetch, 0), {RPMA_E_INVAL, RPMA_E_NOSUPP});
    });
    add_case(cases, "advise.unknown", [] {
        const test_peer peer;
        test_mr mr(peer, RPMA_MR_USAGE_WRITE_DST);
        expect_return(rpma_mr_advise(mr.get(), 0, 8, 99, 0), {RPMA_E_INVAL, RPMA_E_NOSUPP});
        expect_return(rpma_mr_advise(mr.get(), 0, 8, prefetch, 0xff00),
                      {RPMA_E_INVAL, RPMA_E_NOSUPP});
    });
}

} // namespace conform
