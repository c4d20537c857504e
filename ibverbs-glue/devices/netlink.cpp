// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// RDMA netlink: lists the devices of this network namespace. The driver id of a device is in the
// response to the query of its character device.

#include "devices.hpp"
#include "messages.hpp"

#include <memory>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <rdma/rdma_netlink.h>

namespace coherdma::devices {
namespace {

struct free_socket {
    void operator()(nl_sock *socket) const noexcept { nl_socket_free(socket); }
};
struct free_message {
    void operator()(nl_msg *message) const noexcept { nlmsg_free(message); }
};
struct free_callbacks {
    void operator()(nl_cb *callbacks) const noexcept { nl_cb_put(callbacks); }
};
using unique_socket = std::unique_ptr<nl_sock, free_socket>;
using unique_message = std::unique_ptr<nl_msg, free_message>;
using unique_callbacks = std::unique_ptr<nl_cb, free_callbacks>;

// A libnl callback that appends what the message is about to a vector of Items. libnl is C, so
// exceptions are caught: without memory the list is incomplete.
template <typename Item, std::optional<Item> (*Parse)(nlmsghdr *)>
int append_item(nl_msg *message, void *list) noexcept {
    try {
        const std::optional<Item> item = Parse(nlmsg_hdr(message));
        if (!item)
            return NL_SKIP;
        static_cast<std::vector<Item> *>(list)->push_back(*item);
        return NL_OK;
    } catch (...) {
        return NL_STOP;
    }
}

/// A libnl callback for the response to the query of a character device. driver: a const char **.
int set_driver(nl_msg *message, void *driver) noexcept {
    *static_cast<const char **>(driver) = parse_driver(nlmsg_hdr(message));
    return NL_OK;
}

/// Sends the request and calls the callback with arg for each response. False: the kernel did not
/// answer, or there is no request.
bool send_request(nl_sock *socket, unique_message request, nl_recvmsg_msg_cb_t callback,
                  void *arg) {
    const unique_callbacks callbacks(nl_cb_alloc(NL_CB_DEFAULT));
    return request && callbacks && nl_send_auto(socket, request.get()) >= 0 &&
           nl_cb_set(callbacks.get(), NL_CB_VALID, NL_CB_CUSTOM, callback, arg) == 0 &&
           nl_recvmsgs(socket, callbacks.get()) >= 0;
}

unique_message make_request(int command, int flags) {
    return unique_message(nlmsg_alloc_simple(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command), flags));
}

// index: the kernel's device index.
unique_message make_device_request(std::uint32_t index, int command, int flags) {
    unique_message request = make_request(command, flags);
    const bool is_complete =
        request && nla_put_u32(request.get(), RDMA_NLDEV_ATTR_DEV_INDEX, index) == 0;
    return is_complete ? std::move(request) : nullptr;
}

unique_socket open_socket() {
    unique_socket socket(nl_socket_alloc());
    if (!socket || nl_connect(socket.get(), NETLINK_RDMA) != 0)
        return nullptr;
    nl_socket_disable_auto_ack(socket.get());
    return socket;
}

/// Without their drivers. nullopt if the kernel does not answer.
std::optional<std::vector<indexed_device>> dump_devices(nl_sock *socket) {
    std::vector<indexed_device> devices;
    if (!send_request(socket, make_request(RDMA_NLDEV_CMD_GET, NLM_F_REQUEST | NLM_F_DUMP),
                      append_item<indexed_device, parse_device>, &devices))
        return {};
    return devices;
}

} // namespace

/// The driver of each device is in the response to the query of its character device, uverbs.
std::optional<std::vector<device>> list_netlink_devices() {
    const unique_socket socket = open_socket();
    const auto indexed_devices = socket ? dump_devices(socket.get()) : std::nullopt;
    if (!indexed_devices)
        return {};
    std::vector<device> devices;
    for (const indexed_device &indexed : *indexed_devices) {
        unique_message request =
            make_device_request(indexed.index, RDMA_NLDEV_CMD_GET_CHARDEV, NLM_F_REQUEST);
        const char *driver = "";
        // Fails on older kernels: the driver is then unknown.
        if (request && nla_put_string(request.get(), RDMA_NLDEV_ATTR_CHARDEV_TYPE, "uverbs") == 0)
            send_request(socket.get(), std::move(request), set_driver, &driver);
        devices.push_back(indexed.device);
        devices.back().driver = driver;
    }
    return devices;
}

/// Asks for the ports of one device after another. nullopt if the kernel does not answer.
std::optional<std::vector<port>> list_netlink_ports() {
    const unique_socket socket = open_socket();
    const auto indexed_devices = socket ? dump_devices(socket.get()) : std::nullopt;
    if (!indexed_devices)
        return {};
    std::vector<port> ports;
    for (const indexed_device &indexed : *indexed_devices) {
        std::vector<port> device_ports;
        // Fails if the device has been removed: it then has no ports.
        send_request(
            socket.get(),
            make_device_request(indexed.index, RDMA_NLDEV_CMD_PORT_GET, NLM_F_REQUEST | NLM_F_DUMP),
            append_item<port, parse_port>, &device_ports);
        for (port &port : device_ports) {
            port.transport = indexed.device.transport;
            ports.push_back(std::move(port));
        }
    }
    return ports;
}

} // namespace coherdma::devices
