// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// siw's kernel answers who asks for a connection a moment before it listens to the connection's
// socket. What the asker sends in that moment stays there unread until more arrives, and both
// programs may wait for ever. So a while after a connection was made the asker sends something more
// that no program sees: a Write of nothing.

#include "../clock.hpp"
#include "../ia.hpp"
#include "connection.hpp"

#include <array>

namespace coherdma::dapl::cm {

namespace {

constexpr std::int64_t millisecond = 1000000;
/// The moment is long where processors are few, so there is a second time.
constexpr std::array<std::int64_t, 2> waits = {250 * millisecond, 2000 * millisecond};

void wait(ep &one) noexcept {
    if (one.knocks < waits.size())
        events::at(one.when_unheard, deadline::now() + waits[one.knocks]);
}

} // namespace

std::uint32_t room_for_knocks(const ep &one) noexcept {
    const device &on = *one.home->on;
    return on.is_siw() && one.attr.max_request_dtos < on.limits.max_qp_wr ? 1 : 0;
}

void will_knock(ep &one) noexcept {
    one.knocks = 0;
    if (room_for_knocks(one) != 0)
        wait(one);
}

void knock(ep &one) noexcept {
    {
        const holding requests(one.requests.guard);
        if (one.qp == nullptr || one.now() != DAT_EP_STATE_CONNECTED)
            return;
        ibv_send_wr nothing = {}, *refused; // Who has no record is told of to nobody.
        nothing.opcode = IBV_WR_RDMA_WRITE;
        ibv_post_send(one.qp, &nothing, &refused); // If it is refused, others are on their way.
    }
    ++one.knocks;
    wait(one);
}

} // namespace coherdma::dapl::cm
