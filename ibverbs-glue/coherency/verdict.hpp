// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Whether a device and the CPU's cache see the same memory.
//
// Nobody can ask the kernel that: what it believes of a device is in no file. So there are rules,
// each with its own file here, that look at one kind of evidence and say what it means. They are
// asked in the order of their certainty, and the first that says something decides. What each one
// read and said is kept, so that a person can check it.
#pragma once

#include "config.hpp"

#include <coherdma/coherdma.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace coherdma::coherency {

/// The device in question and where to look. What rules read is under root, "" but for tests.
struct subject {
    std::string root;
    std::string name;
    std::string driver;                   ///< of the kernel, as "mlx5"; "" if unknown
    std::string machine;                  ///< as uname -m
    std::string release;                  ///< as uname -r
    const settings *told = nullptr;       ///< what the administrator said
    ibv_context *context = nullptr;       ///< nullptr: not open
    int (*registers)(ibv_context *) = {}; ///< registers a page, 0 or the error
};

struct finding {
    std::uint32_t verdict = COHERDMA_UNKNOWN; ///< unknown: this rule says nothing
    std::string source;                       ///< the file or system call
    std::string value;                        ///< what was there
    std::string reason;                       ///< what that means, to end a sentence with
};

struct rule {
    const char *name;
    finding (*ask)(const subject &);
};

struct answer {
    std::vector<std::pair<const rule *, finding>> asked; ///< in order
    std::size_t decided = 0; ///< place of the one that counted; of the last if none did
};

/// every: asks the rest, too, once one has decided.
answer decide(const subject &, bool every);

finding ask_emulation(const subject &);
finding ask_override(const subject &);
finding ask_software(const subject &);
finding ask_architecture(const subject &);
finding ask_registration(const subject &);
finding ask_devicetree(const subject &);
finding ask_acpi(const subject &);
finding ask_pcie(const subject &);

/// A page of our own: what a plain registration of it says, 0 or the error. For subject.registers.
int register_page(ibv_context *context);

} // namespace coherdma::coherency
