// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "check/kinds.hpp"

#include <algorithm>

namespace coherdma::check {
namespace {

using enum finding_level;

/// In the order of finding_kind.
constexpr std::array<kind_description, NUM_KINDS> KINDS = {{
    {.name = "use-after-destroy",
     .level = ERROR,
     .summary = "a call with an object that was destroyed",
     .why = "Destroying an object ends its life: libibverbs frees the memory that the pointer "
            "refers to, and the device may give its number to another object. A later call with "
            "the pointer, also destroying it again, reads freed memory, and may crash or act on "
            "the wrong object (ibv_create_qp(3), ibv_create_cq(3), ibv_reg_mr(3)).",
     .fix = "Destroy the object after the last call that names it. If several threads use it, have "
            "them stop first; set the pointer to NULL."},
    {.name = "destroy-while-outstanding",
     .level = ERROR,
     .summary = "a QP is destroyed or reset while sends of it are outstanding",
     .why = "Destroying a QP, or modifying it to RESET, discards the requests in its queues: they "
            "may be executed, in part or not at all, and no completion tells which (InfiniBand "
            "specification, volume 1, chapter 10: queue pairs and their states). A completion "
            "that the program has not polled yet may be removed from the CQ with them, or may "
            "still come after the QP is gone, as the driver has it. The last messages of a "
            "connection are lost on some devices and arrive on others.",
     .fix = "Poll the CQ until the last send has completed; the last one must be signaled. To stop "
            "at once, modify the QP to IBV_QPS_ERR first, and poll until each request has come "
            "back with IBV_WC_WR_FLUSH_ERR."},
    {.name = "dereg-while-outstanding",
     .level = ERROR,
     .summary = "an MR is deregistered while a request that is not complete names it",
     .why = "A request uses the memory, and the key of its MR, until its completion has been "
            "polled (ibv_post_send(3), ibv_post_recv(3)). After ibv_dereg_mr() the key is invalid "
            "and the pages may go to another use. The device then fails the request with a "
            "protection error and the connection with it, or has the old translation cached and "
            "reads or writes memory that no longer belongs to the MR.",
     .fix = "Deregister the MR after the completions of all requests that name it have been "
            "polled, or after their QP was destroyed or is in RESET or ERR."},
    {.name = "memory-freed",
     .level = ERROR,
     .summary = "memory is freed or unmapped while an outstanding request names it",
     .why = "The buffers of a request can be reused only after its completion has been polled "
            "(ibv_post_send(3), ibv_post_recv(3)). Memory that is freed earlier is given to the "
            "next allocation, and the device sends that one's data, or writes into it. If the "
            "pages are unmapped, the device goes on with the old ones, and the program never "
            "sees the data.",
     .fix = "Keep the memory until the completions of all requests that name it have been polled, "
            "or until their QP is destroyed; then deregister its MR, and free it last."},
    {.name = "cq-overflow",
     .level = ERROR,
     .summary = "more completions can come than the CQ has entries",
     .why = "A CQ has cqe entries, as ibv_create_cq(3) returned it. Each signaled send, each "
            "request that fails and each receive takes one until it is polled. If there is none "
            "left, the CQ overruns: the program gets IBV_EVENT_CQ_ERR, the CQ cannot be used any "
            "more (ibv_poll_cq(3)), and its QPs go to the error state. A device with larger CQs "
            "than requested, or a fast poll, hides it until the load grows.",
     .fix = "Create the CQ with as many entries as signaled sends and receives can be posted at "
            "once on all its QPs and SRQs: the sum of max_send_wr, max_recv_wr and max_wr is "
            "always enough. Or poll before posting more."},
    {.name = "send-queue-stuck",
     .level = ERROR,
     .summary = "the send queue is full of unsignaled requests",
     .why = "A request that is not signaled gives its place in the send queue back only when the "
            "completion of a later request of this QP is polled (InfiniBand specification, volume "
            "1, chapter 10: unsignaled completions). If all requests of a full queue are "
            "unsignaled, no completion will come, and each further post fails with ENOMEM, "
            "although the device has long executed everything. IBV_SEND_SIGNALED is described in "
            "ibv_post_send(3), sq_sig_all in ibv_create_qp(3).",
     .fix = "Set IBV_SEND_SIGNALED at least on one of every max_send_wr requests, better on one "
            "of every max_send_wr / 2, and poll its completion before the queue is full."},
    {.name = "post-dropped",
     .level = ERROR,
     .summary = "a post to a QP in a state in which it is refused or dropped",
     .why = "A QP takes sends in the state RTS, SQD, SQE or ERR, and receives in each state but "
            "RESET (InfiniBand specification, volume 1, chapter 10: queue pair states; "
            "ibv_modify_qp(3) has the transitions). Some drivers refuse an earlier post with "
            "EINVAL; others take it and never execute it, and no completion comes.",
     .fix = "Modify the QP to INIT before the first receive and to RTS before the first send. With "
            "librdmacm: post receives after rdma_create_qp(), sends after "
            "RDMA_CM_EVENT_ESTABLISHED."},
    {.name = "error-ignored",
     .level = WARNING,
     .summary = "sends are posted to a QP after it has reported an error",
     .why = "A request that completes with an error takes its QP to a state in which no further "
            "request is executed: ERR, or SQE for UC and UD (InfiniBand specification, volume 1, "
            "chapter 10: completion error semantics). Everything posted later comes back with "
            "IBV_WC_WR_FLUSH_ERR, or stays in the queue. A program that does not look at "
            "wc.status takes that for success; of a failed completion only wr_id, status, qp_num "
            "and vendor_err are valid (ibv_poll_cq(3)).",
     .fix = "Compare wc.status of each completion with IBV_WC_SUCCESS. After an error, stop "
            "posting, and modify the QP (through RESET and INIT, or from SQE to RTS) or destroy "
            "it."},
    {.name = "short-poll",
     .level = ERROR,
     .summary = "a completion is used that ibv_poll_cq() did not return",
     .why = "ibv_poll_cq() returns the number of completions, which may be less than num_entries: "
            "only so many entries of the array are completions (ibv_poll_cq(3)). The others are "
            "what the program or an earlier poll has left there. This request has the wr_id that "
            "the checker writes to such entries: without it, a buffer that the device still uses "
            "is posted again, or a request counts twice.",
     .fix = "Loop to the number that ibv_poll_cq() returned, not to the size of the array; it is 0 "
            "if there is no completion, and less if it has failed."},
    {.name = "endless-wait",
     .level = ERROR,
     .summary = "a wait for a completion event that no CQ can generate",
     .why = "A CQ puts an event in its channel only if ibv_req_notify_cq() has armed it, and each "
            "call is for one event (ibv_req_notify_cq(3)). ibv_get_cq_event() on a channel that "
            "blocks waits for the next event (ibv_get_cq_event(3)). No CQ of this channel is "
            "armed, and no event is pending: the call never returns, whatever completes.",
     .fix = "Call ibv_req_notify_cq() before the first request is posted, and again after each "
            "event, before the CQ is polled empty."},
    {.name = "missed-completion",
     .level = ERROR,
     .summary = "a CQ is armed and waited for without a poll between",
     .why = "An armed CQ reports completions that are added after ibv_req_notify_cq(), not "
            "those that are in the CQ already (ibv_req_notify_cq(3)). A completion that came "
            "just before is not reported: the program waits, and if no other request "
            "completes, it waits forever. It depends on the time, so it happens rarely, and "
            "under load. The example in ibv_get_cq_event(3) therefore polls after it arms.",
     .fix = "Arm first, then poll until the CQ is empty, then wait: ibv_get_cq_event(), "
            "ibv_ack_cq_events(), ibv_req_notify_cq(), ibv_poll_cq() until it returns 0."},
    {.name = "unacknowledged-event",
     .level = ERROR,
     .summary = "an object is destroyed while events of it are not acknowledged",
     .why = "Destroying a CQ waits until each event that ibv_get_cq_event() returned for it has "
            "been acknowledged by ibv_ack_cq_events() (ibv_get_cq_event(3)); destroying a CQ, QP "
            "or SRQ waits in the same way for ibv_ack_async_event() (ibv_get_async_event(3)). If "
            "no other thread acknowledges, the call never returns.",
     .fix = "Acknowledge each event that was got; several events of a CQ may be acknowledged by "
            "one call, at the latest before the CQ is destroyed."},
    {.name = "local-key",
     .level = ERROR,
     .summary = "the lkey of a request is of no MR of the device",
     .why = "The lkey of an SGE must be the lkey that ibv_reg_mr() returned for memory that is "
            "still registered (ibv_reg_mr(3), ibv_post_send(3)); an rkey is another number on "
            "many devices, although equal on some. The request completes with "
            "IBV_WC_LOC_PROT_ERR, and the QP goes to an error state.",
     .fix = "Use mr->lkey of an MR that covers the buffer and is registered until the request "
            "completes. Only requests with IBV_SEND_INLINE need no key."},
    {.name = "local-range",
     .level = ERROR,
     .summary = "the memory of a request is not within its MR",
     .why = "An SGE's addresses, addr to addr + length, must be within the MR of its lkey: from "
            "the address and of the length that were registered, from 0 for "
            "IBV_ACCESS_ZERO_BASED, or from the iova of ibv_reg_mr_iova() (ibv_reg_mr(3), "
            "ibv_post_send(3)). The request completes with IBV_WC_LOC_PROT_ERR or "
            "IBV_WC_LOC_LEN_ERR, and the QP goes to an error state.",
     .fix = "Register as much as is sent or received, and count the header, the last element and "
            "the 40 bytes that a UD receive needs for the GRH."},
    {.name = "local-access",
     .level = ERROR,
     .summary = "a request writes to an MR without IBV_ACCESS_LOCAL_WRITE",
     .why = "The buffers of receives, RDMA Reads and atomic operations are written by the device. "
            "Their MR must have IBV_ACCESS_LOCAL_WRITE; only reading is always permitted "
            "(ibv_reg_mr(3)). The request completes with IBV_WC_LOC_PROT_ERR, and the QP goes to "
            "an error state.",
     .fix = "Add IBV_ACCESS_LOCAL_WRITE to the access flags of ibv_reg_mr()."},
    {.name = "local-pd",
     .level = ERROR,
     .summary = "the MR of a request is of another PD than its QP or SRQ",
     .why = "QPs, SRQs and MRs belong to the PD that they were created with, and a request may use "
            "only MRs of the PD of its QP, or of its SRQ for a receive (ibv_reg_mr(3), "
            "ibv_create_qp(3), ibv_create_srq(3)). The request completes with "
            "IBV_WC_LOC_PROT_ERR, and the QP goes to an error state. Devices that do not compare "
            "PDs hide it.",
     .fix = "Register the memory in the PD of the QP. With librdmacm, a QP created without a PD "
            "has that of its rdma_cm_id: id->pd."},
    {.name = "source-changed",
     .level = ERROR,
     .summary = "the data of a request were changed before its completion",
     .why =
         "From the post of a Send, RDMA Write or atomic until its completion, the device may read "
         "the memory at any time, and again to repeat a lost packet (InfiniBand specification, "
         "volume 1, chapter 10: the consumer must not modify the buffers of a work request "
         "before its completion is retrieved). What the peer gets then are the former bytes, "
         "the new ones, or a mixture. Only IBV_SEND_INLINE copies the data in the call "
         "(ibv_post_send(3)).",
     .fix = "Change the buffer when the completion of this request, or of a later one of the same "
            "send queue, was polled; use several buffers in turn, or IBV_SEND_INLINE for small "
            "messages."},
    {.name = "early-access",
     .level = ERROR,
     .summary = "the program used memory of a receive or Read before its completion",
     .why = "From the post of a receive, RDMA Read or atomic until its completion, the device may "
            "write to the memory at any time and in any order (InfiniBand specification, volume "
            "1, chapter 10: the buffers of a work request belong to the device until its "
            "completion is retrieved). What is read before may be old, new or a mixture, even if "
            "the last byte is the new one; what is written before may be overwritten.",
     .fix =
         "Poll the completion first, and compare its status with IBV_WC_SUCCESS. Prepare a buffer "
         "before it is posted."},
    {.name = "overlap",
     .level = WARNING,
     .summary = "two requests that are not complete use the same memory, and one writes to it",
     .why =
         "The order in which the device reads and writes the memory of different requests is not "
         "defined before their completions, not even in one queue (InfiniBand specification, "
         "volume 1, chapter 10: buffers belong to a work request until its completion). Of two "
         "receives or Reads with one buffer, the second may overwrite the data of the first "
         "before the program has seen them; a Send may carry what is just being received.",
     .fix = "Give each outstanding request memory that no other one has; it is no mistake where "
            "the data do not matter, as in a benchmark."},
    {.name = "remote-key",
     .level = ERROR,
     .summary = "the rkey of a request is of no MR of its peer",
     .why = "The rkey of an RDMA Write, an RDMA Read or an atomic must be the rkey of an MR of the "
            "peer that is registered until the request completes (ibv_reg_mr(3), "
            "ibv_post_send(3)). An lkey is another number on many devices, although equal on "
            "some. The request completes with IBV_WC_REM_ACCESS_ERR, and both QPs go to an error "
            "state.",
     .fix = "Tell the peer mr->rkey, and again after each registration; deregister only when the "
            "peer has said that it is done. The other end of this QP is in this process, so that "
            "its MRs are known."},
    {.name = "remote-range",
     .level = ERROR,
     .summary = "the remote memory of a request is not within the MR of its rkey",
     .why = "The addresses of an RDMA Write, an RDMA Read or an atomic, remote_addr to remote_addr "
            "plus the lengths of all SGEs, must be within the MR of its rkey: from the address and "
            "of the length that were registered, from 0 for IBV_ACCESS_ZERO_BASED, or from the "
            "iova of ibv_reg_mr_iova() (ibv_reg_mr(3), ibv_post_send(3)). The request completes "
            "with IBV_WC_REM_ACCESS_ERR, and both QPs go to an error state.",
     .fix = "Tell the peer the address and the length that were registered, and compare them with "
            "the offset and length of each request."},
    {.name = "remote-access",
     .level = ERROR,
     .summary = "the MR of an rkey was registered without the access that a request needs",
     .why = "An RDMA Write needs IBV_ACCESS_REMOTE_WRITE in the flags of the MR that it writes to, "
            "an RDMA Read IBV_ACCESS_REMOTE_READ, and an atomic IBV_ACCESS_REMOTE_ATOMIC "
            "(ibv_reg_mr(3)). The request completes with IBV_WC_REM_ACCESS_ERR, and both QPs go to "
            "an error state.",
     .fix = "Add the flag to the access flags of ibv_reg_mr(). IBV_ACCESS_LOCAL_WRITE must be set "
            "for the two that write."},
    {.name = "remote-pd",
     .level = ERROR,
     .summary = "the MR of an rkey is of another PD than the QP that the request arrives by",
     .why = "A request gets access only to MRs of the PD of the QP that it arrives by "
            "(ibv_reg_mr(3), ibv_create_qp(3)). It completes with IBV_WC_REM_ACCESS_ERR, and both "
            "QPs go to an error state. Devices that do not compare PDs hide it.",
     .fix = "Register the memory in the PD of the QP that the peer is connected to."},
    {.name = "thread-domain",
     .level = ERROR,
     .summary = "two threads use an object with a thread domain at the same time",
     .why = "Objects that are created under a thread domain, by a parent domain that has one, have "
            "no locks of the library against concurrent access (ibv_alloc_td(3)); nor has a CQ "
            "with IBV_CREATE_CQ_ATTR_SINGLE_THREADED (ibv_create_cq_ex(3)). Two calls with one "
            "such object that overlap in time write the same entry of its queue or the same "
            "doorbell: requests are lost, or a completion is returned twice.",
     .fix = "Serialize all calls with the object: use it from one thread, or with a mutex that is "
            "held from ibv_wr_start() to ibv_wr_complete(), and from ibv_start_poll() to "
            "ibv_end_poll(). Else create it with the plain PD."},
    {.name = "used-after-fork",
     .level = ERROR,
     .summary = "a child of fork() uses an object of its parent",
     .why = "A child of fork() has copies of the driver's locks and indices, and the queues "
            "themselves are shared with the parent, or not mapped any more, as the driver has it. "
            "What the child posts or polls takes the place of a request or completion of the "
            "parent, or the child crashes. Commands of both go to the kernel by one open file "
            "(fork(2)): what the child destroys, the parent no longer has. ibv_fork_init(3) "
            "protects the parent's memory, and does not change this.",
     .fix = "Let only the parent use the objects that it has created: the child opens the device "
            "itself, and creates its own. Let it leave by _exit(), or by exec, so that no "
            "destructor destroys what it inherits; ibv_close_device() closes its copy. A daemon "
            "opens the device after its last fork()."},
    {.name = "fork-unsafe",
     .level = WARNING,
     .summary = "memory is registered at fork(), and ibv_fork_init() was not called",
     .why = "After fork(), a page belongs to both processes until one of them writes to it: that "
            "one gets a copy. If it is the parent, the device goes on with the old page, which "
            "only the child has, and the parent does not see what arrives. Kernels that copy "
            "registered pages at fork() need nothing; this one does not: "
            "ibv_is_fork_initialized(3) says IBV_FORK_DISABLED. ibv_fork_init(3) is not necessary "
            "only if all threads of the parent wait until the child ends or executes a program.",
     .fix = "Call ibv_fork_init() before the first registration, or set RDMAV_FORK_SAFE=1 in the "
            "environment. To execute a program, use posix_spawn() or vfork(), which copy nothing."},
    {.name = "device-limit",
     .level = WARNING,
     .summary = "this device takes what a named one refuses",
     .why =
         "Devices differ in the kinds of QPs, the number of SGEs, the inline data and the depths "
         "that they take. A program that works with this one fails with the one that --as "
         "names, unless it asks for its limits: ibv_query_device(3), and the cap that "
         "ibv_create_qp(3) returns. The limit is from the source that the title names.",
     .fix = "Ask the device for its limits, and use less where it has less. If the program is not "
            "for that device, do without --as."},
    {.name = "uninitialized-source",
     .level = WARNING,
     .summary = "a send names memory that is not initialized",
     .why = "The device reads the memory of the SGEs of a Send, an RDMA Write or an atomic "
            "operation (ibv_post_send(3)), and the peer gets what is in it: what the memory was "
            "used for before, a secret perhaps, and another value in each run. Only a program that "
            "is compiled with the memory sanitizer (-fsanitize=memory) knows what is initialized.",
     .fix = "Set the whole buffer, also the padding of structures, or send only the part that is "
            "set."},
    {.name = "leaked",
     .level = WARNING,
     .summary = "objects were not destroyed when the process ended",
     .why = "The kernel destroys the objects of a process that ends, so one such object does no "
            "harm. A process that creates them for each connection or request, and does not "
            "destroy them, runs out of the device's QPs, MRs or pinned memory. A PD or a CQ "
            "cannot be destroyed while other objects use it (ibv_alloc_pd(3), ibv_create_cq(3)).",
     .fix = "Destroy each object at the end of what it was created for, in the reverse order: QPs, "
            "SRQs, CQs and channels, MRs, PDs, and close the device last."},
}};

} // namespace

const kind_description &describe(finding_kind kind) noexcept {
    return KINDS[static_cast<std::size_t>(kind)];
}

std::optional<finding_kind> parse_kind(std::string_view name) noexcept {
    const auto it = std::find_if(ALL_KINDS.begin(), ALL_KINDS.end(),
                                 [name](finding_kind kind) { return name == describe(kind).name; });
    return it == ALL_KINDS.end() ? std::nullopt : std::optional(*it);
}

const char *level_name(finding_level level) noexcept {
    return level == finding_level::ERROR ? "error" : "warning";
}

} // namespace coherdma::check
