// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The observer that the interposer loads. A device is emulated from the moment it is opened, and
// all devices of a process with the settings of the first.

#include "interposer/observer.hpp"

#include "devices/devices.hpp"
#include "memory.hpp"
#include "out_of_memory.hpp"
#include "process.hpp"
#include "requests.hpp"

#include <cerrno>
#include <cstdio>
#include <string_view>

namespace coherdma::emulation {
namespace {

using namespace interposer;

/// The kernel's driver of the device: "rxe", "mlx5"; "" if it is not known.
std::string find_driver(const std::string &device_name) {
    for (const devices::device &device : devices::list_devices())
        if (device.name == device_name)
            return device.driver;
    return {};
}

/// FNV-1a. Not 0.
std::uint32_t number_of_driver(std::string_view driver) noexcept {
    std::uint32_t hash = 2166136261;
    for (const char c : driver)
        hash = (hash ^ static_cast<unsigned char>(c)) * 16777619;
    return hash != 0 ? hash : 1;
}

/// Emulates the device, if the settings request it; else nullptr. error: an errno, if they are
/// invalid.
emulated_device *begin_emulation(ibv_context &context, int &error) {
    const std::string name = ibv_get_device_name(context.device);
    const std::string driver = find_driver(name);
    const settings config = read_settings(name, driver);
    if (!config.problem.empty()) {
        std::fprintf(stderr, "coherdma: %s: cannot emulate a non-coherent device: %s\n",
                     name.c_str(), config.problem.c_str());
        error = EINVAL;
        return nullptr;
    }
    if (config.mode == cache_mode::OFF)
        return nullptr;
    auto added = std::make_unique<emulated_device>();
    added->context = &context;
    added->name = name;
    added->driver = driver;
    added->driver_number = number_of_driver(driver);
    emulated_device &device = add_device(std::move(added), config);
    try {
        start_process(config);
        if (process_state().mode != mode_text(config))
            process_state().log.note(name + ": mode " + mode_text(config) +
                                     " is ignored, as this process already emulates mode " +
                                     process_state().mode);
    } catch (...) {
        remove_device(&context);
        throw;
    }
    return &device;
}

class emulation_observer final : public observer {
  public:
    bool on_open(ibv_context &context, int &error) override try {
        const call_scope scope;
        return begin_emulation(context, error) != nullptr;
    } catch (const std::exception &problem) {
        std::fprintf(stderr, "coherdma: cannot emulate a non-coherent device: %s\n",
                     problem.what());
        error = ENOMEM;
        return false;
    }

    ibv_mr *reg_mr(const registration &asked, registrar &next) override try {
        const call_scope scope;
        emulated_device *const device = find_device(asked.pd->context);
        return device != nullptr ? register_memory(*device, asked, next) : next.reg_mr(asked);
    } catch (const std::bad_alloc &) {
        errno = ENOMEM;
        return nullptr;
    }

    void before_destroy(const object &ended) override {
        with_device(ended, [&](emulated_device &device) {
            switch (ended.kind) {
            case object_kind::CONTEXT:
                return begin_close(ended.context, ended.number);
            case object_kind::MR:
                return begin_dereg(device, *handle_of<ibv_mr>(ended), ended.number);
            case object_kind::MW:
                return end_mw(device, handle_of<ibv_mw>(ended));
            case object_kind::QP:
                end_mws_of_qp(device, ended.handle);
                drop_checks(ended.handle);
                return begin_destroy_queue(device, ended.number);
            case object_kind::SRQ:
                return begin_destroy_queue(device, ended.number);
            default:
                return;
            }
        });
    }

    void on_destroy(const object &ended, int error) override {
        if (ended.kind == object_kind::CONTEXT) {
            if (const auto closed = end_close(ended.number, error))
                unless_out_of_memory([&] { forget_memory(*closed); });
            return;
        }
        with_device(ended, [&](emulated_device &device) {
            if (ended.kind == object_kind::MR)
                end_dereg(device, handle_of<ibv_mr>(ended), ended.number, error);
            if (ended.kind == object_kind::QP || ended.kind == object_kind::SRQ)
                end_destroy_queue(device, ended.handle, ended.number, error);
        });
    }

    /// PD and access can be changed, if the driver can; the memory of an emulated MR cannot.
    int before_rereg_mr(const ibv_mr &mr, int flags) override {
        emulated_device *const device = find_device(mr.context);
        const bool changes_memory = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
        return changes_memory && device != nullptr && is_emulated(*device, mr) ? EOPNOTSUPP : 0;
    }
    void on_rereg_mr(ibv_mr &mr, int flags, int access) override {
        with_device(mr.context, [&](emulated_device &device) {
            change_registration(device, mr, flags, access);
        });
    }

    /// A reset drops the QP's requests.
    void on_modify_qp(ibv_qp &qp, const ibv_qp_attr &attr, int mask) override {
        if ((mask & IBV_QP_STATE) != 0 && attr.qp_state == IBV_QPS_RESET)
            process_state().requests.remove_queue(&qp, process_state().requests.last_number());
    }

    void before_send(const request &sent, ibv_send_wr &wr) override {
        with_device(sent.context, [&](emulated_device &device) {
            process_state().cache.on_post_or_poll();
            prepare_send(device, sent, wr);
        });
    }
    void before_receive(const request &receive, ibv_recv_wr &wr) override {
        with_device(receive.context, [&](emulated_device &device) {
            process_state().cache.on_post_or_poll();
            prepare_receive(device, receive, wr);
        });
    }
    void on_post(const request &sent, const ibv_send_wr &wr) override {
        unless_out_of_memory([&] { end_checks(sent, true); });
        if (sent.opcode != IBV_WR_BIND_MW && sent.opcode != IBV_WR_LOCAL_INV)
            return;
        with_device(sent.context, [&](emulated_device &device) {
            if (sent.opcode == IBV_WR_LOCAL_INV)
                return invalidate_rkey(device, wr.invalidate_rkey);
            record_mw_bind(device, static_cast<const ibv_qp *>(sent.queue), wr.bind_mw.mw,
                           wr.bind_mw.rkey, wr.bind_mw.bind_info);
        });
    }
    void on_refuse(const request &refused) override {
        process_state().requests.take(refused.queue, refused.number);
        unless_out_of_memory([&] { end_checks(refused, false); });
    }

    void on_completion(ibv_cq &cq, completion &polled) override {
        unless_out_of_memory([&] { complete_requests(polled); });
        if (polled.wc.status == IBV_WC_SUCCESS && (polled.wc.wc_flags & IBV_WC_WITH_INV) != 0)
            with_device(cq.context, [&](emulated_device &device) {
                invalidate_rkey(device, polled.wc.invalidated_rkey);
            });
    }
    void on_poll(ibv_cq &, int count) override {
        unless_out_of_memory([=] { process_state().cache.on_post_or_poll(count > 0); });
    }

    void on_fork() override { reset_process_after_fork(); }

  private:
    template <class type>
    static type *handle_of(const object &ended) noexcept {
        return static_cast<type *>(const_cast<void *>(ended.handle)); // it points to no constant
    }

    /// Calls func(device), if the context's device is emulated.
    template <class function>
    static void with_device(const ibv_context *context, function func) noexcept {
        emulated_device *const device = find_device(context);
        if (device != nullptr)
            unless_out_of_memory([&] { func(*device); });
    }
    template <class function>
    static void with_device(const object &subject, function func) noexcept {
        with_device(subject.context, func);
    }
};

} // namespace
} // namespace coherdma::emulation

extern "C" [[gnu::visibility("default")]] coherdma::interposer::observer *
coherdma_make_observer_9() {
    using namespace coherdma::emulation;
    return may_be_requested() ? new (std::nothrow) emulation_observer : nullptr;
}
