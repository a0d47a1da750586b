// SPDX-License-Identifier: Apache-2.0
#include "dumpers/journal/detail/interner.h"

#include <utility>

namespace repro_check::journal {
namespace {

/// A recorder that makes a new object for every call must not be kept alive by us without end.
constexpr std::size_t kMaxPins = 1U << 16U;

}  // namespace

void Interner::begin_record(std::uint32_t op) {
  if (op >= trails_.size()) trails_.resize(op + std::size_t{1});
  trail_ = &trails_[op];
  step_ = 0;
}

std::uint32_t Interner::text(std::string_view text) {
  if (trail_ == nullptr) return look_up(text);
  const std::size_t step = step_++;
  if (step < trail_->size()) {
    const std::uint32_t expected = (*trail_)[step];
    if (*text_of_[expected] == text) return expected;
    return (*trail_)[step] = look_up(text);
  }
  return trail_->emplace_back(look_up(text));
}

std::uint32_t Interner::look_up(std::string_view text) {
  const auto found = texts_.find(text);
  if (found != texts_.end()) return found->second;
  const auto id = static_cast<std::uint32_t>(text_of_.size());
  definition_.begin(EntryKind::kString);
  definition_.put(id);
  definition_.put_bytes(text);
  log_.append(definition_.finish());
  const auto added = texts_.emplace(text, id).first;
  text_of_.push_back(&added->first);
  return id;
}

/// Looks up the object described in body_, and defines it where it is new.
std::uint32_t Interner::define(Ids& ids, EntryKind kind) {
  const std::string_view body = body_.payload();
  const auto found = ids.find(body);
  if (found != ids.end()) return found->second;
  const auto id = static_cast<std::uint32_t>(ids.size());
  definition_.begin(kind);
  definition_.put(id);
  definition_.put_bytes(body);
  log_.append(definition_.finish());
  ids.emplace(body, id);
  return id;
}

std::uint32_t Interner::op(const core::OperatorInfo& op) {
  const std::uint32_t name = look_up(op.name);
  const std::uint32_t overload = look_up(op.overload);
  body_.begin(EntryKind::kOperator);
  body_.put(name);
  body_.put(overload);
  body_.put(static_cast<std::uint8_t>(op.seeded ? 1 : 0));
  return define(ops_, EntryKind::kOperator);
}

std::uint32_t Interner::site(const core::CallSite& site) {
  body_.begin(EntryKind::kSite);
  body_.put(look_up(site.module_path));
  body_.put(look_up(site.module_type));
  body_.put(static_cast<std::uint32_t>(site.frames.size()));
  for (const core::SourceFrame& frame : site.frames) {
    body_.put(look_up(frame.file));
    body_.put(frame.line);
    body_.put(look_up(frame.function));
  }
  return define(sites_, EntryKind::kSite);
}

void Interner::pin(const void* address, std::uint32_t id, std::shared_ptr<const void> object) {
  if (pins_.size() >= kMaxPins) pins_.clear();
  pins_.insert_or_assign(address, Pin{id, std::move(object)});
}

std::uint32_t Interner::op(const std::shared_ptr<const core::OperatorInfo>& op) {
  if (op == nullptr) return kNoId;
  const auto found = pins_.find(op.get());
  if (found != pins_.end()) return found->second.id;
  const std::uint32_t id = this->op(*op);
  pin(op.get(), id, op);
  return id;
}

std::uint32_t Interner::site(const std::shared_ptr<const core::CallSite>& site) {
  if (site == nullptr) return kNoId;
  const auto found = pins_.find(site.get());
  if (found != pins_.end()) return found->second.id;
  const std::uint32_t id = this->site(*site);
  pin(site.get(), id, site);
  return id;
}

std::uint32_t Interner::op(const core::OperatorInfo* op) {
  if (op == nullptr) return kNoId;
  const auto found = pins_.find(op);
  return found != pins_.end() ? found->second.id : this->op(*op);
}

std::uint32_t Interner::site(const core::CallSite* site) {
  if (site == nullptr) return kNoId;
  const auto found = pins_.find(site);
  return found != pins_.end() ? found->second.id : this->site(*site);
}

}  // namespace repro_check::journal
