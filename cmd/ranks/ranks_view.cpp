// SPDX-License-Identifier: Apache-2.0
#include "cmd/ranks/ranks_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>

#include "cmd/ranks/rank_lines.h"
#include "cmd/recording/source_files.h"
#include "cmd/render/page.h"
#include "cmd/render/say.h"
#include "cmd/render/text.h"
#include "cmd/reports/rank_slices.h"
#include "cmd/words/catalogue.h"
#include "cmd/words/causes.h"
#include "cmd/words/finding_words.h"
#include "comparators/ranks/ranks.h"
#include "core/error.h"
#include "core/trace/dump.h"
#include "core/trace/op_record.h"
#include "core/trace/program_records.h"
#include "dumpers/store/dump_reader.h"

namespace repro_check::cmd {

DESCRIBE(comparators::RankNumber, MEMBER(rank) MEMBER(value))

namespace {

using comparators::RankReads;
using comparators::RanksReport;
using comparators::ReplicaDifference;

/// `a.weight, a.bias`, and how many more there are.
void put_names(const std::vector<std::string>& names, Json& into) {
  constexpr std::size_t kShown = 3;
  const auto shown = std::span(names).first(std::min(names.size(), kShown));
  into["shown"] = json_text(fmt::format("{}", fmt::join(shown, ", ")));
  into["more"] = names.size() > kShown ? fmt::format(" and {} more", names.size() - kShown) : "";
}

/// `lr[0] is 0.1 on rank 0, 0.2 on rank 1`, `2 parameter groups on rank 0, 1 parameter group on
/// rank 1`.
std::string numbers_text(const ReplicaDifference& difference) {
  std::string said = joined(difference.numbers, ", ", [&](const auto& number) {
    const std::string value =
        difference.other_groups
            ? format_count(static_cast<std::uint64_t>(number.value), "parameter group")
            : fmt::format("{:.9g}", number.value);
    return fmt::format("{} on rank {}", value, number.rank);
  });
  if (said.empty() || difference.other_groups) return said;
  return fmt::format("{} is {}", difference.names.front(), said);
}

/// Where a rank has what parts.
struct PartingRecord {
  std::uint32_t rank = 0;
  std::uint64_t op = 0;  ///< op index in its dump
};

PartingRecord parting_record(const ReplicaDifference& first) {
  const auto& behind = first.behind_reduction;
  return behind && !behind->call.empty() ? PartingRecord{behind->rank, behind->op}
                                         : PartingRecord{first.rank, first.op};
}

/// `train.py:7: optimizer.step()`, of the line of the program at which `find_op` finds an operator
/// of a rank's dump; empty where it finds none, or its dump is not at hand.
std::string code_of_rank(const comparators::RankRead& rank,
                         const std::function<std::uint64_t(const core::DumpSource&)>& find_op) {
  try {
    const auto dump = store::open_dump(rank.state.recording.location);
    // What a slice of another machine tells of may lie there, and another run here.
    if (dump->manifest().run_id != rank.run_id) return {};
    const std::uint64_t op = find_op(*dump);
    if (op >= dump->op_count()) return {};
    const core::OpRecord record = dump->op_head(op);
    const auto* frame = record.site ? core::display_frame(*record.site) : nullptr;
    if (frame == nullptr) return {};
    const std::string code = source_line(dump->manifest().sources, *frame);
    return core::line_text(record.site.get()) + (code.empty() ? "" : ": " + code);
  } catch (const core::Error&) {
    return {};
  }
}

std::uint64_t first_step(const core::DumpSource& dump) {
  std::uint64_t op = 0;
  while (op < dump.op_count() && dump.op_head(op).op->name != core::kStepRecord) ++op;
  return op;
}

/// Whether a proof is the headline, which then stands nowhere else.
bool leads_with_proof(const RanksReport& report) {
  using Weight = comparators::Finding::Weight;
  return report.leading() == nullptr && !report.findings.empty() &&
         report.findings.front().weight == Weight::kProof;
}

/// Where the user's program made, or read, what the headline is about. What is not of one place is
/// shown at the first step of the optimizer.
std::string code_of(const RanksReport& report, const RankReads& reads) {
  const ReplicaDifference* first = report.leading();
  if (first == nullptr && !leads_with_proof(report)) return {};
  std::string line = first == nullptr ? report.findings.front().where.line : std::string();
  if (!line.empty()) return line;
  const PartingRecord place = first == nullptr ? PartingRecord() : parting_record(*first);
  const auto rank = std::ranges::find_if(reads.ranks, [&](const comparators::RankRead& each) {
    return each.state.is_read() && (first == nullptr || each.number() == place.rank);
  });
  if (rank == reads.ranks.end()) return {};
  return code_of_rank(*rank, [&](const core::DumpSource& dump) {
    return first == nullptr ? first_step(dump) : place.op;
  });
}

/// Empty where it is not known.
std::string behind_text(const std::optional<comparators::BehindReduction>& behind) {
  if (!behind || behind->call.empty()) return {};
  const std::string text = fmt::format("first after the {}: {}{} on rank {}",
                                       behind->reduced ? "reduction" : "backward pass",
                                       behind->call,
                                       behind->by_norm ? ", by a norm," : "",
                                       behind->rank);
  if (!behind->other) return text + " alone";
  return text + fmt::format(", {} on rank {}",
                            behind->other->call == behind->call ? "which gave another result"
                                                                : behind->other->call,
                            behind->other->rank);
}

Json difference_json(const ReplicaDifference& difference) {
  Json json{{"step", difference.step},
            {"kind", comparators::replica_kind_name(difference.kind)},
            {"names", difference.names},
            {"differing", difference.names.size()},
            {"of", difference.of},
            {"odd_ranks", difference.odd},
            {"rank", difference.rank},
            {"op", difference.op},
            {"among", difference.among}};
  put_names(difference.names, json);
  if (difference.names.empty()) {
    // No dump was at hand to look them up in.
    json["differing"] = nullptr;
    json["shown"] = fmt::format("some of {}", difference.of);
  }
  json["numbers"] = json_of(difference.numbers);
  json["said"] = numbers_text(difference);
  json["behind"] = behind_text(difference.behind_reduction);
  // Empty where no majority says which is wrong.
  json["who"] = difference.odd.empty() ? std::string()
                                       : "odd " + comparators::numbered("rank", difference.odd);
  return json;
}

const char* status_of(const RanksReport& report) {
  switch (comparators::exit_code_of(report)) {
    case core::ExitCode::kReproducible:
      return "in_sync";
    case core::ExitCode::kDumpUnusable:
      return "unusable";
    case core::ExitCode::kNotComparable:
      return "not_comparable";
    default:
      return "diverged";
  }
}

/// What is said of the ranks that could not be read, or were cut short: once of those of which the
/// same is said.
Json only(const Json& ranks, const char* member, std::initializer_list<const char*> said) {
  std::vector<std::pair<Json, comparators::RankList>> groups;
  for (const Json& rank : ranks) {
    if (!rank.contains(member) || rank[member].is_null()) continue;
    Json same = Json::object();
    for (const char* name : said) same[name] = rank.value(name, Json());
    auto group = std::ranges::find(groups, same, &std::pair<Json, comparators::RankList>::first);
    // Not by insert(): a list of two would be taken for two groups, made of JSON.
    if (group == groups.end()) group = groups.emplace(group, same, comparators::RankList());
    group->second.push_back(rank["rank"].get<std::uint32_t>());
  }
  Json list = Json::array();
  for (auto& [same, numbers] : groups) {
    same["who"] = comparators::numbered("rank", numbers);
    same["count"] = numbers.size();
    list.push_back(std::move(same));
  }
  return list;
}

Json ranks_document(const RanksReport& it, const RankReads& reads, const std::string& dump) {
  Json document{{"format", "repro-check-ranks"},
                {"version", "2.0"},
                {"dump", dump},
                {"verdict",
                 {{"status", status_of(it)},
                  {"exit_code", static_cast<int>(comparators::exit_code_of(it))}}}};
  const JsonWriter f(document);
  f NAMED("expected_ranks", expected) MEMBER(steps) MEMBER(ranks) MEMBER(absent) MEMBER(replicated)
      MEMBER(set_aside) MEMBER(collectives) MEMBER(messages) MEMBER(unplaced) MEMBER(norms);
  const auto open = f.part("open_norms", it.open_norms > 0);
  if (open) (*open)("count", it.open_norms)("why", Sentence{it.why_open});
  f MEMBER(alone) NAMED("tensors_unread", unread) MEMBER(of_blocks);
  f MEMBER(why_not);
  document["first"] = nullptr;
  document["cause"] = nullptr;
  document["code"] = code_of(it, reads);
  document["independent"] = Json::array();
  document["inherited"] = Json::array();
  document["kinds"] = Json::array();
  const ReplicaDifference* leading = it.leading();
  if (leading != nullptr) {
    document["first"] = difference_json(*leading);
    document["cause"] = json_of(comparators::cause_of(*leading));
  }
  const std::vector<const ReplicaDifference*> independent = it.independent();
  for (const ReplicaDifference* other : independent) {
    Json fault = difference_json(*other);
    fault["cause"] = json_of(comparators::cause_of(*other));
    document["independent"].push_back(std::move(fault));
  }
  for (std::size_t k = 0; k < comparators::kReplicaKinds; ++k) {
    const comparators::ReplicaTally& tally = it.kinds.at(k);
    document["kinds"].push_back(
        {{"kind", comparators::replica_kind_name(static_cast<comparators::ReplicaKind>(k))},
         {"moments", json_integer(tally.moments)},
         {"items", json_integer(tally.items)},
         {"first", tally.first ? difference_json(*tally.first) : Json(nullptr)}});
    if (tally.first && &*tally.first != leading &&
        std::ranges::find(independent, &*tally.first) == independent.end()) {
      document["inherited"].push_back(difference_json(*tally.first));
    }
  }
  std::stable_sort(document["inherited"].begin(),
                   document["inherited"].end(),
                   [](const Json& one, const Json& other) { return one["step"] < other["step"]; });
  f MEMBER(findings);
  return cleaned(document);
}

/// `rank 1 was cut short`, `2 of 8 ranks were cut short or cannot be read`.
std::string incomplete_ranks(const RanksReport& report) {
  std::vector<const comparators::RankState*> states;
  for (const comparators::RankState& state : report.ranks) {
    if (!state.is_read() || !state.last_operator.empty()) states.push_back(&state);
  }
  if (states.size() > 1) {
    return fmt::format("{} of {} were cut short or cannot be read",
                       states.size(),
                       format_count(report.ranks.size(), "rank"));
  }
  return fmt::format("rank {} {}",
                     states.front()->recording.rank,
                     states.front()->is_read() ? "was cut short" : "cannot be read");
}

/// `rank 1 parts`, `ranks part`, of one group of several `ranks 1, 3 part`.
std::string who_parts(const ReplicaDifference& first) {
  if (first.odd.size() == 1) return fmt::format("rank {} parts", first.odd.front());
  if (first.among.empty()) return "ranks part";
  return comparators::numbered("rank", first.among) + " part";
}

RanksHeadline headline(const Json& document, const RanksReport& report) {
  const std::string status = document["verdict"]["status"];
  if (const ReplicaDifference* first = report.leading()) {
    return {"DIVERGED",
            fmt::format("{} at step {}, {}: {}",
                        who_parts(*first),
                        first->step,
                        comparators::replica_kind_name(first->kind),
                        escape_name(document["cause"]["title"].get<std::string>()))};
  }
  if (status == "in_sync") {
    return {report.of_blocks ? "IN SYNC at the borders of blocks" : "IN SYNC",
            fmt::format("{}, {}",
                        format_count(report.ranks.size(), "rank"),
                        format_count(report.steps, "step"))};
  }
  if (status == "diverged") return {"DIVERGED", say("{text}", document["findings"].front())};
  if (status == "unusable" && leads_with_proof(report)) {
    return {"INCOMPLETE",
            incomplete_ranks(report) + ": " + say("{text}", document["findings"].front())};
  }
  if (status == "unusable") {
    return {"INCOMPLETE",
            fmt::format("{}; nothing parts in the {} that the ranks have in common",
                        incomplete_ranks(report),
                        format_count(report.steps, "step"))};
  }
  if (report.absent.empty() && report.knows_no_replica()) {
    return {"NOT COMPARABLE", "nothing says which parameters are replicas"};
  }
  if (report.why_not) return {"NOT COMPARABLE", say("{text}", document["why_not"])};
  return {"NOT COMPARABLE",
          report.absent.empty() ? "no step of an optimizer was recorded on two ranks"
                                : fmt::format("{} of {} are absent",
                                              report.absent.size(),
                                              format_count(report.expected, "rank"))};
}

std::string tallies(const RanksReport& report) {
  std::vector<std::string> texts;
  const auto add = [&](std::string_view what, std::uint64_t count) {
    if (count != 0) texts.push_back(fmt::format("{} {}", what, format_count(count)));
  };
  for (std::size_t k = 0; k < comparators::kReplicaKinds; ++k) {
    const auto kind = static_cast<comparators::ReplicaKind>(k);
    add(comparators::replica_kind_name(kind), report.kinds.at(k).items);
  }
  add("collectives", report.collectives);
  add("messages", report.messages);
  add("norms by placement", report.norms);
  return texts.empty() ? "nothing" : joined(texts, ", ");
}

std::vector<std::string> next_commands(const RanksReport& report) {
  const ReplicaDifference* first = report.leading();
  if (first == nullptr) return {};
  const auto location = [&](std::uint32_t rank) {
    const auto found = std::ranges::find(
        report.ranks, rank, [](const auto& state) { return state.recording.rank; });
    return shell_quote(found->recording.location);
  };
  const auto inspect = [&](const PartingRecord& at) {
    return fmt::format("repro-check inspect {} --op {}", location(at.rank), at.op);
  };
  const std::string here = inspect(parting_record(*first));
  const auto& behind = first->behind_reduction;
  if (behind && !behind->call.empty()) return {here};
  // Ranks that are meant to read other data part at their first batch.
  const bool are_meant_to = first->kind != comparators::ReplicaKind::kActivations &&
                            (first->other_inputs || first->other_draws);
  if (are_meant_to) return {here, inspect({first->other_rank, first->other_op})};
  return {
      here,
      fmt::format("repro-check diff {} {}", location(first->other_rank), location(first->rank))};
}

RanksBody body_of(Json document, const RanksReport& report) {
  // Members for the text alone.
  document["tallies"] = tallies(report);
  const Json& ranks = document["ranks"];
  Json unread = only(ranks, "message", {"message"});
  Json stopped = only(ranks, "last_operator", {"steps", "last_operator"});
  Json raised = only(ranks, "raised", {"steps", "raised", "said"});
  std::size_t ranks_read = ranks.size();
  for (const Json& each : unread) ranks_read -= each["count"].get<std::size_t>();
  if (!report.of_blocks) document.erase("of_blocks");
  if (report.is_unnamed) document["unnamed"] = {{"of", ranks_read}};
  document["unread_ranks"] = std::move(unread);
  document["stopped"] = std::move(stopped);
  document["raised"] = std::move(raised);
  document["ranks_read"] = ranks_read;
  document["absent_ranks"] = Json::array();
  if (!report.absent.empty()) {
    document["absent_ranks"].push_back(comparators::numbered("rank", report.absent));
  }
  if (!report.set_aside.empty()) {
    document["not_judged"] = {{"count", report.set_aside.size()}};
    put_names(report.set_aside, document["not_judged"]);
  }
  if (report.knows_no_replica()) {
    document["unknown_replicas"] = {
        {"advice",
         "say how the ranks are laid out, and along which of these axes all parameters are "
         "replicas: --mesh pp=2,dp=2 --replicated dp"}};
  }
  document["below"] = document["findings"];
  if (leads_with_proof(report)) document["below"].erase(0);
  document["fixes"] = fixes_of(document["findings"]);
  return {said_lines(view_lines("ranks"), document), next_commands(report)};
}

constexpr std::array<std::string_view, 4> kRankFormats{"text", "json", "jsonl", "html"};

}  // namespace

std::string RanksBody::text() const {
  std::string out = text_of(said, 2);
  for (const std::string& command : next) out += "next: " + command + "\n";
  return out;
}

void require_rank_formats(const ReportFlags& report) {
  report.require_formats(kRankFormats, "what is said of ranks");
}

core::ExitCode emit_ranks(const comparators::RankReads& reads,
                          const std::vector<std::string>& dumps,
                          const ReportFlags& flags,
                          const GlobalOptions& globals) {
  require_rank_formats(flags);
  const RanksReport report = comparators::judge(reads);
  const Json document = ranks_document(report, reads, dumps.front());
  const auto produce = [&](std::string_view format, const auto& options, const TextSink& sink) {
    if (format == "jsonl") {
      sink(slice_text({"ranks", dumps, reads.asked, reads.expected, lines_of(reads)}));
    } else if (format == "json") {
      sink(to_document(document, options.pretty_json));
    } else if (format == "html") {
      sink(ranks_page(reads, headline(document, report), body_of(document, report), document));
    } else {
      std::string text = headline(document, report).line();
      if (options.verbosity >= 0) {
        text = wrapped(text + body_of(document, report).text(), options.columns);
      }
      sink(text);
    }
  };
  flags.emit(flags.style(globals, "text"), produce);
  return comparators::exit_code_of(report);
}

}  // namespace repro_check::cmd
