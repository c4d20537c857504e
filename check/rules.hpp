// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The rules that the program's calls are checked against. Each adds what it finds; the mutex of the
// books is locked.
#pragma once

#include "books.hpp"
#include "device_limits.hpp"
#include "finding.hpp"

#include <span>

namespace coherdma::check {

using findings = std::vector<finding>;

/// Each byte of what is undefined in a completion.
inline constexpr unsigned char FILL = 0xee;

/// A finding of an object: its creation is the first event. The stack is that of the call that is
/// being made.
finding make_finding(finding_kind, const known_object &, std::string title,
                     std::string call_description);
finding make_finding(finding_kind, const known_object &, std::string title,
                     std::string call_description, const stack_trace &);

/// The post of a request that is outstanding; place: ", was posted to QP 17".
call_event post_event(const posted_request &, const std::string &place);

// Objects (rules_of_objects.cpp)
/// The state that the device says; what the books have, if it does not.
ibv_qp_state query_state(const known_qp &);
/// Whether the device may still execute a request of this queue. Asks the device.
bool may_execute(const known_object &queue);
void check_destroy(process_books &, const interposer::object &, findings &);
/// Events of an object that is being destroyed, which the call waits for.
void check_events(const known_object &, findings &);
void check_reset(const known_qp &, findings &);
/// handle: of no object in the books. False: nor of an object that was destroyed.
bool check_destroyed(const process_books &, object_kind, const void *handle, const char *call,
                     findings &);
/// This memory is about to be freed by the call.
void check_free(const process_books &, std::uintptr_t begin, std::uintptr_t end, const char *call,
                findings &);
void find_leaks(const process_books &, findings &);

// Processes (rules_of_processes.cpp)
/// This process is a child of fork(), and the object was its parent's.
void check_inherited(const interposer::object &, const char *call, findings &);
/// fork() begins, and neither the kernel nor libibverbs keeps registered memory as it is.
void check_fork(const process_books &, findings &);

// Limits of another device (rules_of_limits.cpp)
/// It has just been created.
void check_limits_of_object(const known_object &, const device_limits &, findings &);
void check_limits_of_send(const known_qp &, const posted_request &, const ibv_send_wr &,
                          const device_limits &, findings &);
/// device: that the program uses.
void check_limits_of_modify(const known_qp &, const ibv_qp_attr &, int mask, const device_limits &,
                            const ibv_device_attr &device, findings &);

// Threads (rules_of_threads.cpp)
/// This thread begins a call with a single-threaded object.
void begin_use(process_books &, const interposer::object &, const char *call, findings &);
/// Or it ends one, which another thread may have begun.
void end_use(process_books &, const interposer::object &) noexcept;

// Requests (rules_of_requests.cpp)
/// Of a request that is about to be posted; sges: none if the data are inline. Returns what
/// the SGEs name.
std::vector<named_memory> check_sges(process_books &, const known_object &queue,
                                     std::uint32_t pd_handle, const posted_request &,
                                     std::span<const ibv_sge> sges, findings &);
/// A request that names memory of the peer, rkey and addresses (rules_of_remote_memory.cpp).
/// length: of all its data.
void check_remote(process_books &, known_qp &, const posted_request &, std::uint32_t rkey,
                  std::uint64_t remote_addr, std::uint64_t length, findings &);
/// A request with the wr_id of a completion that does not exist.
void check_wr_id(const known_object &queue, const posted_request &, findings &);
/// After the driver was asked to post it, whatever it returned.
void check_state(known_qp &, const posted_request &, findings &);
/// Before the QP has the request.
void check_after_failure(known_qp &, const posted_request &, findings &);
/// Of an SRQ that has a receive more.
void check_srq_capacity(process_books &, const known_srq &, const posted_request &, findings &);
/// When it has.
void check_capacity(process_books &, known_qp &, const posted_request &, findings &);

// Memory of requests (rules_of_ownership.cpp)
/// Before the device has the request: so that check_change() can compare.
void copy_memory(posted_request &);
/// When the program learns that the device has executed it. Of a target: before it is delivered.
void check_change(const known_object &queue, const posted_request &, findings &);
/// An outstanding request of the queue that writes to the source of this one, and for which this
/// one waits by its fence: then the program expects the source to change. nullptr: there is none.
const posted_request *find_earlier_target(const process_books &, const known_object &queue,
                                          const posted_request &);
/// Whether other requests write to memory of this one, too: what one delivers changes the other.
/// These are not compared any more.
bool shares_target(process_books &, const posted_request &);
/// Of a request that is about to be posted.
void check_overlap(const process_books &, const known_object &queue, const posted_request &,
                   findings &);
/// By the CPU. The memory can be accessed then. False: it is not protected.
bool check_access(process_books &, const refused_access &, findings &);
/// It is about to be freed, or replaced.
void forget_memory(process_books &, std::uintptr_t begin, std::uintptr_t end);

// Events (rules_of_events.cpp)
/// Whether no CQ of the channel is armed: no event can come.
bool is_unarmed(const process_books &, const ibv_comp_channel &);
/// And there are requests whose completions are not told. If there are none, another thread may
/// still be about to arm.
bool is_endless(const process_books &, const ibv_comp_channel &);
/// Of the channel's CQs, by any thread.
std::size_t count_polls(const process_books &, const ibv_comp_channel &);
/// wait: the stack of the thread that waits.
void check_endless(const process_books &, const ibv_comp_channel &, const stack_trace &wait,
                   findings &);
void check_missed(const process_books &, const ibv_comp_channel &, findings &);

} // namespace coherdma::check
