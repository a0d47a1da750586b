// SPDX-License-Identifier: Apache-2.0
#include "cmd/render/text/tensor_section.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "cmd/render/text.h"
#include "cmd/render/words.h"

namespace repro_check::cmd {
namespace {

using comparators::Metric;
using comparators::Sample;
using comparators::TensorMetrics;

void add_part(std::string& text, const std::string& part, std::string_view separator) {
  text.append(text.empty() || part.empty() ? "" : separator).append(part);
}

std::string ulp_text(const TensorMetrics& m) {
  if (!m.ulp_max) {
    return {};
  }
  const std::string mean = m.ulp_mean ? ", mean " + format_error(*m.ulp_mean) : "";
  return fmt::format("ULP max {}{}", format_ulp(*m.ulp_max), mean);
}

std::string sizes_text(const TensorMetrics& m) {
  std::string text = ulp_text(m);
  if (m.max_abs_exact) {
    add_part(text, fmt::format("abs max {}", *m.max_abs_exact), " | ");
  } else if (m.max_abs) {
    add_part(text, "abs max " + format_error(*m.max_abs), " | ");
  }
  if (m.max_rel) {
    add_part(text, "rel max " + format_error(*m.max_rel), " | ");
  }
  return text;
}

// Classes of elements that no error size covers, by name, where there are any.
std::string classes_text(const TensorMetrics& m) {
  const std::array<std::pair<const char*, std::uint64_t>, 8> classes = {{
      {"NaN in baseline only", m.nan_baseline},
      {"NaN in candidate only", m.nan_candidate},
      {"Inf of opposite sign", m.inf_sign},
      {"Inf in baseline only", m.inf_baseline},
      {"Inf in candidate only", m.inf_candidate},
      {"NaN payload", m.nan_both_payload},
      {"sign of zero", m.zero_sign_only},
      {"non-canonical bool", m.noncanonical_bool},
  }};
  std::string text;
  for (const auto& [name, count] : classes) {
    if (count > 0) {
      add_part(text, fmt::format("{} {}", name, format_count(count)), " | ");
    }
  }
  return text;
}

using Items = std::vector<std::string>;

void put_real(Items& items, const char* name, const Metric& metric) {
  if (metric) {
    items.push_back(fmt::format("{} {}", name, format_error(*metric)));
  }
}

void put_count(Items& items, const char* name, std::uint64_t count) {
  if (count > 0) {
    items.push_back(fmt::format("{} {}", name, format_count(count)));
  }
}

// Upper bounds, within a factor of 2.
void put_percentiles(Items& items, const TensorMetrics& m) {
  if (!m.rel_hist) {
    return;
  }
  for (const auto& [name, share] : {std::pair{"50 %", 0.5}, std::pair{"99 %", 0.99}}) {
    const auto bounds = comparators::rel_percentile(*m.rel_hist, share);
    if (bounds && bounds->at_most > 0) {
      items.push_back(fmt::format("rel of {} below {}", name, format_error(bounds->at_most)));
    }
  }
}

// Buckets that hold a difference.
void put_ulps(Items& items, const TensorMetrics& m) {
  if (!m.ulp_hist) {
    return;
  }
  for (std::size_t i = 1; i < m.ulp_hist->size(); ++i) {
    if (m.ulp_hist->at(i) > 0) {
      items.push_back(fmt::format(
          "ULP {}: {}", comparators::kUlpBuckets.at(i), format_count(m.ulp_hist->at(i))));
    }
  }
}

// What the short form leaves out.
Items further_metrics(const TensorMetrics& m) {
  Items items = {"finite pairs " + format_count(m.n_finite),
                 "beyond policy " + format_count(m.n_beyond)};
  put_real(items, "abs mean", m.mean_abs);
  put_real(items, "rel mean", m.mean_rel);
  put_real(items, "rel max where baseline is not 0", m.max_rel_finite);
  if (m.zero_baseline > 0) {
    items.push_back("baseline 0 and candidate not " + format_count(m.zero_baseline));
  }
  put_percentiles(items, m);
  put_count(items, "0 on both sides", m.zeros_both);
  put_count(items, "signs flipped", m.flips);
  put_count(items, "subnormal against 0", m.flushed);
  put_count(items, "saturated", m.saturated);
  put_count(items, "False to True", m.false_to_true);
  put_count(items, "True to False", m.true_to_false);
  put_real(items, "RMSE", m.rmse);
  put_real(items, "NMSE", m.nmse);
  put_real(items, "L2 relative", m.l2_rel);
  put_real(items, "cosine", m.cosine);
  put_real(items, "norm ratio", m.norm_ratio);
  put_real(items, "share within 1/1000", m.within_1e3);
  put_real(items, "share within 5/1000", m.within_5e3);
  put_real(items, "rtol that would pass", m.rtol_needed);
  put_real(items, "atol that would pass", m.atol_needed);
  if (m.rtol_given_atol != m.rtol_needed) {
    put_real(items, "rtol that would pass with this atol", m.rtol_given_atol);
  }
  if (m.atol_given_rtol != m.atol_needed) {
    put_real(items, "atol that would pass with this rtol", m.atol_given_rtol);
  }
  put_ulps(items, m);
  return items;
}

void add_metrics(Page& page, const TensorMetrics& m, const Detail& detail) {
  page.prose("", sizes_text(m));
  page.prose("", classes_text(m));
  if (detail.everything) page.prose("", fmt::format("{}", fmt::join(further_metrics(m), " | ")));
}

// NaN payloads and zeros of unlike sign can read the same, and then only their bits tell them
// apart.
std::string side_text(const Sample& sample, bool baseline) {
  const std::string& text = baseline ? sample.baseline : sample.candidate;
  const std::string& bits = baseline ? sample.baseline_bits : sample.candidate_bits;
  const bool is_ambiguous = sample.baseline == sample.candidate && !bits.empty();
  const std::string prefix = bits.starts_with("0x") ? "" : "0x";
  return escape_name(is_ambiguous ? fmt::format("{} {}{}", text, prefix, bits) : text);
}

std::string index_text(const Sample& sample) {
  return sample.index.empty() && sample.flat_index > 0 ? fmt::format("{}", sample.flat_index)
                                                       : format_index(sample.index);
}

using Row = std::array<std::string, 4>;

void add_samples(Page& page, const std::vector<Sample>& samples, std::size_t limit) {
  const std::size_t count = std::min(limit, samples.size());
  if (count == 0) {
    return;
  }
  const auto has_ulp = [](const Sample& sample) { return sample.ulp.has_value(); };
  const bool with_ulp = std::any_of(samples.begin(), samples.end(), has_ulp);
  std::vector<Row> rows = {{"index", "baseline", "candidate", with_ulp ? "ULP" : ""}};
  for (std::size_t i = 0; i < count; ++i) {
    const Sample& sample = samples[i];
    rows.push_back({index_text(sample),
                    side_text(sample, true),
                    side_text(sample, false),
                    sample.ulp ? format_ulp(*sample.ulp) : std::string(with_ulp ? "-" : "")});
  }
  std::array<std::size_t, 4> widths{};
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths.at(i) = std::max(widths.at(i), columns(row.at(i)));
    }
  }
  for (const Row& row : rows) {
    std::string text;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string spaces(widths.at(i) - columns(row.at(i)), ' ');
      text += (i == 0 ? "" : "  ") + (i == 3 ? spaces + row.at(i) : row.at(i) + spaces);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    page.add("", Line(text, &row == rows.data() ? Role::kHint : Role::kPlain));
  }
}

std::string share_text(const TensorMetrics& m) {
  std::string text = format_percent(m.n_diff, m.elements) + " differ";
  if (m.n_beyond > 0 && m.n_beyond < m.n_diff) {
    text += fmt::format(", {} beyond tolerance", format_percent(m.n_beyond, m.elements));
  }
  return text;
}

}  // namespace

void add_tensor(Page& page,
                std::string_view label,
                const comparators::TensorComparison& tensor,
                const Detail& detail) {
  const std::string type = format_tensor_type(tensor.baseline.dtype, tensor.baseline.shape);
  if (!tensor.metrics) {
    page.prose(label, fmt::format("{}: {}", type, amount_text(tensor)));
    return;
  }
  std::string text = fmt::format("{}: {}", type, share_text(*tensor.metrics));
  if (!tensor.samples.empty()) {
    text += ", first at " + index_text(tensor.samples.front());
  }
  page.prose(label, text);
  if (tensor.slice) {
    page.prose("", "in " + slice_text(tensor) + "; no others are stored");
  }
  page.prose("", escape_name(tensor.note));
  if (tensor.rule) {
    page.prose("", fmt::format("judged by rule {}: {}", *tensor.rule, tensor.policy));
  }
  add_metrics(page, *tensor.metrics, detail);
  add_samples(page, tensor.samples, detail.samples);
}

void add_named_tensor(Page& page,
                      std::string_view label,
                      const comparators::NamedTensorDifference& tensor,
                      const Detail& detail) {
  const std::string name = escape_name(tensor.name);
  if (!tensor.metrics) {
    const std::string note = tensor.note.empty() ? "digests differ" : escape_name(tensor.note);
    page.prose(label, fmt::format("{}: {}", name, note));
    return;
  }
  page.prose(label, fmt::format("{}: {}", name, share_text(*tensor.metrics)));
  page.prose("", escape_name(tensor.note));
  add_metrics(page, *tensor.metrics, detail);
  add_samples(page, tensor.samples, detail.samples);
}

}  // namespace repro_check::cmd
