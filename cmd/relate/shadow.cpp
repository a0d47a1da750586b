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

ShadowDump::ShadowDump(const ShadowPlan& plan, const comparators::TwoPasses& passes)
    : folder_(std::filesystem::temp_directory_path() / "repro-check-shadow-") {
  write_given(passes);
  ShadowQuestion question;
  question.recorded = {plan.dump, plan.references};
  const comparators::ForwardPass& a = passes.a.pass;
  for (const std::size_t call : comparators::judged_calls(a, passes.related)) {
    const comparators::PassTensor& output = *a.calls[call].output;
    question.tensors.push_back({output.op, output.tensor});
  }
  question.given = folder_.path() / "given";
  question.out = folder_.path() / "shadow";
  const DumpQuestion asked{"shadow", to_text(question), plan.recorder, plan.timeout};
  ShadowAnswer answer = parse_shadow_answer(ask_about_dump(asked, passes.a.dump().manifest()));
  counts_ = answer.outcome.counts;
  cuts_ = std::move(answer.outcome.cuts);
  libtorch_ = std::move(answer.libtorch);
  dump_ = store::open_dump(question.out);
}

void ShadowDump::write_given(const comparators::TwoPasses& passes) const {
  const comparators::ForwardPass& a = passes.a.pass;
  const auto given = comparators::brought_to_a(
      a, passes.numbers_a(), passes.b.pass, passes.numbers_b(), passes.related, passes.rows());
  store::DumpWriterOptions options;
  options.browse = store::DumpWriterOptions::Browse::kNever;
  store::DumpWriter writer(folder_.path() / "given", options);
  core::RunManifest manifest;
  manifest.tool_version = REPRO_CHECK_VERSION;
  manifest.run_name = "given";
  manifest.trace.operators = manifest.trace.tensors = given.size();
  manifest.trace.digest_algorithm = core::kDigestAlgorithm;
  writer.begin(manifest);
  const std::vector<std::size_t> calls = comparators::judged_calls(a, passes.related);
  const auto info = std::make_shared<core::OperatorInfo>();
  const auto site = std::make_shared<core::CallSite>();
  for (std::size_t i = 0; i < given.size(); ++i) {
    const auto bytes = std::as_bytes(std::span(given[i]));
    core::OpRecord record;
    record.index = i;
    record.op = info;
    record.site = site;
    core::TensorRecord output;
    output.role = core::TensorRole::kOutput;
    output.slot = "0";
    output.dtype = core::Dtype::kFloat64;
    output.shape = a.calls[calls[i]].output->content.shape;
    output.device = "cpu";
    output.state = core::ContentState::kHashed;
    output.digest = core::digest_bytes(bytes);
    output.stored = true;
    writer.enter(record);
    if (!writer.has_content(output.content_key())) {
      writer.put_content(output.content_key(), bytes);
    }
    record.results.push_back({core::TensorSlot{0}});
    record.tensors.push_back(std::move(output));
    writer.append(record);
  }
  writer.finish(std::move(manifest));
}

comparators::ShadowValues ShadowDump::values(std::size_t i) const {
  const core::OpRecord record = dump_->op(i);
  if (record.tensors.size() <= comparators::kOtherOutput) {
    throw core::damaged_dump("the shadow lacks values");
  }
  const auto numbers = [&](std::size_t output) {
    return comparators::read_numbers(*dump_, record.tensors[output].content_key());
  };
  return {numbers(comparators::kExactOutput),
          numbers(comparators::kOwnOutput),
          numbers(comparators::kOtherOutput)};
}

}  // namespace repro_check::cmd
