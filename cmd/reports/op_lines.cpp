// SPDX-License-Identifier: Apache-2.0
#include "cmd/reports/op_lines.h"

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "cmd/render/json/report_json.h"
#include "core/error.h"

namespace repro_check::cmd {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 18U;

[[noreturn]] void fail(const std::string& what) {
  throw core::Error(core::ErrorKind::kIo,
                    what + ": " + std::strerror(errno),
                    "point TMPDIR at a directory with room for the lines of every operator");
}

}  // namespace

OpLines::OpLines()
    : file_("repro-check-lines"), out_(file_.path(), std::ios::binary | std::ios::trunc) {
  if (!out_) fail("cannot write " + file_.path().string());
}

comparators::OpObserver OpLines::observer(bool all) {
  comparators::OpObserver observer;
  observer.see = [this](const comparators::OpDivergence& op) {
    ++not_fine_;
    put(jsonl_op(op));
  };
  if (!all) return observer;
  observer.see_fine = [this](const comparators::OpDivergence& op, comparators::OpState state) {
    put(jsonl_fine_op(op, state));
  };
  return observer;
}

void OpLines::put(const std::string& line) {
  out_ << line;
  if (!out_) fail("cannot write " + file_.path().string());
}

void OpLines::write(const comparators::Report& report,
                    const RenderOptions& options,
                    const TextSink& sink) {
  out_.flush();
  if (!out_) fail("cannot write " + file_.path().string());
  sink(jsonl_header(report, options));
  // Records of which none found a counterpart are no divergences after all.
  const bool stands = report.divergences_total != 0 || not_fine_ == 0;
  std::ifstream in(file_.path(), std::ios::binary);
  std::string piece(kPiece, '\0');
  while (stands && in) {
    in.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    sink(std::string_view(piece).substr(0, static_cast<std::size_t>(in.gcount())));
  }
  if (in.bad()) fail("cannot read " + file_.path().string());
  sink(jsonl_end(report, stands ? not_fine_ : 0));
}

}  // namespace repro_check::cmd
