// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// rpma_err_2str() and rpma_utils_conn_event_2str(): each value has a text of its own.

#include "../lib/check.hpp"
#include "../lib/run.hpp"

#include <climits>
#include <set>

namespace conform {

namespace {

std::string text_of(const char *text) {
    require(text != nullptr && *text, "no text");
    return text;
}

} // namespace

void add_text(case_list &cases) {
    add_case(cases, "text.err", [] {
        std::set<std::string> texts{text_of(rpma_err_2str(0))};
        for (int error = RPMA_E_UNKNOWN; error >= RPMA_E_NOT_SHARED_CHNL; --error)
            expect_true(texts.insert(text_of(rpma_err_2str(error))).second,
                        concat("the text of ", return_name(error), " is not its own"));
    });
    add_case(cases, "text.err.unknown", [] {
        const std::string unknown = text_of(rpma_err_2str(RPMA_E_UNKNOWN));
        for (const int error :
             {-1, 1, RPMA_E_UNKNOWN + 1, RPMA_E_NOT_SHARED_CHNL - 1, INT_MIN, INT_MAX})
            expect_eq(text_of(rpma_err_2str(error)), unknown, "the text");
    });
    add_case(cases, "text.event", [] {
        std::set<std::string> texts;
        for (int event = RPMA_CONN_UNDEFINED; event <= RPMA_CONN_UNREACHABLE; ++event)
            expect_true(texts
                            .insert(text_of(
                                rpma_utils_conn_event_2str(static_cast<rpma_conn_event>(event))))
                            .second,
                        concat("the text of event ", event, " is not its own"));
        for (const int event : {-2, 5, INT_MAX})
            expect_true(!texts.count(text_of(
                            rpma_utils_conn_event_2str(static_cast<rpma_conn_event>(event)))),
                        concat("event ", event, " has the text of another"));
    });
}

} // namespace conform
