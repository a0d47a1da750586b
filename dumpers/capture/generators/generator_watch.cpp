// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/generators/generator_watch.h"

#include <ATen/Context.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <thread>
#include <type_traits>

#include "core/digest/digest.h"

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

namespace {

/// Draws counted before giving up; as many take about as long as the operator that made them.
constexpr std::int64_t kCountLimit = std::int64_t{1} << 28U;

/// `offset` of a philox generator: directly, or from the tail of its state in releases before 2.1.
template <class Impl>
std::uint64_t philox_offset(const Impl& impl) {
  if constexpr (requires { impl.get_offset(); }) {
    return impl.get_offset();
  } else {
    const auto state = impl.get_state();
    std::uint64_t offset = 0;
    const auto bytes = static_cast<std::size_t>(state->numel());
    if (bytes < sizeof(offset)) return 0;
    std::memcpy(&offset,
                static_cast<const std::byte*>(state->data()) + bytes - sizeof(offset),
                sizeof(offset));
    return offset;
  }
}

template <class Impl>
void put_philox_offset(Impl& impl, std::uint64_t offset) {
  if constexpr (requires { impl.set_offset(offset); }) {
    impl.set_offset(offset);
  } else {
    const auto state = impl.get_state();
    const auto bytes = static_cast<std::size_t>(state->numel());
    TORCH_CHECK(bytes >= sizeof(offset), "a generator without an offset");
    auto* end = static_cast<std::byte*>(state->data()) + bytes;
    std::memcpy(end - sizeof(offset), &offset, sizeof(offset));
    impl.set_state(*state);
  }
}

template <class From, class To>
void copy_optional(const From& from, std::optional<To>& into) {
  if (from.has_value()) {
    into = *from;
  } else {
    into.reset();
  }
}

/// An engine hands its numbers out by copying all 2.5 KB of them; they are all it consists of.
const at::mt19937_data_pod& data_of(const at::mt19937& engine) {
  static_assert(std::is_standard_layout_v<at::mt19937> &&
                sizeof(at::mt19937) == sizeof(at::mt19937_data_pod));
  return *reinterpret_cast<const at::mt19937_data_pod*>(&engine);
}

bool same_engine(const at::mt19937& left_engine, const at::mt19937& right_engine) {
  const at::mt19937_data_pod& left = data_of(left_engine);
  const at::mt19937_data_pod& right = data_of(right_engine);
  return left.seed_ == right.seed_ && left.left_ == right.left_ && left.next_ == right.next_ &&
         left.state_[0] == right.state_[0];
}

template <class Number, class Sample>
bool same_sample(const std::optional<Number>& before, const Sample& now) {
  return before.has_value() == now.has_value() && (!before.has_value() || *before == *now);
}

/// Other threads hold a generator for a microsecond when they watch it too, which is worth some
/// tries; who draws holds it longer, and a kernel that calls operators meanwhile holds it for ever.
std::unique_lock<std::mutex> try_to_hold(c10::GeneratorImpl& impl) {
  constexpr int kTries = 64;
  std::unique_lock<std::mutex> lock(impl.mutex_, std::try_to_lock);
  for (int i = 1; !lock && i < kTries; ++i) {
    std::this_thread::yield();
    lock = std::unique_lock<std::mutex>(impl.mutex_, std::try_to_lock);
  }
  return lock;
}

/// Nearly every operator leaves the generator alone, so this is what watching costs.
bool has_not_moved(const GeneratorSnapshot& before, c10::GeneratorImpl& impl) {
  if (!before.engine) {
    return before.seed == impl.current_seed() && before.offset == philox_offset(impl);
  }
  auto& cpu = static_cast<at::CPUGeneratorImpl&>(impl);
  return same_engine(*before.engine, engine_of(cpu)) &&
         same_sample(before.cached_float, cpu.next_float_normal_sample()) &&
         same_sample(before.cached_double, cpu.next_double_normal_sample());
}

/// Makes the engine's next numbers out of these. Its own way takes three times as long, for it
/// hands out every one of them. Source: M. Matsumoto, T. Nishimura, "Mersenne Twister" (1998).
void make_next(std::array<std::uint32_t, at::MERSENNE_STATE_N>& state) {
  constexpr std::size_t kCount = at::MERSENNE_STATE_N;
  constexpr std::size_t kMiddle = at::MERSENNE_STATE_M;
  const auto twisted = [](std::uint32_t one, std::uint32_t next) {
    const std::uint32_t mixed = (one & at::UMASK) | (next & at::LMASK);
    return (mixed >> 1U) ^ (-(next & 1U) & at::MATRIX_A);
  };
  std::size_t i = 0;
  for (; i < kCount - kMiddle; ++i) state[i] = state[i + kMiddle] ^ twisted(state[i], state[i + 1]);
  for (; i < kCount - 1; ++i) {
    state[i] = state[i + kMiddle - kCount] ^ twisted(state[i], state[i + 1]);
  }
  state[i] = state[kMiddle - 1] ^ twisted(state[i], state[0]);
}

/// Makes the engine's numbers, all at once as it does it itself, until they are those of the other.
std::int64_t count_draws(const at::mt19937_data_pod& from,
                         const at::mt19937_data_pod& to,
                         std::int64_t limit) {
  std::int64_t drawn = 0;
  int left = from.left_;
  for (auto state = from.state_; state != to.state_; make_next(state)) {
    drawn += std::exchange(left, at::MERSENNE_STATE_N);
    if (drawn > limit) return -1;
  }
  const int further = left - to.left_;
  return further < 0 ? -1 : drawn + further;
}

/// A copy, that of the last call of this thread where the engine stands there still.
std::shared_ptr<const at::mt19937> shared_copy(const at::mt19937& engine) {
  thread_local std::shared_ptr<const at::mt19937> latest;
  if (!latest || !same_engine(*latest, engine)) latest = std::make_shared<at::mt19937>(engine);
  return latest;
}

/// To be called while the generator is held.
void read_position(c10::GeneratorImpl& impl, GeneratorSnapshot& into) {
  if (impl.device().is_cpu()) {
    auto& cpu = static_cast<at::CPUGeneratorImpl&>(impl);
    const at::mt19937& now = engine_of(cpu);
    if (!into.engine || !same_engine(*into.engine, now)) into.engine = shared_copy(now);
    copy_optional(cpu.next_float_normal_sample(), into.cached_float);
    copy_optional(cpu.next_double_normal_sample(), into.cached_double);
    into.seed = into.engine->seed();
    return;
  }
  into.engine.reset();
  into.seed = impl.current_seed();
  into.offset = philox_offset(impl);
}

}  // namespace

std::uint64_t position_of(const GeneratorSnapshot& snapshot) {
  if (!snapshot.engine) return snapshot.offset;
  const at::mt19937_data_pod& data = data_of(*snapshot.engine);
  // The state, the place in it, and the normal sample kept for the next call.
  std::array<std::uint64_t, 4> tail{};
  tail[0] = static_cast<std::uint64_t>(static_cast<std::uint32_t>(data.left_));
  tail[1] = data.next_;
  if (snapshot.cached_float) std::memcpy(&tail[2], &*snapshot.cached_float, sizeof(float));
  if (snapshot.cached_double) std::memcpy(&tail[3], &*snapshot.cached_double, sizeof(double));
  std::array<std::byte, sizeof(data.state_) + sizeof(tail)> bytes{};
  std::memcpy(bytes.data(), data.state_.data(), sizeof(data.state_));
  std::memcpy(bytes.data() + sizeof(data.state_), tail.data(), sizeof(tail));
  return core::digest_leaf(bytes).low;
}

GeneratorSnapshot wait_for_snapshot(c10::GeneratorImpl& generator) {
  GeneratorSnapshot now;
  const std::lock_guard<std::mutex> lock(generator.mutex_);
  read_position(generator, now);
  return now;
}

bool same_place(const GeneratorSnapshot& left, const GeneratorSnapshot& right) {
  if (!left.engine || !right.engine) {
    return !left.engine && !right.engine && left.seed == right.seed && left.offset == right.offset;
  }
  return same_engine(*left.engine, *right.engine);
}

std::optional<std::uint64_t> draws_since_seed(const GeneratorSnapshot& snapshot) {
  const at::mt19937 fresh(snapshot.seed);
  const std::int64_t drawn = count_draws(data_of(fresh), data_of(*snapshot.engine), kFarthestSeek);
  const auto count = static_cast<std::uint64_t>(drawn);
  return drawn < 0 || count > kFarthestSeek ? std::nullopt : std::optional(count);
}

std::pair<GeneratorSnapshot, GeneratorSnapshot> move_on(c10::GeneratorImpl& generator) {
  GeneratorSnapshot before;
  GeneratorSnapshot after;
  const std::lock_guard<std::mutex> lock(generator.mutex_);
  read_position(generator, before);
  if (before.engine) {
    static_cast<at::CPUGeneratorImpl&>(generator).random();
  } else {
    put_philox_offset(generator, before.offset + kOffsetOfDraw);
  }
  read_position(generator, after);
  return {std::move(before), std::move(after)};
}

void set_offset(c10::GeneratorImpl& generator, std::uint64_t offset) {
  const std::lock_guard<std::mutex> lock(generator.mutex_);
  put_philox_offset(generator, offset);
}

void take_snapshot(const at::Generator* generator, GeneratorSnapshot& into) {
  into.busy = false;
  if (generator == nullptr || !generator->defined()) {
    into.generator.reset();
    return;
  }
  c10::GeneratorImpl* impl = generator->unsafeGetGeneratorImpl();
  const std::unique_lock<std::mutex> lock = try_to_hold(*impl);
  if (!lock) {
    into.generator.reset();
    into.busy = true;
    return;
  }
  if (into.generator.get() != impl) into.generator = generator->getIntrusivePtr();
  read_position(*impl, into);
}

Movement movement_since(const GeneratorSnapshot& before) {
  if (!before.generator) return {!before.busy, std::nullopt};
  c10::GeneratorImpl& impl = *before.generator;
  GeneratorSnapshot after;
  {
    const std::unique_lock<std::mutex> lock = try_to_hold(impl);
    if (!lock) return {false, std::nullopt};
    if (has_not_moved(before, impl)) return {};
    read_position(impl, after);
  }
  core::GeneratorUse use;
  if (before.engine) {
    use.drawn = before.seed == after.seed
                    ? count_draws(data_of(*before.engine), data_of(*after.engine), kCountLimit)
                    : -1;
  } else {
    use.drawn =
        before.seed == after.seed ? static_cast<std::int64_t>(after.offset - before.offset) : -1;
  }
  use.device = impl.device().str();
  use.seed = before.seed;
  use.position_before = position_of(before);
  use.position_after = position_of(after);
  return {true, std::move(use)};
}

const at::Generator* default_generator(const c10::Device& device) {
  if (device.is_cpu()) return &at::detail::getDefaultCPUGenerator();
  try {
    return &at::globalContext().defaultGenerator(device);
  } catch (const c10::Error&) {
    return nullptr;  // a device without a generator of its own: nothing to watch
  }
}

}  // namespace repro_check::capture
