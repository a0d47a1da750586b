// SPDX-License-Identifier: Apache-2.0
#include "dumpers/imports/msprobe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "core/error.h"
#include "core/text/strict_json.h"
#include "core/text/text.h"
#include "dumpers/imports/file_names.h"
#include "dumpers/imports/tensor_file.h"
#include "dumpers/store/directory/dump_directory.h"

namespace repro_check::imports {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using core::printable;

constexpr const char* kCallsName = "dump.json";
constexpr const char* kStacksName = "stack.json";
constexpr const char* kValuesName = "dump_tensor_data";
constexpr std::uintmax_t kLargestText = std::uintmax_t{4} << 30U;

[[noreturn]] void refuse(const fs::path& file, const std::string& what) {
  throw core::usage_error(printable(file.string()) + ": " + what,
                          "record it again with msprobe, or copy it from an undamaged folder");
}

/// Python writes NaN and Infinity, which JSON has not: as texts.
std::string with_quoted_specials(const std::string& text) {
  constexpr std::array<std::string_view, 3> kSpecials{"-Infinity", "Infinity", "NaN"};
  std::string out;
  out.reserve(text.size());
  bool is_text = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view rest = std::string_view(text).substr(at);
    const auto* special =
        is_text ? kSpecials.end() : std::ranges::find_if(kSpecials, [&](std::string_view each) {
          return rest.starts_with(each);
        });
    if (special != kSpecials.end()) {
      out += fmt::format("\"{}\"", *special);
      at += special->size();
      continue;
    }
    if (is_text && rest[0] == '\\' && rest.size() > 1) {
      out += rest.substr(0, 2);
      at += 2;
      continue;
    }
    if (rest[0] == '"') is_text = !is_text;
    out += rest[0];
    ++at;
  }
  return out;
}

Json read_json(const fs::path& file) {
  const std::string text = with_quoted_specials(store::read_text_file(file, kLargestText));
  auto document = core::read_strict_json(text, [&](const core::JsonFlaw& flaw) {
    if (flaw.kind != core::JsonFlaw::Kind::kInteger) {
      refuse(file, "is damaged: " + printable(flaw.what));
    }
  });
  if (!document || !document->is_object()) refuse(file, "is no JSON object");
  return std::move(*document);
}

/// `step3`, `rank0`: the number behind the word.
std::optional<std::uint32_t> number_after(std::string_view word, const fs::path& name) {
  const std::string text = name.string();
  if (!text.starts_with(word)) return std::nullopt;
  return core::parse_number<std::uint32_t>(std::string_view(text).substr(word.size()));
}

/// `Module.layers.0.Linear.forward.2` in its parts.
struct CallName {
  std::string kind;  ///< `Module`, `Functional`, `Tensor`, `Torch`
  std::string path;  ///< of a module, in the model
  std::string what;  ///< its class, or the function
  bool is_backward = false;
  bool is_gradients = false;  ///< of the parameters of a module
};

CallName call_name(const std::string& name) {
  const auto split = core::split(name, '.');
  std::vector<std::string_view> parts(split.begin(), split.end());
  CallName call;
  call.kind = parts.front();
  parts.erase(parts.begin());
  const auto is_number = [](std::string_view part) {
    return core::parse_number<std::uint64_t>(part).has_value();
  };
  const auto is_way = [&](std::string_view part) {
    return part == "forward" || part == "backward" || part == "parameters_grad";
  };
  // The last two are the way and the number of the call, in either order.
  while (!parts.empty() && (is_way(parts.back()) || is_number(parts.back()))) {
    call.is_gradients = call.is_gradients || parts.back() == "parameters_grad";
    call.is_backward = call.is_backward || call.is_gradients || parts.back() == "backward";
    const bool was_way = is_way(parts.back());
    parts.pop_back();
    if (was_way && (call.kind == "Module" || call.kind == "Cell")) break;
  }
  if (!parts.empty()) {
    call.what = parts.back();
    parts.pop_back();
  }
  for (const std::string_view part : parts) {
    call.path += (call.path.empty() ? "" : ".") + std::string(part);
  }
  return call;
}

class Reader {
 public:
  Reader(const ProbeDump& probe, ImportedDump& dump)
      : probe_(probe), file_(probe.folder / kCallsName), dump_(dump) {}

  void run() {
    const Json document = read_json(file_);
    const auto data = document.find("data");
    if (data == document.end() || !data->is_object()) {
      refuse(file_, "has no member `data` of calls: it is not as msprobe writes it");
    }
    read_stacks();
    for (const auto& [name, call] : data->items()) {
      if (!call.is_object()) refuse(file_, printable(name) + " is no call");
      read_call(name, call);
    }
  }

 private:
  void read_stacks() {
    const fs::path file = probe_.folder / kStacksName;
    if (!fs::exists(file)) return;
    const Json stacks = read_json(file);
    for (const auto& [number, stack] : stacks.items()) {
      if (!stack.is_array() || stack.size() != 2) continue;
      std::vector<core::SourceFrame> frames;
      for (const Json& line : stack[1]) {
        if (line.is_string()) frames.push_back(frame_of(line.get<std::string>()));
      }
      for (const Json& name : stack[0]) {
        if (name.is_string()) frames_[name.get<std::string>()] = frames;
      }
    }
  }

  /// `File /a/train.py, line 12, in forward, \n x = f(x)`
  static core::SourceFrame frame_of(const std::string& line) {
    constexpr std::string_view kFile = "File ";
    constexpr std::string_view kLine = ", line ";
    constexpr std::string_view kIn = ", in ";
    const std::size_t at = line.find(kLine);
    const std::size_t in = line.find(kIn, at);
    if (!line.starts_with(kFile) || at == std::string::npos || in == std::string::npos) return {};
    const std::string_view text(line);
    core::SourceFrame frame;
    frame.file = text.substr(kFile.size(), at - kFile.size());
    frame.line =
        core::parse_number<std::uint32_t>(text.substr(at + kLine.size(), in - at - kLine.size()))
            .value_or(0);
    const std::size_t begin = in + kIn.size();
    frame.function = text.substr(begin, text.find(',', begin) - begin);
    return frame;
  }

  void read_call(const std::string& full, const Json& call) {
    const CallName name = call_name(full);
    record_ = {};
    auto info = std::make_shared<core::OperatorInfo>();
    info->name = name.kind + "::" + (name.is_gradients ? "parameters_grad" : name.what);
    auto site = std::make_shared<core::CallSite>();
    site->module_path = name.path;
    if (name.kind == "Module" || name.kind == "Cell") site->module_type = name.what;
    const auto frames = frames_.find(full);
    if (frames != frames_.end()) site->frames = frames->second;
    record_.op = std::move(info);
    record_.site = std::move(site);
    record_.step = probe_.step;
    record_.phase = name.is_backward ? core::Phase::kBackward : core::Phase::kForward;
    using core::TensorRole;
    for (const char* part : {"input_args", "input_kwargs", "input"}) {
      if (call.contains(part)) read_values(call[part], "input", TensorRole::kInput);
    }
    if (call.contains("parameters")) {
      named_below_ = name.path;
      read_values(call["parameters"], "parameters", TensorRole::kInput);
      named_below_.reset();
    }
    if (name.is_gradients) {
      read_values(call, "grad", TensorRole::kOutput);
    } else if (call.contains("output")) {
      read_values(call["output"], "output", TensorRole::kOutput);
    }
    // Inputs first.
    std::ranges::stable_sort(record_.tensors, {}, &core::TensorRecord::role);
    for (std::uint32_t i = 0; i < record_.tensors.size(); ++i) {
      const core::TensorRecord& tensor = record_.tensors[i];
      core::Value value{core::TensorSlot{i}};
      if (core::is_input(tensor)) {
        record_.arguments.push_back({tensor.slot, std::move(value)});
      } else {
        record_.results.push_back(std::move(value));
      }
    }
    for (core::Value& each : statistics_) record_.results.push_back(std::move(each));
    statistics_.clear();
    dump_.append(std::move(record_));
  }

  /// One value, or a list or dict of them.
  void read_values(const Json& value, const std::string& path, core::TensorRole role) {
    if (value.is_array()) {
      for (std::size_t i = 0; i < value.size(); ++i) {
        read_values(value[i], fmt::format("{}.{}", path, i), role);
      }
    } else if (value.is_object() && value.contains("shape") && value.contains("dtype")) {
      read_tensor(value, path, role);
    } else if (value.is_object() && value.contains("type") && value.contains("value")) {
      if (role == core::TensorRole::kInput) {
        record_.arguments.push_back({path, scalar_of(value["value"])});
      } else {
        statistics_.push_back(scalar_of(value["value"]));
      }
    } else if (value.is_object()) {
      for (const auto& [key, each] : value.items()) {
        read_values(each, fmt::format("{}.{}", path, key), role);
      }
    }
  }

  static core::Value scalar_of(const Json& value) {
    if (value.is_boolean()) return {value.get<bool>()};
    if (value.is_number_integer()) return {value.get<std::int64_t>()};
    if (value.is_number()) return {value.get<double>()};
    if (value.is_string()) return {value.get<std::string>()};
    if (value.is_null()) return {};
    return {value.dump()};
  }

  void read_tensor(const Json& said, const std::string& path, core::TensorRole role) {
    core::TensorRecord tensor;
    const auto stored = said.find("data_name");
    if (stored != said.end() && stored->is_string() && *stored != "-1") {
      tensor = stored_tensor(stored->get<std::string>());
    } else {
      tensor.dtype = core::parse_dtype(core::lower(said["dtype"].get<std::string>()))
                         .value_or(core::Dtype::kUnknown);
      tensor.shape = said["shape"].get<std::vector<std::int64_t>>();
      tensor.device = "cpu";
      tensor.state = core::ContentState::kExcluded;
      if (role == core::TensorRole::kOutput) read_statistics(said);
    }
    tensor.role = role;
    tensor.slot = path;
    tensor.requires_grad = said.value("requires_grad", false);
    if (named_below_) {
      const std::string own = path.substr(path.find('.') + 1);
      tensor.name = "state:" + (named_below_->empty() ? own : *named_below_ + "." + own);
    }
    record_.tensors.push_back(std::move(tensor));
  }

  /// Compared exactly; that they are equal proves nothing of the values.
  void read_statistics(const Json& said) {
    for (const char* each : {"Max", "Min", "Mean", "Norm", "md5"}) {
      if (said.contains(each)) statistics_.push_back(scalar_of(said[each]));
    }
  }

  core::TensorRecord stored_tensor(const std::string& name) {
    const fs::path file = probe_.folder / kValuesName / name;
    // Not what lies anywhere else.
    if (fs::path(name).filename() != name) refuse(file_, printable(name) + " is no name of a file");
    std::optional<core::TensorRecord> tensor;
    visit_tensors(file, [&](const FileTensor& found) {
      if (tensor) refuse(file, "holds several tensors");
      tensor = dump_.keep(found.values);
    });
    if (!tensor) refuse(file, "holds no tensor");
    return std::move(*tensor);
  }

  const ProbeDump& probe_;
  const fs::path file_;
  ImportedDump& dump_;
  std::map<std::string, std::vector<core::SourceFrame>> frames_;  ///< by the names of calls
  core::OpRecord record_;
  std::vector<core::Value> statistics_;     ///< of its outputs
  std::optional<std::string> named_below_;  ///< the module whose parameters are read
};

}  // namespace

std::vector<ProbeDump> find_probe_dumps(const fs::path& folder) {
  std::vector<ProbeDump> found;
  const auto see = [&](const fs::path& file) {
    if (file.filename() != kCallsName) return;
    ProbeDump& probe = found.emplace_back(ProbeDump{file.parent_path(), 0, {}});
    for (const fs::path& part : file.parent_path()) {
      if (const auto step = number_after("step", part)) probe.step = *step;
      if (const auto rank = number_after("rank", part)) probe.rank = rank;
    }
  };
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) see(entry.path());
  }
  std::ranges::sort(found, [](const ProbeDump& a, const ProbeDump& b) {
    return std::tuple(a.rank, a.step, a.folder) < std::tuple(b.rank, b.step, b.folder);
  });
  return found;
}

void import_probe_dump(const ProbeDump& probe, ImportedDump& dump) {
  try {
    Reader(probe, dump).run();
  } catch (const Json::exception& error) {
    refuse(probe.folder / kCallsName, std::string("is not as msprobe writes it: ") + error.what());
  }
}

}  // namespace repro_check::imports
