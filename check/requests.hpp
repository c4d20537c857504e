// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Requests of the program, from their post to their completion.
#pragma once

#include "process.hpp"

#include <span>

namespace coherdma::check {

/// A request is about to be posted; sges: none if its data are inline. sg_list is set to others if
/// the program has other lkeys than the device.
void add_request(const interposer::request &, std::span<const ibv_sge> sges, bool is_fenced,
                 ibv_sge *&sg_list);
/// What a send has besides its SGEs: remote memory, an AH, an MW to bind, limits of other devices.
void check_send(const interposer::request &, const ibv_send_wr &);
/// The request, which may be a bind, is posted, or was refused.
void end_bind(const interposer::request &);
/// Entries of the program's array that a poll has not filled in get values that no program expects.
void fill_rest(std::span<ibv_wc> rest) noexcept;
/// A QP was modified.
void check_modify(ibv_qp &, const ibv_qp_attr &, int mask);
/// A QP is connected, to a peer of its own device.
void note_connection(const ibv_qp &, const ibv_qp_attr &, int mask);
/// The driver was asked to post it, whatever it returned.
void check_posted(const interposer::request &);
/// It was refused, or is complete.
void remove_request(process_books &, const interposer::request &);
void note_completion(const interposer::completion &);

} // namespace coherdma::check
