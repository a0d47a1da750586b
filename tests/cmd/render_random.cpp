// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <memory>
#include <random>

#include "cmd/words/causes.h"
#include "tests/cmd/render_reports.h"

namespace repro_check::tests {
namespace {

using comparators::DivergenceKind;
using comparators::OpDivergence;
using comparators::Relation;
using comparators::Report;
using comparators::Status;

// The last of hostile_names().
constexpr std::size_t kLongNames = 4;

// A plain engine and modulo, because the distributions of the standard library are not the same
// numbers everywhere.
class Dice {
 public:
  explicit Dice(std::uint32_t seed) : engine_(seed) {}
  std::uint64_t below(std::uint64_t limit) { return limit == 0 ? 0 : engine_() % limit; }
  bool chance(std::uint64_t one_in) { return below(one_in) == 0; }
  std::string name() {
    // The long ones rarely, for the tests' own time.
    const std::size_t short_ones = hostile_names().size() - kLongNames;
    return hostile_names()[chance(30) ? short_ones + below(kLongNames) : below(short_ones)];
  }
  std::uint64_t any() { return engine_() >> below(64); }
  double number() {
    constexpr double kInf = std::numeric_limits<double>::infinity();
    switch (below(6)) {
      case 0:
        return std::numeric_limits<double>::quiet_NaN();
      case 1:
        return chance(2) ? kInf : -kInf;
      case 2:
        return 0.0;
      default:
        return static_cast<double>(any()) * (chance(2) ? 1e-30 : 1.0);
    }
  }
  comparators::Metric metric() {
    return chance(4) ? comparators::Metric{} : comparators::Metric{number()};
  }

 private:
  std::mt19937_64 engine_;
};

core::OpRecord random_record(Dice& dice) {
  core::OpRecord out;
  if (dice.chance(8)) {
    return out;
  }
  out.op =
      std::make_shared<core::OperatorInfo>(core::OperatorInfo{dice.name(), dice.name(), false});
  core::CallSite site;
  site.module_path = dice.name();
  for (std::uint64_t i = dice.below(3); i > 0; --i) {
    site.frames.push_back({dice.name(), static_cast<std::uint32_t>(dice.below(5)), dice.name()});
  }
  out.site = std::make_shared<core::CallSite>(std::move(site));
  out.step = static_cast<std::uint32_t>(dice.below(3));
  out.phase =
      static_cast<core::Phase>(dice.below(static_cast<std::uint64_t>(core::kLastPhase) + 1));
  if (dice.chance(3)) {
    out.generator = core::GeneratorUse{dice.name(), dice.any(), dice.any(), dice.any(), -1};
  }
  return out;
}

comparators::TensorMetrics random_metrics(Dice& dice) {
  comparators::TensorMetrics m;
  m.elements = 1 + dice.any();
  m.n_diff = dice.below(m.elements) + 1;
  m.n_beyond = dice.below(m.n_diff + 1);
  m.nan_baseline = dice.below(3);
  m.nan_candidate = dice.below(3);
  m.inf_sign = dice.below(2);
  m.inf_candidate = dice.any();
  m.zero_sign_only = dice.any();
  m.noncanonical_bool = dice.any();
  for (auto* metric : {&m.max_abs, &m.mean_abs, &m.max_rel, &m.ulp_mean, &m.rmse, &m.cosine}) {
    *metric = dice.metric();
  }
  if (dice.chance(2)) {
    m.ulp_max = dice.any();
  }
  if (dice.chance(3)) {
    m.max_abs_exact = dice.any();
  }
  return m;
}

std::vector<comparators::Sample> random_samples(Dice& dice) {
  std::vector<comparators::Sample> out(dice.below(5));
  for (auto& sample : out) {
    sample.flat_index = dice.any();
    sample.index.assign(dice.below(9), static_cast<std::int64_t>(dice.any() >> 1U));
    sample.baseline = dice.chance(3) ? dice.name() : "-1.7976931348623157e+308";
    sample.candidate = dice.chance(3) ? sample.baseline : "0.1";
    sample.baseline_bits = "ffefffffffffffff";
    sample.candidate_bits = "3fb999999999999a";
    if (dice.chance(2)) {
      sample.ulp = dice.any();
    }
  }
  return out;
}

std::vector<comparators::TensorComparison> random_tensors(Dice& dice) {
  std::vector<comparators::TensorComparison> out(dice.below(3));
  for (auto& tensor : out) {
    tensor.baseline.slot = dice.name();
    tensor.baseline.dtype = static_cast<core::Dtype>(dice.below(26));
    tensor.baseline.shape.assign(dice.below(40), static_cast<std::int64_t>(dice.below(1U << 20U)));
    tensor.baseline.state = static_cast<core::ContentState>(dice.below(6));
    tensor.candidate = tensor.baseline;
    tensor.candidate.stored = dice.chance(2);
    tensor.outcome = static_cast<comparators::TensorOutcome>(dice.below(6));
    if (dice.chance(2)) tensor.note = {cmd::as_said(dice.name())};
    if (dice.chance(2)) {
      tensor.metrics = random_metrics(dice);
      tensor.policy_kind = configs::PolicyKind::kUlp;
    }
    tensor.samples = random_samples(dice);
  }
  return out;
}

OpDivergence random_divergence(Dice& dice) {
  OpDivergence out;
  if (!dice.chance(4)) {
    out.baseline_index = dice.any();
  }
  if (!dice.chance(4)) {
    out.candidate_index = dice.any();
  }
  out.baseline = random_record(dice);
  out.candidate = random_record(dice);
  out.relation = static_cast<Relation>(dice.below(4));
  out.kind = static_cast<DivergenceKind>(dice.below(9));
  out.outputs = random_tensors(dice);
  out.inputs = random_tensors(dice);
  out.notes.assign(dice.below(4), dice.name());
  if (dice.below(2) == 0) out.code = dice.name();
  out.cause = {static_cast<comparators::CauseKind>(
                   dice.below(static_cast<int>(comparators::kLastCause) + 1)),
               {told(dice.name() + " " + dice.name())},
               told(dice.name())};
  if (dice.chance(2)) out.replaced = {told(dice.name())};
  out.severity = dice.number();
  return out;
}

// Sums close as compare() promises: matched plus missing is what a side has.
comparators::Coverage random_coverage(Dice& dice) {
  comparators::Coverage c;
  c.equal = dice.below(100000);
  c.within_policy = dice.below(3);
  c.origins = dice.below(50);
  c.propagated = dice.below(500);
  c.diverged = c.origins + c.propagated;
  c.compared = c.equal + c.within_policy + c.diverged;
  c.skipped = dice.below(3);
  c.not_judged = dice.below(3);
  c.missing_in_baseline = dice.below(20);
  c.missing_in_candidate = dice.below(20);
  c.baseline_ops = c.compared + c.skipped + c.not_judged + c.missing_in_candidate;
  c.candidate_ops = c.compared + c.skipped + c.not_judged + c.missing_in_baseline;
  c.fused_baseline = dice.below(3);
  c.fused_candidate = dice.below(3);
  c.without_content = dice.below(3);
  c.replaced_baseline = dice.below(3);
  c.replaced_candidate = dice.below(3);
  c.tensors = dice.any();
  c.elements = dice.any();
  c.bytes = dice.any();
  return c;
}

comparators::RunSummary random_run(Dice& dice) {
  static const std::vector<std::string> kStatuses = {"complete", "incomplete", "damaged", "failed"};
  comparators::RunSummary out;
  out.name = dice.name();
  out.location = dice.name();
  out.status = kStatuses[dice.below(kStatuses.size())];
  out.signal = dice.chance(2) ? "SIGKILL" : "";
  out.message = dice.name();
  if (dice.chance(2)) {
    out.last_op = dice.any();
  }
  out.manifest.created = dice.chance(2) ? "2026-01-01T00:00:00Z" : "";
  out.manifest.device = dice.name();
  if (dice.chance(2)) {
    out.manifest.model_method = core::kProgramMethod;
    out.manifest.trace.only = dice.name();
    out.manifest.trace.optimizer = core::kOptimizerState;
  }
  out.manifest.settings = {{"threads.intra_op", "1", dice.chance(2) ? "4" : dice.name()},
                           {dice.name(), dice.name(), dice.name()}};
  out.manifest.environment = {{"libtorch.version", dice.name()}};
  out.manifest.seconds = dice.chance(9) ? std::numeric_limits<double>::quiet_NaN() : 1.5;
  return out;
}

void add_surroundings(Report& report, Dice& dice) {
  if (dice.chance(2)) {
    comparators::Phrase& phrase = report.warnings.emplace_back("outputs-not-finite");
    phrase.with("kind", "NaN").with("outputs", 2).with("elements", 3).with("maker", dice.name());
  }
  if (dice.chance(2)) {
    comparators::Finding finding{comparators::FindingId::kSameOrder};
    finding.where = {3, 1, dice.any(), dice.name(), dice.name()};
    finding.with("sampler", dice.name()).with("epochs", 2).with("share", 0.5);
    finding.with("contents_differ", true).with("names", std::vector<std::string>{dice.name()});
    report.findings = {finding};
  }
  for (std::uint64_t i = dice.below(5); i > 0; --i) {
    report.reasons.push_back(cmd::as_said(dice.name()));
    report.warnings.push_back(cmd::as_said(dice.name()));
    report.differences.push_back({dice.name(), dice.name(), dice.name(), dice.chance(2)});
    comparators::NamedTensorDifference named;
    named.kind = static_cast<core::NamedTensorKind>(dice.below(3));
    named.name = dice.name();
    if (dice.chance(2)) named.note = {cmd::as_said(dice.name())};
    named.samples = random_samples(dice);
    if (dice.chance(2)) {
      named.metrics = random_metrics(dice);
    }
    report.named_tensors.push_back(std::move(named));
  }
  report.draws.operators = dice.below(3);
  report.draws.devices = {dice.name(), dice.name()};
  report.draws.seeds.assign(1 + dice.below(4), dice.any());
  if (dice.chance(2)) report.draws.parting = {told(dice.name())};
  if (dice.chance(2)) report.draws.of_host = {told(dice.name())};
}

comparators::ResumeSummary random_resume(Dice& dice) {
  comparators::ResumeSummary out;
  out.step = static_cast<std::uint32_t>(1 + dice.below(9));
  if (dice.chance(2)) out.saved = dice.name();
  if (dice.chance(2)) out.loaded = dice.name();
  out.files = dice.any();
  out.baseline_op = dice.any();
  out.candidate_op = dice.any();
  out.first_calls = dice.below(3);
  if (dice.chance(3)) out.before_update = out.step - 1;
  for (std::uint64_t i = dice.below(6); i > 0; --i) {
    comparators::RestoredState& state = out.states.emplace_back();
    state.kind = static_cast<comparators::StateKind>(dice.below(12));
    state.outcome = static_cast<comparators::Restored>(dice.below(5));
    state.items = dice.any();
    state.differing = dice.any();
    state.name = dice.name();
    state.detail = {cmd::as_said(dice.name())};
    state.place = dice.name();
    if (dice.chance(2)) state.moved = dice.any();
  }
  return out;
}

comparators::StepSeries random_steps(Dice& dice) {
  comparators::StepSeries out;
  out.kind = static_cast<comparators::StepSeries::Kind>(dice.below(4));
  out.ordinal = static_cast<std::uint32_t>(dice.below(3));
  out.stride = static_cast<std::uint32_t>(1 + dice.below(3));
  if (dice.chance(2)) out.first_apart = static_cast<std::uint32_t>(dice.below(9));
  std::uint32_t step = 0;
  for (std::uint64_t i = 1 + dice.below(5); i > 0; --i) {
    out.steps.push_back(step += out.stride);
    const auto number = [&] {
      return dice.chance(3) ? comparators::Metric() : comparators::Metric(dice.number());
    };
    out.baseline.push_back(number());
    out.candidate.push_back(number());
  }
  return out;
}

comparators::DataComparison random_data(Dice& dice) {
  comparators::DataComparison out;
  const auto last = static_cast<std::uint64_t>(comparators::kLastDataVerdict);
  out.loader = "train.py:" + dice.name();
  out.verdict = static_cast<comparators::DataVerdict>(dice.below(last + 1));
  out.batches = dice.any();
  out.step = static_cast<std::uint32_t>(dice.below(9));
  out.epoch = dice.below(3);
  out.batch = dice.below(9);
  out.finding.id = comparators::FindingId::kOtherSamples;
  out.finding.where.line = out.loader;
  out.finding.with("sampler", dice.name()).with("epoch", out.epoch).with("batch", out.batch);
  return out;
}

core::Digest random_digest(Dice& dice) { return {dice.any(), dice.any()}; }

core::BlockRow random_border(Dice& dice) {
  core::BlockRow out;
  out.step = static_cast<std::uint32_t>(dice.below(9));
  out.path = dice.name();
  out.call = static_cast<std::uint32_t>(dice.below(3));
  out.training = dice.chance(2);
  if (dice.chance(2)) out.in = random_digest(dice);
  if (dice.chance(2)) out.out = random_digest(dice);
  out.unopened = static_cast<std::uint32_t>(dice.below(3));
  return out;
}

comparators::BlockComparison random_blocks(Dice& dice) {
  comparators::BlockComparison out;
  out.blocks = dice.below(20);
  out.steps = dice.any();
  out.compared = dice.any();
  out.unread = dice.below(3);
  out.first_unread = dice.name();
  out.every = 1 + dice.below(9);
  out.losses = dice.below(9);
  out.updates = dice.below(9);
  out.exchanges = dice.below(9);
  out.of_threads = dice.below(3);
  out.borders_aside = dice.chance(4);
  if (dice.chance(2)) out.settled = static_cast<std::uint32_t>(dice.below(9));
  out.parameters = dice.any();
  out.unopened = {dice.name()};
  out.not_seen = {dice.name()};
  if (dice.chance(2)) {
    comparators::BlockDivergence& first = out.first.emplace();
    first.kind = static_cast<comparators::BlockDivergence::Kind>(dice.below(2));
    first.input = static_cast<comparators::BlockDivergence::Input>(dice.below(3));
    first.position = dice.any();
    first.border = random_border(dice);
    if (dice.chance(2)) first.other_out = random_digest(dice);
    if (dice.chance(2)) first.agreed = random_border(dice);
    out.differing = 1;
  }
  if (dice.chance(2)) {
    out.first_parameter = {static_cast<std::uint32_t>(dice.below(9)),
                           dice.name(),
                           random_digest(dice),
                           random_digest(dice),
                           {}};
    out.parameters_differing = 1;
  }
  return out;
}

comparators::NumbersSummary random_numbers(Dice& dice) {
  comparators::NumbersSummary out;
  out.by_name = dice.chance(2);
  out.judged = {configs::NumberKind::kLosses, configs::NumberKind::kState};
  if (dice.chance(2)) out.not_recorded = {configs::NumberKind::kGradients};
  out.steps = dice.any();
  out.results = dice.any();
  if (dice.chance(2)) {
    comparators::ChangedOperators& operators = out.operators.emplace();
    operators.baseline = dice.any();
    operators.candidate = dice.any();
    operators.differing = dice.below(9);
    operators.kinds_baseline.push_back({dice.name(), dice.below(9)});
    if (dice.chance(2)) {
      operators.first_index = dice.any();
      operators.first = random_record(dice);
    }
  }
  return out;
}

comparators::RepeatSummary random_repeat(Dice& dice) {
  comparators::RepeatSummary out;
  for (std::uint64_t i = 2 + dice.below(4); i > 0; --i) {
    out.runs.push_back({dice.name(), dice.name(), dice.chance(3) ? "" : dice.name(), {}});
    if (dice.chance(2)) out.runs.back().first_divergence = dice.any();
  }
  out.judged = dice.below(40);
  out.differing = dice.below(out.judged + 1);
  out.alike = dice.chance(2);
  out.ops.runs = dice.chance(3) ? 0 : dice.any();
  out.ops.flaky = dice.below(5);
  out.ops.assessed = out.ops.flaky + dice.below(1000);
  out.ops.not_assessed = dice.any();
  for (std::uint64_t i = out.ops.flaky; i > 0; --i) {
    comparators::FlakyOp op;
    op.index = dice.any();
    op.record = random_record(dice);
    op.counts = {2 + dice.below(9), 1};
    op.disagreement = comparators::disagreement(op.counts);
    if (dice.chance(2)) op.l2_rel = dice.number();
    if (dice.chance(2)) op.ulp_max = dice.any();
    out.ops.ops.push_back(std::move(op));
  }
  for (std::uint64_t i = dice.below(3); i > 0; --i) out.ops.notes.push_back(dice.name());
  return out;
}

void put_alignment(Dice& dice, Report& report) {
  report.alignment.position = dice.any();
  report.alignment.partial = dice.any();
  report.alignment.reordered = dice.any();
  report.alignment.gave_up = dice.chance(2);
  if (dice.chance(3)) {
    report.name_map.file = dice.name();
    report.name_map.entries.push_back(
        {1 + dice.below(9), "module", dice.name(), dice.name(), dice.any(), dice.any()});
  }
  if (report.first_divergence) {
    report.first_divergence->matched_by = static_cast<comparators::MatchedBy>(dice.below(7));
  }
  if (report.control_flow && dice.chance(2)) {
    report.control_flow->decision = comparators::Decision{
        dice.any(), dice.any(), random_record(dice), dice.name(), dice.name()};
  }
  if (dice.chance(3)) {
    report.ranks = {0, 7};
    report.rank_divergences.push_back({7, dice.chance(2), dice.any(), random_record(dice)});
  }
}

}  // namespace

const std::vector<std::string>& hostile_names() {
  static const std::vector<std::string> kNames = {
      "aten::addmm",
      "encoder.layers.3.linear1",
      "",
      "\x1b[2J\x1b]0;owned\x07",
      "\xc2\x9b"
      "31mcsi",
      "\xe2\x80\xaeright to left",
      "line\xe2\x80\xa8separator\xe2\x80\xa9",
      "::error file=a.py,line=1::pwned",
      "  ::stop-commands::token",
      "text ##[error]pwned",
      "##vso[task.setvariable]",
      "\r\n::set-output name=a::b",
      "\xff\xfe broken \xc3",
      "\xed\xa0\x80 surrogate",
      "\xf4\x90\x80\x80 beyond",
      std::string("nul\0inside", 10),
      "</script><script>alert(1)</script>",
      "\"quoted\" 'twice' `$(reboot)` \\",
      "\xe5\xb1\x82\xe5\xb1\x82\xe5\xb1\x82.\xc3\xa9\xc3\xa8",
      "__proto__",
      "-rf",
      std::string(4096, 'x'),
      std::string(4096, ':'),
      "words " + std::string(500, 'y') + " ::error::" + std::string(500, 'z'),
      std::string(66, 'w') + "::error::x"};
  return kNames;
}

comparators::Report random_report(std::uint32_t seed) {
  Dice dice(seed);
  Report report;
  report.status = static_cast<Status>(dice.below(7));
  report.kind = static_cast<DivergenceKind>(dice.below(9));
  for (std::uint64_t i = dice.below(3); i > 0; --i) {
    report.also.push_back(static_cast<Status>(1 + dice.below(6)));
  }
  for (std::uint64_t i = dice.below(4); i > 0; --i) {
    report.runs.push_back(random_run(dice));
  }
  report.coverage = random_coverage(dice);
  if (dice.chance(2)) report.without_content = {{dice.name(), dice.below(9)}};
  report.policy = dice.name();
  add_surroundings(report, dice);
  if (!dice.chance(3)) {
    report.first_divergence = random_divergence(dice);
  }
  if (dice.chance(3)) {
    comparators::ControlFlow parting;
    if (dice.chance(2)) {
      parting.last_common_baseline = dice.any();
      parting.last_common_candidate = dice.any();
      parting.last_common = random_record(dice);
    }
    parting.baseline_next = dice.name();
    parting.candidate_next = dice.name();
    parting.unmatched_baseline = dice.any();
    parting.unmatched_candidate = dice.any();
    parting.rejoined = dice.chance(2);
    report.control_flow = parting;
  }
  for (std::uint64_t i = dice.below(20); i > 0; --i) {
    report.divergences.push_back(random_divergence(dice));
  }
  report.divergences_total = report.divergences.size() + (report.first_divergence ? 1 : 0) +
                             (dice.chance(2) ? dice.any() >> 8U : 0);
  if (dice.chance(2)) report.repeat = random_repeat(dice);
  for (std::uint64_t i = dice.below(3); i > 0; --i) report.steps.push_back(random_steps(dice));
  for (std::uint64_t i = dice.below(3); i > 0; --i) report.data.push_back(random_data(dice));
  if (dice.chance(3)) {
    report.resume = random_resume(dice);
    if (report.resume->leading() != nullptr) report.kind = DivergenceKind::kRestore;
  }
  if (dice.chance(4)) report.blocks = random_blocks(dice);
  if (dice.chance(4)) report.numbers = random_numbers(dice);
  report.mend = cmd::as_said(dice.name());
  report.seconds = dice.number();
  put_alignment(dice, report);
  return report;
}

}  // namespace repro_check::tests
