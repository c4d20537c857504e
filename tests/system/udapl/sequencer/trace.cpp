// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "trace.hpp"

#include <cstdio>
#include <cstring>
#include <unistd.h>

namespace sequencer {

namespace {

std::int64_t now_ns() {
    return std::chrono::steady_clock::now().time_since_epoch().count();
}

const char *skip_prefix(const char *name) {
    return std::strncmp(name, "DAT_", 4) == 0 ? name + 4 : name;
}

} // namespace

std::string return_name(DAT_RETURN value) {
    const char *type = "", *subtype = "";
    if (dat_strerror(value, &type, &subtype) != DAT_SUCCESS) {
        char text[32];
        std::snprintf(text, sizeof text, "%#x", value);
        return text;
    }
    std::string text = skip_prefix(type);
    if (DAT_GET_SUBTYPE(value) != DAT_NO_SUBTYPE)
        text.append("/").append(skip_prefix(subtype));
    return text;
}

void call_ring::wait_if_frozen() {
    while (frozen_.load(std::memory_order_relaxed))
        usleep(100000);
}

void call_ring::freeze() {
    frozen_.store(true, std::memory_order_relaxed);
    usleep(10000); // for threads that write a record
}

void call_ring::begin(const char *name) {
    wait_if_frozen();
    call_record &record = current();
    record.name = name;
    record.num_args = 0;
    record.returned = false;
    start_ns_.store(now_ns(), std::memory_order_relaxed);
}

void call_ring::end(DAT_RETURN result) {
    wait_if_frozen();
    call_record &record = current();
    record.result = result;
    record.returned = true;
    ++count_;
    start_ns_.store(0, std::memory_order_relaxed);
}

std::chrono::nanoseconds call_ring::age() const {
    const std::int64_t start = start_ns_.load(std::memory_order_relaxed);
    return std::chrono::nanoseconds(start != 0 ? now_ns() - start : 0);
}

std::string call_ring::to_text(const call_record &record) {
    std::string text = std::string(record.name != nullptr ? record.name : "no call") + "(";
    for (std::size_t i = 0; i != record.num_args; ++i) {
        char value[96];
        std::snprintf(value, sizeof value, "%s%s=%#llx", i != 0 ? ", " : "", record.args.at(i).name,
                      static_cast<unsigned long long>(record.args.at(i).value));
        text += value;
    }
    return text + ") " + (record.returned ? return_name(record.result) : "in progress");
}

void call_ring::print(std::size_t thread_index) const {
    // The current record is the oldest one or that of the call in progress.
    const std::size_t first = count_ + (records_.at(count_ % records_.size()).returned ? 0 : 1);
    for (std::size_t i = 0; i != records_.size(); ++i) {
        const call_record &record = records_.at((first + i) % records_.size());
        if (record.name != nullptr)
            std::fprintf(stderr, "thread %zu: %s\n", thread_index, to_text(record).c_str());
    }
}

} // namespace sequencer
