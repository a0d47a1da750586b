// SPDX-License-Identifier: Apache-2.0
#include "comparators/report/finding.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>

#include "core/text/text.h"

namespace repro_check::comparators {
namespace {

constexpr std::string_view kIds =
    "initial-weights-differ|weights-written-between-steps|running-statistics-drift|"
    "tensor-parallel-other-data|tensor-parallel-other-draws|tensor-parallel-activations-differ|"
    "clipped-by-norms-of-parts|clipped-to-other-norms|clipped-other-parameters|"
    "clipped-before-reduction|clipped-by-own-norm|scaled-by-own-norm|loss-scales-differ|"
    "overflow-not-reduced|reduced-in-parts|clipped-on-some-ranks|step-skipped-on-some-ranks|"
    "gradients-changed-behind-reduction|gradients-changed-behind-backward|called-past-wrapper|"
    "partial-gradients-of-replicas|gradients-of-some-ranks-differ|"
    "unused-parameters-block-reduction|gradients-not-reduced|gradients-missing-on-some-ranks|"
    "some-gradients-not-reduced|parameter-groups-differ|learning-rates-differ|"
    "optimizer-options-differ|optimizer-state-differs|weights-written-beside-optimizer|"
    "weights-part|exchanges-part|collective-mismatch|split-mismatch|content-mismatch|result-"
    "mismatch|"
    "rank-missing|message-missing|ranks-read-same-data|ranks-read-same-samples|"
    "same-order-in-every-epoch|every-worker-reads-all|samples-overlap|trained-and-validated|"
    "samples-padded|norm-lacks-shard|norm-counts-replicas|norm-of-more|steps-skipped|"
    "steps-uneven|steps-ended-by-exception|steps-joined|left-join-uneven|masks-are-copies|"
    "generator-of-another-rank|no-draws-on-some-ranks|parts-are-copies|nan-on-rank|"
    "no-gradients|weights-never-moved|parameters-in-no-optimizer|parameters-without-gradient|"
    "parameters-not-moved|averaged-at-times|samples-equal|sample-contents-differ|"
    "samples-reordered|other-samples|batch-sizes-differ|epoch-repeated|loader-lengths-differ|"
    "read-unwritten|recomputed-otherwise|draws-repeat|drawn-once|"
    "key-is-constant|key-used-twice|copy-did-not-copy|"
    "same-at-every-sync|not-what-the-step-left|step-without-backward|"
    "restored-then-overwritten|untied|dropout-in-eval|trains-in-eval|older-than-weights|"
    "workers-draw-alike|twice-in-a-batch|divisor-zero|weight-without-effect|"
    "lost-in-rounding|filled-on-partial|epoch-never-arrives|"
    "constant-looks-drawn|"
    "state-not-saved|state-not-loaded|"
    "state-used-up|state-misplaced|ranks-of-several-runs|ranks-of-several-attempts|"
    "ranks-of-several-parts|ranks-part-and-meet|error-enters|error-amplified|overflows|"
    "weights-of-earlier-step|weights-misplaced|adapter-not-merged|weights-rounded|"
    "weights-of-other-values|weights-unrelated|weights-unread|"
    "module-with-other-weights|module-beyond-floor|logits-scaled|"
    "training-starts-elsewhere|training-reads-other|loss-beyond-floor|norm-beyond-floor|"
    "gradient-scaled|gradient-partial|gradient-beyond-floor|optimizer-state-beyond-floor|"
    "parameter-beyond-floor|"
    "captured-otherwise|autograd-beyond-floor|decomposition-beyond-floor|kernel-beyond-floor|"
    "compiled-code-draws-its-own|"
    "leaves-unwritten|varies-with-threads|varies-with-alignment|varies-with-environment|"
    "varies-with-batch|decides-on-rounding|fragile";
static_assert(std::ranges::count(kIds, '|') == static_cast<std::ptrdiff_t>(kLastFinding),
              "every FindingId has its id, in its order");

}  // namespace

std::string_view finding_id(FindingId id) noexcept {
  return core::word_at(kIds, static_cast<std::size_t>(id));
}

std::string numbered(std::string_view noun, std::span<const std::uint32_t> numbers) {
  constexpr std::size_t kShown = 8;
  std::vector<std::string> rows;
  std::size_t shown = 0;
  for (std::size_t first = 0, end = 0; first < numbers.size() && rows.size() < kShown;
       first = end) {
    for (end = first + 1; end < numbers.size() && numbers[end] == numbers[end - 1] + 1; ++end) {
    }
    if (end - first > 2) {
      rows.push_back(fmt::format("{}-{}", numbers[first], numbers[end - 1]));
    } else {
      end = first + 1;
      rows.push_back(std::to_string(numbers[first]));
    }
    shown = end;
  }
  if (shown < numbers.size()) rows.back() += fmt::format(" and {} more", numbers.size() - shown);
  return fmt::format("{}{} {}", noun, numbers.size() == 1 ? "" : "s", fmt::join(rows, ", "));
}

}  // namespace repro_check::comparators
