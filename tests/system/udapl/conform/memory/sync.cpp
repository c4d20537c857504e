// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// dat_lmr_sync_rdma_read and dat_lmr_sync_rdma_write: which segments they take. What they do cannot
// be seen where the machine is coherent.

#include "lib/cases.hpp"
#include "lib/test_ia.hpp"

#include <memory>
#include <random>

namespace conform {

namespace {

using segments = std::vector<DAT_LMR_TRIPLET>;

DAT_RETURN sync_read(DAT_IA_HANDLE ia, const DAT_LMR_TRIPLET *iov, DAT_VLEN count) {
    return dat_lmr_sync_rdma_read(ia, iov, count);
}
DAT_RETURN sync_write(DAT_IA_HANDLE ia, const DAT_LMR_TRIPLET *iov, DAT_VLEN count) {
    return dat_lmr_sync_rdma_write(ia, iov, count);
}

struct sync_fixture {
    test_ia ia;
    unique_pz pz = ia.create_pz();
    test_lmr lmr{ia, pz, 4 * page_size};

    /// Both calls return this.
    void expect_both_return(DAT_RETURN expected, const segments &iov,
                            source_location loc = current_location()) const {
        {
            const scoped_trace trace("dat_lmr_sync_rdma_read");
            expect_return(sync_read(ia, iov.data(), iov.size()), expected, loc);
        }
        const scoped_trace trace("dat_lmr_sync_rdma_write");
        expect_return(sync_write(ia, iov.data(), iov.size()), expected, loc);
    }
    void expect_success(const segments &iov, source_location loc = current_location()) const {
        expect_both_return(DAT_SUCCESS, iov, loc);
    }
    void expect_refused(const segments &iov, source_location loc = current_location()) const {
        expect_both_return(invalid_parameter(2), iov, loc);
    }
};

/// One that no LMR has.
DAT_LMR_CONTEXT unused_lmr_context(const sync_fixture &fixture) {
    return fixture.lmr.lmr_context() ^ 0x5a5a5a00U;
}

segments random_triplets(const sync_fixture &fixture, std::size_t count) {
    segments iov;
    std::minstd_rand random(1);
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t offset = random() % (4 * page_size - 64);
        iov.push_back(fixture.lmr.make_lmr_triplet(offset, 1 + random() % 64));
    }
    return iov;
}

void add_valid_cases(case_list &cases) {
    add_case(cases, "sync.one_segment", [] {
        const sync_fixture fixture;
        fixture.expect_success({fixture.lmr.make_lmr_triplet(0, 4 * page_size)});
        fixture.expect_success({fixture.lmr.make_lmr_triplet(0, 1)});
        fixture.expect_success({fixture.lmr.make_lmr_triplet(4 * page_size - 1, 1)});
        fixture.expect_success({fixture.lmr.make_lmr_triplet(100, 4000)});
    });
    add_case(cases, "sync.no_segment", [] {
        const sync_fixture fixture;
        fixture.expect_success({});
        const DAT_LMR_TRIPLET segment = fixture.lmr.make_lmr_triplet(0, 8);
        expect_return(sync_read(fixture.ia, &segment, 0), DAT_SUCCESS);
        expect_return(sync_write(fixture.ia, nullptr, 0), DAT_SUCCESS);
    });
    add_case(cases, "sync.empty_segment",
             [] { // its address means nothing, its context must be valid
                 const sync_fixture fixture;
                 const DAT_LMR_TRIPLET segment = fixture.lmr.make_lmr_triplet(0, 8),
                                       empty_segment{~DAT_VADDR{0}, 0, segment.lmr_context},
                                       unknown_lmr{0, 0, unused_lmr_context(fixture)};
                 fixture.expect_success({empty_segment});
                 fixture.expect_success({empty_segment, segment, empty_segment});
                 fixture.expect_refused({unknown_lmr});
                 fixture.expect_refused({segment, unknown_lmr});
             });
    add_case(cases, "sync.many_segments", [] {
        const sync_fixture fixture;
        for (const std::size_t count : {2U, 16U, 17U, 256U, 1000U})
            fixture.expect_success(random_triplets(fixture, count));
    });
    add_case(cases, "sync.several_lmrs", [] { // and zones
        const sync_fixture fixture;
        const unique_pz pz = fixture.ia.create_pz();
        const test_lmr other_lmr(fixture.ia, pz, page_size);
        fixture.expect_success({fixture.lmr.make_lmr_triplet(0, page_size),
                                other_lmr.make_lmr_triplet(8, 8),
                                fixture.lmr.make_lmr_triplet(page_size, 1)});
    });
    add_case(cases, "sync.after_many_lmrs", [] { // some came and some went
        const sync_fixture fixture;
        {
            std::vector<std::unique_ptr<test_lmr>> lmrs;
            for (int i = 0; i < 200; ++i)
                lmrs.push_back(std::make_unique<test_lmr>(fixture.ia, fixture.pz, page_size));
            for (const auto &lmr : lmrs)
                fixture.expect_success({lmr->make_lmr_triplet(0, page_size)});
            for (std::size_t i = 0; i < lmrs.size(); i += 2)
                lmrs[i].reset();
            for (std::size_t i = 1; i < lmrs.size(); i += 2)
                fixture.expect_success({lmrs[i]->make_lmr_triplet(0, page_size)});
        }
        fixture.expect_success({fixture.lmr.make_lmr_triplet(0, page_size)});
    });
}

void add_invalid_cases(case_list &cases) {
    add_case(cases, "sync.null", [] {
        const sync_fixture fixture;
        expect_return(sync_read(fixture.ia, nullptr, 1), invalid_parameter(2));
        expect_return(sync_write(fixture.ia, nullptr, 1), invalid_parameter(2));
    });
    add_case(cases, "sync.context_unknown", [] {
        const sync_fixture fixture;
        DAT_LMR_TRIPLET segment = fixture.lmr.make_lmr_triplet(0, 8);
        segment.lmr_context = unused_lmr_context(fixture);
        fixture.expect_refused({segment});
    });
    add_case(cases, "sync.out_of_range", [] {
        const sync_fixture fixture;
        DAT_LMR_TRIPLET segment = fixture.lmr.make_lmr_triplet(0, 8);
        segment.virtual_address -= 1;
        fixture.expect_refused({segment});
        fixture.expect_refused({fixture.lmr.make_lmr_triplet(4 * page_size - 8, 9)});
        fixture.expect_refused({fixture.lmr.make_lmr_triplet(4 * page_size, 1)});
        fixture.expect_refused({fixture.lmr.make_lmr_triplet(0, 4 * page_size + 1)});
        DAT_LMR_TRIPLET wrapping = fixture.lmr.make_lmr_triplet(8, 0xffffffffU);
        fixture.expect_refused({wrapping});
        wrapping.virtual_address = ~DAT_VADDR{0} - 7;
        wrapping.segment_length = 16;
        fixture.expect_refused({wrapping});
    });
    add_case(cases, "sync.freed_lmr", [] {
        const sync_fixture fixture;
        test_lmr other_lmr(fixture.ia, fixture.pz, page_size);
        const DAT_LMR_TRIPLET segment = other_lmr.make_lmr_triplet(0, 8);
        fixture.expect_success({segment});
        require_success(other_lmr.free());
        fixture.expect_refused({segment});
    });
    add_case(cases, "sync.lmr_of_another_ia", [] {
        const sync_fixture fixture, other;
        other.expect_success({other.lmr.make_lmr_triplet(0, 8)});
        fixture.expect_refused({other.lmr.make_lmr_triplet(0, 8)});
    });
    add_case(cases, "sync.one_of_many_bad", [] {
        const sync_fixture fixture;
        for (const std::size_t index : {0U, 1U, 128U, 255U}) {
            segments iov = random_triplets(fixture, 256);
            iov[index].segment_length = 4 * page_size;
            iov[index].virtual_address += 1;
            fixture.expect_refused(iov);
        }
    });
}

} // namespace

void add_sync(case_list &cases) {
    add_valid_cases(cases);
    add_invalid_cases(cases);
}

} // namespace conform
