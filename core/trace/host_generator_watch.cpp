// SPDX-License-Identifier: Apache-2.0
#include "core/trace/host_generator_watch.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "core/digest/digest.h"
#include "core/trace/program_records.h"

namespace repro_check::core {
namespace {

std::string text_of(const SourceFrame* place) {
  return place == nullptr ? std::string() : place->file + ":" + std::to_string(place->line);
}

/// `train.py:16 and train.py:18`
std::string between(const SourceFrame* before, const SourceFrame* after) {
  const std::string from = text_of(before);
  std::string to = text_of(after);
  if (from.empty() || from == to) return to;
  return to.empty() ? from : from + std::string(kBothLines) + to;
}

}  // namespace

/// The place in the state and its first number: a state that is used up is made anew in whole.
std::uint64_t HostGeneratorWatch::mark(const Generator& generator) {
  std::uint32_t position = 0;
  std::uint32_t first = 0;
  const std::size_t begin = generator.position == 0 ? sizeof position : 0;
  std::memcpy(&position, generator.state + generator.position, sizeof position);
  std::memcpy(&first, generator.state + begin, sizeof first);
  return (std::uint64_t{first} << 32U) | position;
}

std::string HostGeneratorWatch::digest(const Generator& generator) {
  return to_hex(digest_bytes(std::span(generator.state, generator.size)));
}

/// Nothing has been drawn since it was seeded, or, rarely, its numbers have just been used up.
bool HostGeneratorWatch::is_new(const Generator& generator) {
  constexpr std::uint32_t kNumbers = 624;
  return static_cast<std::uint32_t>(mark(generator)) == kNumbers;
}

void HostGeneratorWatch::watch(const Generator& generator) {
  const std::lock_guard lock(mutex_);
  auto known = std::ranges::find(generators_, generator.name, &Watched::name);
  if (known == generators_.end()) known = generators_.insert(known, Watched{});
  static_cast<Generator&>(*known) = generator;
  known->seen = mark(*known);
  known->known = digest(*known);
  any_ = true;
}

void HostGeneratorWatch::look(const SourceFrame* place) {
  if (!any_) return;
  thread_local const SourceFrame* before = nullptr;
  const std::lock_guard lock(mutex_);
  for (Watched& generator : generators_) {
    const std::uint64_t now = mark(generator);
    if (now == generator.seen) continue;
    generator.seen = now;
    if (is_new(generator)) continue;
    generator.moved = true;
    if (generator.moved_at.empty()) generator.moved_at = between(before, place);
  }
  before = place;
}

HostGeneratorWatch::Texts HostGeneratorWatch::read() {
  Texts texts;
  if (!any_) return texts;
  const std::lock_guard lock(mutex_);
  for (Watched& generator : generators_) {
    generator.seen = mark(generator);
    std::string now = digest(generator);
    generator.moved = generator.moved || (now != generator.known && !is_new(generator));
    generator.known = now;
    texts.emplace_back(std::string(kGeneratorPrefix) + generator.name, std::move(now));
    if (generator.moved_at.empty()) continue;
    texts.emplace_back(std::string(kMovedPrefix) + generator.name,
                       std::exchange(generator.moved_at, {}));
  }
  return texts;
}

std::vector<EnvironmentFact> HostGeneratorWatch::facts() {
  std::vector<EnvironmentFact> facts;
  for (auto& [name, state] : read()) {
    if (name.starts_with(kGeneratorPrefix)) {
      facts.push_back({std::string(kStateAtEnd) + name, std::move(state)});
    }
  }
  const std::lock_guard lock(mutex_);
  for (const Watched& generator : generators_) {
    facts.push_back(
        {std::string(kMovedPrefix) + generator.name, generator.moved ? "true" : "false"});
  }
  return facts;
}

}  // namespace repro_check::core
