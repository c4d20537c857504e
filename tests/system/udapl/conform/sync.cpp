// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// dat_lmr_sync_rdma_read and dat_lmr_sync_rdma_write: which segments they take. What they do cannot
// be seen where the machine is coherent.

#include "adapter.hpp"
#include "cases.hpp"

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

struct place {
    adapter ia;
    unique_pz zone = ia.zone();
    region memory{ia, zone, 4 * page};

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
DAT_LMR_CONTEXT unknown_context(const place &here_is) {
    return here_is.memory.lmr_context() ^ 0x5a5a5a00U;
}

segments pieces(const place &here_is, std::size_t count) {
    segments all;
    std::minstd_rand dice(1);
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t at = dice() % (4 * page - 64);
        all.push_back(here_is.memory.piece(at, 1 + dice() % 64));
    }
    return all;
}

void good(case_list &cases) {
    add_case(cases, "sync.one_segment", [] {
        const place here_is;
        here_is.takes({here_is.memory.piece(0, 4 * page)});
        here_is.takes({here_is.memory.piece(0, 1)});
        here_is.takes({here_is.memory.piece(4 * page - 1, 1)});
        here_is.takes({here_is.memory.piece(100, 4000)});
    });
    add_case(cases, "sync.no_segment", [] {
        const place here_is;
        here_is.takes({});
        const DAT_LMR_TRIPLET one = here_is.memory.piece(0, 8);
        expect_return(sync_read(here_is.ia, &one, 0), DAT_SUCCESS);
        expect_return(sync_write(here_is.ia, nullptr, 0), DAT_SUCCESS);
    });
    add_case(cases, "sync.empty_segment", [] { // its other fields mean nothing
        const place here_is;
        const DAT_LMR_TRIPLET nothing{~DAT_VADDR{0}, 0, unknown_context(here_is)};
        here_is.takes({nothing});
        here_is.takes({nothing, here_is.memory.piece(0, 8), nothing});
    });
    add_case(cases, "sync.many_segments", [] {
        const place here_is;
        for (const std::size_t count : {2U, 16U, 17U, 256U, 1000U})
            here_is.takes(pieces(here_is, count));
    });
    add_case(cases, "sync.several_lmrs", [] { // and zones
        const place here_is;
        const unique_pz zone = here_is.ia.zone();
        const region other(here_is.ia, zone, page);
        here_is.takes(
            {here_is.memory.piece(0, page), other.piece(8, 8), here_is.memory.piece(page, 1)});
    });
    add_case(cases, "sync.after_many_lmrs", [] { // some came and some went
        const place here_is;
        {
            std::vector<std::unique_ptr<region>> others;
            for (int i = 0; i < 200; ++i)
                others.push_back(std::make_unique<region>(here_is.ia, here_is.zone, page));
            for (const auto &each : others)
                here_is.takes({each->piece(0, page)});
            for (std::size_t i = 0; i < others.size(); i += 2)
                others[i].reset();
            for (std::size_t i = 1; i < others.size(); i += 2)
                here_is.takes({others[i]->piece(0, page)});
        }
        here_is.takes({here_is.memory.piece(0, page)});
    });
}

void bad(case_list &cases) {
    add_case(cases, "sync.null", [] {
        const place here_is;
        expect_return(sync_read(here_is.ia, nullptr, 1), invalid_parameter(2));
        expect_return(sync_write(here_is.ia, nullptr, 1), invalid_parameter(2));
    });
    add_case(cases, "sync.context_unknown", [] {
        const place here_is;
        DAT_LMR_TRIPLET one = here_is.memory.piece(0, 8);
        one.lmr_context = unknown_context(here_is);
        here_is.refuses({one});
    });
    add_case(cases, "sync.out_of_range", [] {
        const place here_is;
        DAT_LMR_TRIPLET before = here_is.memory.piece(0, 8);
        before.virtual_address -= 1;
        here_is.refuses({before});
        here_is.refuses({here_is.memory.piece(4 * page - 8, 9)});
        here_is.refuses({here_is.memory.piece(4 * page, 1)});
        here_is.refuses({here_is.memory.piece(0, 4 * page + 1)});
        DAT_LMR_TRIPLET wrapping = here_is.memory.piece(8, 0xffffffffU);
        here_is.refuses({wrapping});
        wrapping.virtual_address = ~DAT_VADDR{0} - 7;
        wrapping.segment_length = 16;
        here_is.refuses({wrapping});
    });
    add_case(cases, "sync.freed_lmr", [] {
        const place here_is;
        region other(here_is.ia, here_is.zone, page);
        const DAT_LMR_TRIPLET piece = other.piece(0, 8);
        here_is.takes({piece});
        require_success(other.free());
        here_is.refuses({piece});
    });
    add_case(cases, "sync.lmr_of_another_ia", [] {
        const place here_is, elsewhere;
        elsewhere.takes({elsewhere.memory.piece(0, 8)});
        here_is.refuses({elsewhere.memory.piece(0, 8)});
    });
    add_case(cases, "sync.one_of_many_bad", [] {
        const place here_is;
        for (const std::size_t which : {0U, 1U, 128U, 255U}) {
            segments all = pieces(here_is, 256);
            all[which].segment_length = 4 * page;
            all[which].virtual_address += 1;
            here_is.refuses(all);
        }
    });
}

} // namespace

void add_sync(case_list &cases) {
    good(cases);
    bad(cases);
}

} // namespace conform
