// SPDX-License-Identifier: Apache-2.0
#include "cmd/relate/shadow.h"

#include <span>
#include <utility>

#include "cmd/relate/shadow_message.h"
#include "cmd/replay/replay.h"
#include "core/error.h"
#include "dumpers/store/dump_reader.h"
#include "dumpers/store/dump_writer.h"

namespace repro_check::cmd {

ShadowDump::ShadowDump(const ShadowPlan& plan,
                       const core::RunManifest& of_a,
                       std::vector<replay::RecordedTensor> wanted,
                       const Given& given)
    : folder_(std::filesystem::temp_directory_path() / "repro-check-shadow-") {
  ShadowQuestion question;
  question.recorded = {plan.dump, plan.references};
  question.tensors = std::move(wanted);
  write_given(question.tensors.size(), given);
  question.given = folder_.path() / "given";
  question.out = folder_.path() / "shadow";
  const DumpQuestion asked{"shadow", to_text(question), plan.recorder, plan.timeout};
  ShadowAnswer answer = parse_shadow_answer(ask_about_dump(asked, of_a));
  counts_ = answer.outcome.counts;
  cuts_ = std::move(answer.outcome.cuts);
  libtorch_ = std::move(answer.libtorch);
  dump_ = store::open_dump(question.out);
}

void ShadowDump::write_given(std::size_t count, const Given& given) const {
  store::DumpWriterOptions options;
  options.browse = store::DumpWriterOptions::Browse::kNever;
  store::DumpWriter writer(folder_.path() / "given", options);
  core::RunManifest manifest;
  manifest.tool_version = REPRO_CHECK_VERSION;
  manifest.run_name = "given";
  manifest.trace.operators = count;
  manifest.trace.digest_algorithm = core::kDigestAlgorithm;
  writer.begin(manifest);
  const auto info = std::make_shared<core::OperatorInfo>();
  const auto site = std::make_shared<core::CallSite>();
  for (std::size_t i = 0; i < count; ++i) {
    core::OpRecord record;
    record.index = i;
    record.op = info;
    record.site = site;
    writer.enter(record);
    if (const auto values = given(i)) {
      const auto bytes = std::as_bytes(std::span(values->numbers));
      core::TensorRecord& output = record.tensors.emplace_back();
      output.role = core::TensorRole::kOutput;
      output.slot = "0";
      output.dtype = core::Dtype::kFloat64;
      output.shape = values->shape;
      output.device = "cpu";
      output.state = core::ContentState::kHashed;
      output.digest = core::digest_bytes(bytes);
      output.stored = true;
      const core::ContentKey key = output.content_key();
      if (!writer.has_content(key)) writer.put_content(key, bytes);
      record.results.push_back({core::TensorSlot{0}});
      ++manifest.trace.tensors;
    }
    writer.append(record);
  }
  writer.finish(std::move(manifest));
}

std::vector<std::uint64_t> ShadowDump::cut_operators() const {
  std::vector<std::uint64_t> operators;
  operators.reserve(cuts_.size());
  for (const replay::ShadowCut& cut : cuts_) operators.push_back(cut.op);
  return operators;
}

comparators::ShadowValues ShadowDump::values(std::size_t i) const {
  return {numbers(i, comparators::kExactOutput),
          numbers(i, comparators::kOwnOutput),
          numbers(i, comparators::kOtherOutput)};
}

std::vector<double> ShadowDump::numbers(std::size_t i, std::size_t output) const {
  const core::OpRecord record = dump_->op(i);
  if (record.tensors.size() <= output) throw core::damaged_dump("the shadow lacks values");
  return comparators::read_numbers(*dump_, record.tensors[output].content_key());
}

std::unique_ptr<ShadowDump> shadow_of(const ShadowPlan& plan,
                                      const comparators::TwoPasses& passes) {
  const comparators::ForwardPass& a = passes.a.pass;
  std::vector<std::vector<double>> numbers = comparators::brought_to_a(
      a, passes.numbers_a(), passes.b.pass, passes.numbers_b(), passes.related, passes.rows());
  const std::vector<std::size_t> calls = comparators::judged_calls(a, passes.related);
  std::vector<replay::RecordedTensor> wanted;
  for (const std::size_t call : calls) {
    const comparators::PassTensor& output = *a.calls[call].output;
    wanted.push_back({output.op, output.tensor});
  }
  const auto given = [&](std::size_t i) {
    return GivenValues{a.calls[calls[i]].output->content.shape, std::move(numbers[i])};
  };
  return std::make_unique<ShadowDump>(plan, passes.a.dump().manifest(), std::move(wanted), given);
}

std::unique_ptr<ShadowDump> shadow_of(const ShadowPlan& plan,
                                      const comparators::TwoTrainings& trainings) {
  const std::vector<const comparators::Trained*> tensors = comparators::judged_tensors(trainings);
  std::vector<replay::RecordedTensor> wanted;
  for (const comparators::Trained* tensor : tensors) wanted.push_back({tensor->op, tensor->tensor});
  const auto given = [&](std::size_t i) -> std::optional<GivenValues> {
    auto numbers = comparators::brought_to_a(trainings, *tensors[i]);
    if (!numbers) return std::nullopt;
    return GivenValues{tensors[i]->content.shape, *std::move(numbers)};
  };
  const core::DumpSource& dump = trainings.a.dump_of(trainings.single());
  return std::make_unique<ShadowDump>(plan, dump.manifest(), std::move(wanted), given);
}

std::unique_ptr<ShadowDump> shadow_of(const ShadowPlan& plan, const comparators::TwoRungs& rungs) {
  const std::vector<const comparators::RegionTensor*> tensors = comparators::judged_tensors(rungs);
  std::vector<replay::RecordedTensor> wanted;
  wanted.reserve(tensors.size());
  for (const auto* tensor : tensors) wanted.push_back({tensor->op, tensor->tensor});
  const auto given = [&](std::size_t i) -> std::optional<GivenValues> {
    auto numbers = comparators::brought_to_a(rungs, i);
    if (!numbers) return std::nullopt;
    return GivenValues{tensors[i]->content.shape, *std::move(numbers)};
  };
  return std::make_unique<ShadowDump>(plan, rungs.a->dump->manifest(), std::move(wanted), given);
}

}  // namespace repro_check::cmd
