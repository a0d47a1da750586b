// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/CPUGeneratorImpl.h>

namespace repro_check::capture {

/// The engine itself: CPUGeneratorImpl::engine() returns a copy of 2.5 KB, and every operator asks
/// twice. An explicit instantiation may name a private member, whatever its place in the class.
const at::mt19937& engine_of(const at::CPUGeneratorImpl& generator);

template <at::mt19937 at::CPUGeneratorImpl::*kEngine>
struct EngineAccess {
  friend const at::mt19937& engine_of(const at::CPUGeneratorImpl& generator) {
    return generator.*kEngine;
  }
};
template struct EngineAccess<&at::CPUGeneratorImpl::engine_>;

}  // namespace repro_check::capture
