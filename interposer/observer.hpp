// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What an observer learns of a program's verbs calls, and may change. The only header of the
// interposer that observers include.
//
// Events come on the thread that made the call, without locks of the interposer held: an observer
// may call verbs, and what it calls is not observed. But the driver may hold the lock of a QP
// between ibv_wr_start() and ibv_wr_complete(), and that of an extended CQ from ibv_start_poll()
// on: of that QP or CQ the observer calls nothing then. Events of different threads come at the
// same time. An observer throws nothing.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <infiniband/verbs.h>
#include <span>

namespace coherdma::interposer {

enum class object_kind : unsigned char { CONTEXT, PD, MR, MW, CHANNEL, CQ, SRQ, QP, AH, CM_ID };

struct call_stack {
    /// Return addresses, innermost first: those in the interposer and in other libraries precede
    /// those in the program.
    std::array<void *, 16> frames{};
    int depth = 0;
};

struct object {
    object_kind kind = {};
    const void *handle = nullptr;   ///< an ibv_qp, ibv_mr, …: another object may have it later
    ibv_context *context = nullptr; ///< that it belongs to; nullptr: a cm_id without a device
    std::uint64_t number = 0;       ///< no other object of this process has or had it
    /// Of a PD, CQ, SRQ or QP: the program has promised to serialize its calls, by a thread domain
    /// or IBV_CREATE_CQ_ATTR_SINGLE_THREADED.
    bool is_single_threaded = false;
    call_stack creation;
};

/// What an MR gives access to.
enum class memory_kind : unsigned char {
    PROGRAM, ///< the process's memory
    DMABUF,
    DEVICE,    ///< allocated by ibv_alloc_dm()
    NO_MEMORY, ///< of ibv_alloc_null_mr()
    IMPORTED,  ///< the MR was registered by another process, or by this one
    OTHER,     ///< as a later release of libibverbs defines it
};

/// What ibv_reg_mr() and its variants ask for. The members that the kind does not have are 0.
struct registration {
    ibv_pd *pd = nullptr;
    memory_kind kind = memory_kind::PROGRAM;
    void *addr = nullptr;
    std::size_t length = 0;
    std::uint64_t iova = 0; ///< addr, unless the program asked for another
    int access = 0;
};

/// A queue that the program wants to create. What its kind does not have is 0.
struct queue_request {
    object_kind kind = {};
    const ibv_qp_cap *cap = nullptr; ///< of a QP
    std::uint32_t max_entries = 0;   ///< of a CQ, or requests of an SRQ
    std::uint32_t max_sge = 0;       ///< of an SRQ
};

/// Registers memory: by the next observer, and last by the driver.
class registrar {
  public:
    /// nullptr: errno is set. Only memory of the kind PROGRAM can differ from what was asked for.
    virtual ibv_mr *reg_mr(const registration &) = 0;

  protected:
    ~registrar() = default;
};

/// A work request, from before it is posted until it is complete.
struct request {
    std::uint64_t number = 0;    ///< no other request of this process has or had it
    std::uint64_t wr_id = 0;     ///< the program's
    const void *queue = nullptr; ///< an ibv_qp, or an ibv_srq
    ibv_context *context = nullptr;
    ibv_wr_opcode opcode = {}; ///< if !is_receive
    bool is_receive = false;
    bool is_signaled = true; ///< if it is not, it has a completion only if it fails
    /// on_completion() comes: not if a function of a driver has created its CQ.
    bool is_followed = true;
};

/// One completion that a poll found.
struct completion {
    /// As the driver filled it in, but with the program's wr_id. Of an extended CQ, the members
    /// that this status or CQ does not have are 0, and only status and wr_id can be changed.
    ibv_wc &wc;
    /// nullptr: it was posted where the interposer does not see it.
    const request *completed;
    /// Whether wc has the byte_len of a receive.
    bool has_byte_len;
    /// Unsignaled ones that were posted before it, and are complete.
    std::span<const request> silent;
};

class observer {
  public:
    virtual ~observer() = default;

    /// Whether before_call() is to be called. Asked once, when the observer is loaded.
    virtual bool wants_calls() { return false; }
    /// The program begins a call that can fail, of libibverbs or librdmacm. An errno: it fails with
    /// that, and nothing else happens. The calls that register memory of the process are one,
    /// "ibv_reg_mr", and one that creates a queue has the same name with and without "_ex".
    virtual int before_call(const char *call) { return static_cast<void>(call), 0; }

    /// A device is open. False: there are no other events of this context. error: set to an errno,
    /// the program's call fails with that.
    virtual bool on_open(ibv_context &, int &error) = 0;

    /// The device has told its limits, which the observer can change for the program.
    virtual void on_query_device(ibv_context &, ibv_device_attr &) {}

    /// The program's call that creates a CQ, SRQ, QP or WQ begins, or has ended. Meanwhile the
    /// driver gives the kernel the context's async_fd: an observer that has replaced that for the
    /// program sets it back. Not of queues that a function of a driver creates. An errno: the call
    /// fails with that; after_create_queue() comes all the same. Of a WQ, the request has no kind
    /// but QP, and no more.
    virtual int before_create_queue(ibv_context &, const queue_request &) { return 0; }
    virtual void after_create_queue(ibv_context &) {}
    virtual void on_create(const object &) {}
    /// The program's call that ends the object begins.
    virtual void before_destroy(const object &) {}
    /// error: of that call, 0 if the object no longer exists.
    virtual void on_destroy(const object &, int error) { static_cast<void>(error); }
    /// An MR is asked for; returns it. An observer can register other memory in its place.
    virtual ibv_mr *reg_mr(const registration &asked, registrar &next) {
        return next.reg_mr(asked);
    }
    /// ibv_rereg_mr() begins. An errno: it fails with that.
    virtual int before_rereg_mr(const ibv_mr &, int flags) { return static_cast<void>(flags), 0; }
    /// It has succeeded.
    virtual void on_rereg_mr(ibv_mr &, int flags, int access) {
        static_cast<void>(flags), static_cast<void>(access);
    }
    /// ibv_modify_qp() begins.
    virtual void before_modify_qp(ibv_qp &, const ibv_qp_attr &, int mask) {
        static_cast<void>(mask);
    }
    /// It has succeeded.
    virtual void on_modify_qp(ibv_qp &, const ibv_qp_attr &, int mask) { static_cast<void>(mask); }

    /// How long the driver is to get the sends of a QP after the program has posted them; 0: at
    /// once. Asked once, before on_create(). Of several observers, the longest counts. Not of
    /// QPs that are single-threaded, and what is not surely accepted reaches the driver at once.
    virtual std::chrono::microseconds delay_of_sends(const object &qp) {
        return static_cast<void>(qp), std::chrono::microseconds{};
    }

    /// wr: a copy that the driver will get, without its wr_id and next. sg_list is the program's
    /// array: to change an SGE, set it to another that lives until the request is complete. Of what
    /// ibv_wr_set_inline_data() sets only that it is inline can be changed.
    virtual void before_send(const request &, ibv_send_wr &) {}
    virtual void before_receive(const request &, ibv_recv_wr &) {}
    /// The driver accepted the request. Its completion may have come before. wr: as it was posted;
    /// of ibv_bind_mw(), with the new rkey.
    virtual void on_post(const request &, const ibv_send_wr &) {}
    /// The driver refused the request: of one that was held back, after on_post(), and the program
    /// does not learn of it.
    virtual void on_refuse(const request &) {}
    /// The program discarded it by ibv_wr_abort().
    virtual void on_abort(const request &aborted) { on_refuse(aborted); }

    virtual void on_completion(ibv_cq &, completion &) {}
    /// After a poll: the number of completions that it found, or what it returned.
    virtual void on_poll(ibv_cq &, int count) { static_cast<void>(count); }

    /// Before that, if ibv_poll_cq() has filled in fewer entries than the program has asked for:
    /// the others, in the program's array.
    virtual void on_short_poll(ibv_cq &, std::span<ibv_wc> rest) { static_cast<void>(rest); }

    /// The program begins to post to a QP or SRQ or to poll a CQ that is single-threaded. Of
    /// ibv_wr_start() and ibv_start_poll(), the use ends with the call that ends them.
    virtual void before_use(const object &, const char *call) { static_cast<void>(call); }
    /// The use has ended.
    virtual void after_use(const object &) {}

    /// ibv_req_notify_cq() begins.
    virtual void before_arm(ibv_cq &) {}
    /// ibv_get_cq_event() begins. It may wait.
    virtual void before_wait(ibv_comp_channel &) {}
    /// It has returned, whatever it returned.
    virtual void after_wait(ibv_comp_channel &) {}
    /// It has returned an event of this CQ.
    virtual void on_completion_event(const object &) {}
    /// ibv_get_async_event() has returned an event of this CQ, SRQ or QP.
    virtual void on_async_event(const object &) {}
    /// The program acknowledges that many of both.
    virtual void before_acknowledge(const object &, unsigned count) { static_cast<void>(count); }

    /// A call has begun with the handle of a PD, CQ, SRQ, QP or MR that the interposer does not
    /// know: it was destroyed, or created where the interposer did not see it. True: the call
    /// fails. Of all contexts, also of those whose events the observer does not want.
    virtual bool refuses_unknown(object_kind, const void *handle, const char *call) {
        return static_cast<void>(handle), static_cast<void>(call), false;
    }

    /// Whether before_free() is to be called. Asked once, when the program's calls are redirected.
    virtual bool wants_memory_events() { return false; }
    /// The program is about to free or unmap this memory, by the call "free", "munmap" or "mmap",
    /// or may move it by "realloc" or "mremap". May come on threads that hold any lock of the
    /// program.
    virtual void before_free(const void *addr, std::size_t length, const char *call) {
        static_cast<void>(addr), static_cast<void>(length), static_cast<void>(call);
    }

    /// fork() begins.
    virtual void before_fork() {}
    /// In a child of fork(). There are no other events of the objects that it inherits than this:
    virtual void on_fork() {}
    /// The child is about to post to an inherited QP or SRQ, to poll or arm a CQ, or to destroy an
    /// object other than a context, a PD or a completion channel.
    virtual void before_inherited_use(const object &, const char *call) { static_cast<void>(call); }
};

/// What a module with an observer exports, extern "C", by this name, which changes with this
/// header. nullptr: nothing is to be observed. The module's soname is its file's name: a copy of a
/// module that is loaded is not loaded.
using make_observer_function = observer *();
inline constexpr const char *MAKE_OBSERVER_NAME = "coherdma_make_observer_9";

} // namespace coherdma::interposer
