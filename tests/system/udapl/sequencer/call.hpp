// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// One call of a DAT function: notes its arguments, and checks its result against its rule and
// against what is known of its handles.
//
//     call query(worker, rules::pz_query);
//     query.end(dat_pz_query(query.use(pz, "pz"), DAT_PZ_FIELD_ALL, &param));

#pragma once

#include "worker.hpp"

#include <array>

namespace sequencer {

class call {
  public:
    call(worker &caller, const call_rule &called);
    call(const call &) = delete;
    call &operator=(const call &) = delete;

    /// Notes a handle that must be valid. The first one is checked before all other arguments.
    DAT_HANDLE use(const object_ref &ref, const char *name);
    /// The same of an object of this IA.
    DAT_HANDLE use(const object_ref &ref, const object *ia, const char *name);
    /// The same of an EVD with one of these flags.
    DAT_HANDLE use_evd(const object_ref &ref, const object *ia, DAT_EVD_FLAGS flags,
                       const char *name);
    /// The same of a handle that may be DAT_HANDLE_NULL.
    DAT_HANDLE use_optional(const object_ref &ref, const object *ia, const char *name);
    /// The same of an EVD. Without it an attribute may be invalid.
    DAT_HANDLE use_optional_evd(const object_ref &ref, const object *ia, DAT_EVD_FLAGS flags,
                                const char *name);
    template <class type>
    type arg(const char *name, type value) {
        caller_.ring.add_arg(name, value);
        return value;
    }

    /// An argument is invalid: the call must not succeed.
    void expect_bad_parameter();
    /// A handle may be invalid for another reason than those of use().
    void allow_invalid_handle() { may_be_invalid_ = true; }
    void allow(std::uint32_t type_bits) { legal_ |= type_bits; }
    /// Instead of what the rule allows.
    void allow_only(std::uint32_t type_bits) { legal_ = type_bits; }
    /// The call frees this object, if it succeeds. After use() of its handle.
    void frees(object *obj);
    /// The call begins a connection attempt of this EP, if it succeeds.
    void begins_attempt(object *ep);
    /// The call makes objects of this type, which it may destroy again.
    void creates(DAT_HANDLE_TYPE type) { caller_.table.count_free(type); }

    /// Returns the result, after the checks.
    DAT_RETURN end(DAT_RETURN result);
    bool ended_in_success() const { return succeeded_; }
    /// Whether a handle was or became invalid during the call, or may have.
    bool handle_possibly_invalid() const;

  private:
    struct used_handle {
        object *obj;
        unsigned free_attempts, ia_free_attempts;
        bool was_freeing, certainly_invalid;
    };
    bool possibly_invalid(const used_handle &used) const;
    void check(DAT_RETURN result) const;

    worker &caller_;
    const call_rule &rule_;
    std::uint32_t legal_;
    std::array<used_handle, 10> handles_;
    std::size_t num_handles_ = 0;
    std::array<object *, 2> freed_ = {};
    std::size_t num_freed_ = 0;
    object *connecting_ep_ = nullptr;
    bool may_be_invalid_ = false, bad_parameter_ = false, succeeded_ = false;
    bool is_shared_ = false; ///< another call used one of the objects when this one began
};

} // namespace sequencer
