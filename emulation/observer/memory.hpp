// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "devices.hpp"
#include "interposer/observer.hpp"

#include <cstdint>

namespace coherdma::emulation {

/// Registers the device's pages in place of the program's. nullptr: errno is set.
ibv_mr *register_memory(emulated_device &, const interposer::registration &asked,
                        interposer::registrar &next);

/// Whether its memory has a second copy.
bool is_emulated(emulated_device &, const ibv_mr &);

/// The driver begins to end the MR: it must find it as it registered it. Without effect if the MR
/// is not emulated, as are the next two.
void begin_dereg(emulated_device &, ibv_mr &, std::uint64_t object_number);
/// It has ended, or failed with this error. mr: another may have this address, unless it failed.
void end_dereg(emulated_device &, ibv_mr *mr, std::uint64_t object_number, int error);
/// ibv_rereg_mr() has changed the PD or the access, and maybe the keys.
void change_registration(emulated_device &, const ibv_mr &, int flags, int access);

/// A bind is posted: the MW's new rkey gives access to a part of an MR's memory, or to none.
void record_mw_bind(emulated_device &, const ibv_qp *, const ibv_mw *, std::uint32_t rkey,
                    const ibv_mw_bind_info &);
void end_mw(emulated_device &, const ibv_mw *);
/// An rkey is invalidated, by a request of the program or of a peer. Without effect if it is not
/// that of an MW.
void invalidate_rkey(emulated_device &, std::uint32_t rkey);
/// MWs of type 2 are bound to a QP, which is destroyed.
void end_mws_of_qp(emulated_device &, const void *qp);

/// The device was closed, with MRs that were not deregistered: the kernel has ended them.
void forget_memory(emulated_device &);

} // namespace coherdma::emulation
