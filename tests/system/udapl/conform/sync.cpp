// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// dat_lmr_sync_rdma_read and dat_lmr_sync_rdma_write: which segments they take. What they do cannot
// be seen where the machine is coherent.

#include "cases.hpp"
#include "test_ia.hpp"

#include <memory>
#include <random>

namespace conform {

namespace {

using segments = std::vector<DAT_LMR_TRIPLET>;

DAT_RETURN sync_read(DAT_IA_HANDLE ia, const DAT_LMR_TRIPLET *all, DAT_VLEN count) {
    return dat_lmr_sync_rdma_read(ia, all, count);
}
DAT_RETURN sync_write(DAT_IA_HANDLE ia, const DAT_LMR_TRIPLET *all, DAT_VLEN count) {
    return dat_lmr_sync_rdma_write(ia, all, count);
}

struct sync_fixture {
    test_ia ia;
    unique_pz zone = ia.create_pz();
    test_lmr memory{ia, zone, 4 * page};

    /// Both calls return this.
    void says(DAT_RETURN want, const segments &all,
              source_location loc = current_location()) const {
        {
            const scoped_trace which("dat_lmr_sync_rdma_read");
            expect_return(sync_read(ia, all.data(), all.size()), want, loc);
        }
        const scoped_trace which("dat_lmr_sync_rdma_write");
        expect_return(sync_write(ia, all.data(), all.size()), want, loc);
    }
    void takes(const segments &all, source_location loc = current_location()) const {
        says(DAT_SUCCESS, all, loc);
    }
    void refuses(const segments &all, source_location loc = current_location()) const {
        says(invalid_parameter(2), all, loc);
    }
};

/// One that no LMR has.
DAT_LMR_CONTEXT unknown_context(const sync_fixture &fixture) {
    return fixture.memory.lmr_context() ^ 0x5a5a5a00U;
}

segments pieces(const sync_fixture &fixture, std::size_t count) {
    segments all;
    std::minstd_rand dice(1);
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t at = dice() % (4 * page - 64);
        all.push_back(fixture.memory.lmr_triplet(at, 1 + dice() % 64));
    }
    return all;
}

void good(case_list &cases) {
    add_case(cases, "sync.one_segment", [] {
        const sync_fixture fixture;
        fixture.takes({fixture.memory.lmr_triplet(0, 4 * page)});
        fixture.takes({fixture.memory.lmr_triplet(0, 1)});
        fixture.takes({fixture.memory.lmr_triplet(4 * page - 1, 1)});
        fixture.takes({fixture.memory.lmr_triplet(100, 4000)});
    });
    add_case(cases, "sync.no_segment", [] {
        const sync_fixture fixture;
        fixture.takes({});
        const DAT_LMR_TRIPLET one = fixture.memory.lmr_triplet(0, 8);
        expect_return(sync_read(fixture.ia, &one, 0), DAT_SUCCESS);
        expect_return(sync_write(fixture.ia, nullptr, 0), DAT_SUCCESS);
    });
    add_case(cases, "sync.empty_segment", [] { // its other fields mean nothing
        const sync_fixture fixture;
        const DAT_LMR_TRIPLET nothing{~DAT_VADDR{0}, 0, unknown_context(fixture)};
        fixture.takes({nothing});
        fixture.takes({nothing, fixture.memory.lmr_triplet(0, 8), nothing});
    });
    add_case(cases, "sync.many_segments", [] {
        const sync_fixture fixture;
        for (const std::size_t count : {2U, 16U, 17U, 256U, 1000U})
            fixture.takes(pieces(fixture, count));
    });
    add_case(cases, "sync.several_lmrs", [] { // and zones
        const sync_fixture fixture;
        const unique_pz zone = fixture.ia.create_pz();
        const test_lmr other(fixture.ia, zone, page);
        fixture.takes({fixture.memory.lmr_triplet(0, page), other.lmr_triplet(8, 8),
                       fixture.memory.lmr_triplet(page, 1)});
    });
    add_case(cases, "sync.after_many_lmrs", [] { // some came and some went
        const sync_fixture fixture;
        {
            std::vector<std::unique_ptr<test_lmr>> others;
            for (int i = 0; i < 200; ++i)
                others.push_back(std::make_unique<test_lmr>(fixture.ia, fixture.zone, page));
            for (const auto &each : others)
                fixture.takes({each->lmr_triplet(0, page)});
            for (std::size_t i = 0; i < others.size(); i += 2)
                others[i].reset();
            for (std::size_t i = 1; i < others.size(); i += 2)
                fixture.takes({others[i]->lmr_triplet(0, page)});
        }
        fixture.takes({fixture.memory.lmr_triplet(0, page)});
    });
}

void bad(case_list &cases) {
    add_case(cases, "sync.null", [] {
        const sync_fixture fixture;
        expect_return(sync_read(fixture.ia, nullptr, 1), invalid_parameter(2));
        expect_return(sync_write(fixture.ia, nullptr, 1), invalid_parameter(2));
    });
    add_case(cases, "sync.context_unknown", [] {
        const sync_fixture fixture;
        DAT_LMR_TRIPLET one = fixture.memory.lmr_triplet(0, 8);
        one.lmr_context = unknown_context(fixture);
        fixture.refuses({one});
    });
    add_case(cases, "sync.out_of_range", [] {
        const sync_fixture fixture;
        DAT_LMR_TRIPLET before = fixture.memory.lmr_triplet(0, 8);
        before.virtual_address -= 1;
        fixture.refuses({before});
        fixture.refuses({fixture.memory.lmr_triplet(4 * page - 8, 9)});
        fixture.refuses({fixture.memory.lmr_triplet(4 * page, 1)});
        fixture.refuses({fixture.memory.lmr_triplet(0, 4 * page + 1)});
        DAT_LMR_TRIPLET wrapping = fixture.memory.lmr_triplet(8, 0xffffffffU);
        fixture.refuses({wrapping});
        wrapping.virtual_address = ~DAT_VADDR{0} - 7;
        wrapping.segment_length = 16;
        fixture.refuses({wrapping});
    });
    add_case(cases, "sync.freed_lmr", [] {
        const sync_fixture fixture;
        test_lmr other(fixture.ia, fixture.zone, page);
        const DAT_LMR_TRIPLET piece = other.lmr_triplet(0, 8);
        fixture.takes({piece});
        require_success(other.free());
        fixture.refuses({piece});
    });
    add_case(cases, "sync.lmr_of_another_ia", [] {
        const sync_fixture fixture, other;
        other.takes({other.memory.lmr_triplet(0, 8)});
        fixture.refuses({other.memory.lmr_triplet(0, 8)});
    });
    add_case(cases, "sync.one_of_many_bad", [] {
        const sync_fixture fixture;
        for (const std::size_t which : {0U, 1U, 128U, 255U}) {
            segments all = pieces(fixture, 256);
            all[which].segment_length = 4 * page;
            all[which].virtual_address += 1;
            fixture.refuses(all);
        }
    });
}

} // namespace

void add_sync(case_list &cases) {
    good(cases);
    bad(cases);
}

} // namespace conform
