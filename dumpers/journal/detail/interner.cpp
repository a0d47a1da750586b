// SPDX-License-Identifier: Apache-2.0
#include "dumpers/journal/detail/interner.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "dumpers/journal/detail/journal_format.h"

namespace repro_check::journal {
namespace {

/// A recorder that makes a new object for every call must not be kept alive by us without end.
constexpr std::size_t kMaxPins = 1U << 16U;

}  // namespace

std::size_t Interner::Hash::operator()(std::string_view text) const noexcept {
  return static_cast<std::size_t>(entry_checksum(std::as_bytes(std::span(text))));
}

/// The number of what `body` describes, which is defined where it is new.
std::uint32_t Interner::define(Ids& ids, EntryKind kind, std::string_view body) {
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

std::uint64_t Interner::put_form(const EntryBuffer& form, bool shared, EntryBuffer& into) {
  const std::string_view body = form.payload();
  Ids& ids = form.kind() == EntryKind::kCallForm ? call_forms_ : tensor_forms_;
  if (shared && body.size() <= kLargestForm && (ids.size() < kMostForms || ids.contains(body))) {
    const std::uint64_t reference = define(ids, form.kind(), body) + std::uint64_t{1};
    into.put_varint(reference);
    return reference;
  }
  into.put_varint(kFormFollows);
  into.put_text(body);
  return kFormFollows;
}

std::uint32_t Interner::text(std::string_view text) {
  return define(texts_, EntryKind::kString, text);
}

std::uint32_t Interner::define_op(const core::OperatorInfo& op) {
  const std::uint32_t name = text(op.name);
  const std::uint32_t overload = text(op.overload);
  body_.begin(EntryKind::kOperator);
  body_.put(name);
  body_.put(overload);
  body_.put(static_cast<std::uint8_t>(op.seeded ? 1 : 0));
  return define(ops_, EntryKind::kOperator, body_.payload());
}

std::uint32_t Interner::define_site(const core::CallSite& site) {
  body_.begin(EntryKind::kSite);
  body_.put(text(site.module_path));
  body_.put(text(site.module_type));
  body_.put_varint(site.frames.size());
  for (const core::SourceFrame& frame : site.frames) {
    body_.put(text(frame.file));
    body_.put(frame.line);
    body_.put(text(frame.function));
  }
  return define(sites_, EntryKind::kSite, body_.payload());
}

void Interner::pin(const void* address, std::uint32_t id, std::shared_ptr<const void> object) {
  if (pins_.size() >= kMaxPins) {
    pins_.clear();
    recent_.fill({});
  }
  pins_.insert_or_assign(address, Pin{id, std::move(object)});
}

std::optional<std::uint32_t> Interner::pinned(const void* object) {
  const auto address = reinterpret_cast<std::uintptr_t>(object) / alignof(std::max_align_t);
  Recent& recent = recent_[(address ^ (address >> 6U)) % recent_.size()];
  if (recent.object == object) return recent.id;
  const auto found = pins_.find(object);
  if (found == pins_.end()) return std::nullopt;
  recent = {object, found->second.id};
  return recent.id;
}

std::uint32_t Interner::op(const std::shared_ptr<const core::OperatorInfo>& op) {
  if (op == nullptr) return kNoId;
  if (const auto known = pinned(op.get())) return *known;
  const std::uint32_t id = define_op(*op);
  pin(op.get(), id, op);
  return id;
}

std::uint32_t Interner::site(const std::shared_ptr<const core::CallSite>& site) {
  if (site == nullptr) return kNoId;
  if (const auto known = pinned(site.get())) return *known;
  const std::uint32_t id = define_site(*site);
  pin(site.get(), id, site);
  return id;
}

std::uint32_t Interner::op(const core::OperatorInfo* op) {
  if (op == nullptr) return kNoId;
  const auto known = pinned(op);
  return known ? *known : define_op(*op);
}

std::uint32_t Interner::site(const core::CallSite* site) {
  if (site == nullptr) return kNoId;
  const auto known = pinned(site);
  return known ? *known : define_site(*site);
}

}  // namespace repro_check::journal
